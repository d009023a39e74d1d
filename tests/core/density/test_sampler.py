"""Algorithm 2, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bohb.core.density.observations import Observations
from bohb.core.density.sampler import Model, fit_model, min_points, model_budget, propose, split
from bohb.core.settings import HPBANDSTER, PAPER, Settings
from bohb.core.space import Space
from bohb.core.trial import Origin
from tests.core import spaces


def observed(space: Space, losses: list[float], seed: int = 0) -> Observations:
    d_b = Observations(space.d)
    for i, loss in enumerate(losses):
        d_b.add(space.encode(space.sample(np.random.default_rng([seed, i]))), loss)
    return d_b


# (N_b, N_min) -> (N_l, N_g) by Eq. 3 with q = 0.15
EQ_3 = {
    (9, 7): (7, 7),
    (14, 7): (7, 7),
    (20, 7): (7, 13),
    (46, 7): (7, 39),
    (47, 7): (7, 40),
    (54, 7): (8, 46),
    (100, 7): (15, 85),
    (19, 17): (17, 17),
    (20, 3): (3, 17),
    (1000, 17): (150, 850),
}


@pytest.mark.parametrize(("n", "n_min"), list(EQ_3))
def test_the_split_is_that_of_equation_3(n: int, n_min: int) -> None:
    assert split(n, n, n_min, PAPER) == EQ_3[n, n_min]


def test_good_are_the_best_and_bad_the_worst_overlapping_as_little_as_possible() -> None:
    space = Space({"x": (0.0, 1.0), "y": (0.0, 1.0)})
    d_b = Observations(2)
    for loss in (4.0, 0.0, 3.0, 1.0, 2.0):
        d_b.add(np.array([loss / 10, 0.5]), loss)
    model = fit_model(space, 1, d_b, PAPER)
    assert model.good.points[:, 0].tolist() == [0.0, 0.1, 0.2]
    assert model.bad.points[:, 0].tolist() == [0.2, 0.3, 0.4]


@given(st.integers(1, 300), st.integers(1, 20), st.data())
def test_both_sets_have_n_min_points_and_no_observation_is_left_out(n: int, n_min: int, data: st.DataObject) -> None:
    n = n + n_min + 2
    n_finite = data.draw(st.integers(1, n))
    n_good, n_bad = split(n, n_finite, n_min, PAPER)
    assert n_min <= n_bad <= n
    assert 1 <= n_good <= n_finite
    if n_finite == n:
        assert n_good >= n_min
        assert n_good + n_bad >= n


def test_the_model_begins_at_n_min_plus_2_observations_of_the_largest_such_budget() -> None:
    space = Space({f"x{i}": (0.0, 1.0) for i in range(6)})
    n_min = min_points(space, PAPER)
    assert n_min == 7
    few, enough = observed(space, [1.0] * 8), observed(space, [1.0] * 9)
    assert model_budget({1: few}, n_min, PAPER) is None
    assert model_budget({1: enough, 3: enough, 9: few}, n_min, PAPER) == 3
    assert model_budget({3: enough, 1: observed(space, [1.0] * 50)}, n_min, PAPER) == 3
    assert model_budget({}, n_min, PAPER) is None


def test_a_budget_on_which_everything_failed_has_no_model() -> None:
    space = Space({"x": (0.0, 1.0)})
    failed, fine = observed(space, [math.inf] * 20), observed(space, [1.0] * 20)
    assert model_budget({1: fine, 3: failed}, 2, PAPER) == 1


def test_failed_evaluations_are_bad_and_never_good_while_there_are_finite_ones() -> None:
    space = Space({"x": (0.0, 1.0)})
    d_b = Observations(1)
    for i in range(20):
        d_b.add(np.array([i / 20]), 1.0 if i == 3 else math.inf)
    model = fit_model(space, 1, d_b, PAPER)
    assert model.good.points.tolist() == [[3 / 20]]
    assert len(model.bad.points) == 19
    assert model.good.bandwidths[0] > 0.05  # one point does not pretend to know the spread


def proposals(space: Space, model: Model | None, settings: Settings, n: int = 300) -> list[Any]:
    return [propose(np.random.default_rng([1, i]), space, settings, lambda: model) for i in range(n)]


def test_a_third_of_the_proposals_is_random_and_the_rest_comes_from_the_model() -> None:
    space = Space({"x": (0.0, 1.0), "c": ["a", "b"]})
    model = fit_model(space, 1, observed(space, list(np.linspace(0, 1, 30))), PAPER)
    origins = [proposal.origin for proposal in proposals(space, model, PAPER, 1500)]
    assert origins.count(Origin.RANDOM) / 1500 == pytest.approx(1 / 3, abs=0.05)
    assert set(origins) == {Origin.RANDOM, Origin.MODEL}
    assert {p.origin for p in proposals(space, model, Settings(random_fraction=1))} == {Origin.RANDOM}
    assert {p.origin for p in proposals(space, model, Settings(random_fraction=0))} == {Origin.MODEL}
    assert {p.origin for p in proposals(space, None, Settings(random_fraction=0))} == {Origin.RANDOM}


def test_the_proposal_is_the_candidate_with_the_highest_ratio() -> None:
    space = Space({"x": (0.0, 1.0), "n": (1, 5), "c": ["a", "b", "c"]})
    settings = Settings(random_fraction=0)
    model = fit_model(space, 3.0, observed(space, list(np.linspace(0, 1, 40))), settings)
    for i in range(20):
        proposal = propose(np.random.default_rng([1, i]), space, settings, lambda: model)
        assert proposal is not None
        rng = np.random.default_rng([1, i])
        rng.random()
        candidates = space.snap(model.good.sample(rng, 64, 3, settings.widen_categorical))
        ratios = model.log_ratio(candidates)
        assert proposal.config == space.decode(candidates[ratios.argmax()])
        assert proposal.reason["log_ratio"] == pytest.approx(ratios.max(), abs=1e-8)
        assert proposal.reason["model_budget"] == 3.0


@pytest.mark.parametrize("n", [12, 300, 3000])
def test_a_rough_look_never_rules_out_the_best_candidate(n: int) -> None:
    space = Space({"x": (0.0, 1.0), "y": (0.0, 1.0), "c": ["a", "b", "c"]})
    rng = np.random.default_rng(n)
    few = 0
    for spread in (0.5, 0.05, 0.001):
        d_b = Observations(3)
        for i in range(n):
            centre = 0.5 + spread * (rng.random(2) - 0.5) if i < n / 2 else rng.random(2)
            d_b.add(np.array([*centre, rng.integers(3)]), float(i))
        model = fit_model(space, 1, d_b, PAPER)
        for seed in range(20):
            candidates = model.good.sample(np.random.default_rng(seed), 64, 3)
            contenders, ratios = model.contenders(candidates)
            exact = model.log_ratio(candidates)
            assert exact.argmax() in contenders
            np.testing.assert_allclose(ratios, exact[contenders], atol=1e-9)
            few += len(contenders) < 10
    assert few >= 20


def test_the_model_finds_the_good_corner() -> None:
    space = Space({"x": (0.0, 1.0), "y": (0.0, 1.0), "c": ["good", "bad", "ugly"]})
    rng = np.random.default_rng(0)
    d_b = Observations(3)
    for _ in range(60):
        config = space.sample(rng)
        d_b.add(space.encode(config), config["x"] + config["y"] + (config["c"] != "good"))
    drawn = proposals(space, fit_model(space, 1, d_b, PAPER), Settings(random_fraction=0), 100)
    assert np.mean([p.config["x"] + p.config["y"] for p in drawn]) < 0.7
    assert np.mean([p.config["c"] == "good" for p in drawn]) > 0.9


@pytest.mark.parametrize("name", sorted(spaces.ALL))
def test_proposals_in_conditional_and_constrained_spaces_are_legal_and_model_based(name: str) -> None:
    space = Space(spaces.ALL[name]())
    settings = Settings(random_fraction=0)
    model = fit_model(space, 1, observed(space, list(np.linspace(0, 1, 80))), settings)
    for proposal in proposals(space, model, settings, 100):
        assert proposal.origin is Origin.MODEL
        space.encode(proposal.config)  # raises unless it is legal


def test_a_conditional_child_is_learnt_although_it_is_often_inactive() -> None:
    space = Space(spaces.conditional())
    d_b = Observations(space.d)
    for i in range(150):
        config = space.sample(np.random.default_rng(i))
        loss = abs(config["trees"] - 80) / 100 if config["algo"] == "forest" else 2.0
        d_b.add(space.encode(config), loss)
    drawn = proposals(space, fit_model(space, 1, d_b, PAPER), Settings(random_fraction=0), 100)
    trees = [p.config["trees"] for p in drawn if p.config["algo"] == "forest"]
    assert len(trees) > 80
    assert abs(np.mean(trees) - 80) < 10


def test_what_is_not_allowed_is_not_proposed_and_nothing_left_is_said() -> None:
    space = Space({"c": ["a", "b", "c"]})
    model = fit_model(space, 1, observed(space, [0.0] * 10), PAPER)
    only_b = [
        propose(np.random.default_rng(i), space, PAPER, lambda: model, lambda config: config["c"] == "b")
        for i in range(50)
    ]
    assert {p.config["c"] for p in only_b if p is not None} == {"b"}
    assert propose(np.random.default_rng(0), space, PAPER, lambda: model, lambda _: False) is None


def test_the_hpbandster_preset_waits_for_two_disjoint_sets() -> None:
    space = Space({f"x{i}": (0.0, 1.0) for i in range(6)})
    assert model_budget({1: observed(space, [1.0] * 13)}, 7, HPBANDSTER) is None
    assert model_budget({1: observed(space, [1.0] * 14)}, 7, HPBANDSTER) == 1
    assert split(14, 14, 7, HPBANDSTER) == (7, 7)
    assert split(21, 21, 7, HPBANDSTER) == (7, 14)
    assert split(50, 50, 7, HPBANDSTER) == (7, 42)  # the reference drops the single worst point here, too


@given(st.lists(st.floats(0, 1) | st.just(math.inf), min_size=1, max_size=200))
def test_observations_are_kept_in_the_order_of_their_losses(losses: list[float]) -> None:
    d_b = Observations(1)
    for i, loss in enumerate(losses):
        d_b.add(np.array([float(i)]), loss)
    order = sorted(range(len(losses)), key=lambda i: losses[i])  # stable: ties in order of arrival
    assert d_b.ranked(0, len(losses))[:, 0].tolist() == order
    assert d_b.losses.tolist() == sorted(losses)
    assert (len(d_b), d_b.n_finite) == (len(losses), sum(map(math.isfinite, losses)))
