"""Algorithm 2, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bohb import BOHB
from bohb.core.events import ObservationAdded
from bohb.core.samplers.density import Model, fit_model, min_points, model_budget, points_needed, propose_by, split
from bohb.core.samplers.observations import Observations
from bohb.core.samplers.proposal import Declined, Proposal, Situation, propose_random
from bohb.core.settings import PRESETS, Settings
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
    assert split(n, n, n_min, Settings()) == EQ_3[n, n_min]


def test_good_are_the_best_and_bad_the_worst_overlapping_as_little_as_possible() -> None:
    space = Space({"x": (0.0, 1.0), "y": (0.0, 1.0)})
    d_b = Observations(2)
    for loss in (4.0, 0.0, 3.0, 1.0, 2.0):
        d_b.add(np.array([loss / 10, 0.5]), loss)
    model = fit_model(space, 1, d_b, Settings())
    assert model.good.points[:, 0].tolist() == [0.0, 0.1, 0.2]
    assert model.bad.points[:, 0].tolist() == [0.2, 0.3, 0.4]


@given(st.integers(1, 300), st.integers(1, 20), st.data())
def test_both_sets_have_n_min_points_and_no_observation_is_left_out(n: int, n_min: int, data: st.DataObject) -> None:
    n = n + n_min + 2
    n_finite = data.draw(st.integers(1, n))
    n_good, n_bad = split(n, n_finite, n_min, Settings())
    assert n_min <= n_bad <= n
    assert 1 <= n_good <= n_finite
    if n_finite == n:
        assert n_good >= n_min
        assert n_good + n_bad >= n


def test_the_model_begins_at_n_min_plus_2_observations_of_the_largest_such_budget() -> None:
    space = Space({f"x{i}": (0.0, 1.0) for i in range(6)})
    assert min_points(space, Settings()) == 7
    needed = points_needed(space, Settings())
    assert needed == 9
    few, enough = observed(space, [1.0] * 8), observed(space, [1.0] * 9)
    assert model_budget({1: few}, needed) is None
    assert model_budget({1: enough, 3: enough, 9: few}, needed) == 3
    assert model_budget({3: enough, 1: observed(space, [1.0] * 50)}, needed) == 3
    assert model_budget({}, needed) is None


def test_a_budget_on_which_everything_failed_has_no_model() -> None:
    space = Space({"x": (0.0, 1.0)})
    failed, fine = observed(space, [math.inf] * 20), observed(space, [1.0] * 20)
    assert model_budget({1: fine, 3: failed}, 4) == 1


def test_failed_evaluations_are_bad_and_never_good_while_there_are_finite_ones() -> None:
    space = Space({"x": (0.0, 1.0)})
    d_b = Observations(1)
    for i in range(20):
        d_b.add(np.array([i / 20]), 1.0 if i == 3 else math.inf)
    model = fit_model(space, 1, d_b, Settings())
    assert model.good.points.tolist() == [[3 / 20]]
    assert len(model.bad.points) == 19
    assert model.good.bandwidths[0] > 0.05  # one point has no spread


def situation(space: Space, is_new: Callable[[Any], bool] = lambda _: True) -> Situation:
    """A study that has no results yet."""
    return Situation(BOHB(space.configspace, budgets=[1], seed=0, preset="paper").history, 1, is_new, None)


def proposals(space: Space, model: Model, n: int) -> list[Proposal]:
    where = situation(space)
    drawn = [propose_by(model, np.random.default_rng([1, i]), where) for i in range(n)]
    return [proposal for proposal in drawn if isinstance(proposal, Proposal)]


@pytest.mark.parametrize(("share", "known"), [(1 / 3, 30), (0.0, 30), (1.0, 30), (0.0, 0)])
def test_the_share_rho_is_random_and_the_rest_comes_from_the_model(share: float, known: int) -> None:
    """Without results, all configurations are random."""
    space = Space({"x": (0.0, 1.0), "c": ["a", "b"]})
    configs = [space.sample(np.random.default_rng(i)) for i in range(known)]
    observations = [ObservationAdded(i, config, 1.0, i / 30) for i, config in enumerate(configs)]
    empty = BOHB(space.configspace, budgets=[1], seed=0, preset="paper", random_fraction=share)
    origins = [trial.origin for trial in BOHB.from_events([*empty.events, *observations]).ask_many(600)]
    assert set(origins) <= {Origin.RANDOM, Origin.MODEL}
    expected = share if known else 1.0
    assert origins.count(Origin.RANDOM) / 600 == pytest.approx(expected, abs=0 if expected in (0, 1) else 0.06)


def test_the_proposal_is_the_candidate_with_the_highest_ratio() -> None:
    space = Space({"x": (0.0, 1.0), "n": (1, 5), "c": ["a", "b", "c"]})
    model = fit_model(space, 3.0, observed(space, list(np.linspace(0, 1, 40))), Settings())
    for i in range(20):
        proposal = propose_by(model, np.random.default_rng([1, i]), situation(space))
        assert isinstance(proposal, Proposal)
        rng = np.random.default_rng([1, i])
        candidates = space.snap(model.good.sample(rng, 64, 3, Settings().widen_categorical))
        ratios = model.log_ratio(candidates)
        assert proposal.config == space.decode(candidates[ratios.argmax()])
        assert proposal.reason["log_ratio"] == pytest.approx(ratios.max(), rel=1e-3)
        assert proposal.reason["model_budget"] == 3.0


def test_the_model_finds_the_good_corner() -> None:
    space = Space({"x": (0.0, 1.0), "y": (0.0, 1.0), "c": ["good", "bad", "ugly"]})
    rng = np.random.default_rng(0)
    d_b = Observations(3)
    for _ in range(60):
        config = space.sample(rng)
        d_b.add(space.encode(config), config["x"] + config["y"] + (config["c"] != "good"))
    drawn = proposals(space, fit_model(space, 1, d_b, Settings()), 100)
    assert np.mean([p.config["x"] + p.config["y"] for p in drawn]) < 0.7
    assert np.mean([p.config["c"] == "good" for p in drawn]) > 0.9


@pytest.mark.parametrize("name", sorted(spaces.ALL))
def test_proposals_in_conditional_and_constrained_spaces_are_legal_and_model_based(name: str) -> None:
    space = Space(spaces.ALL[name]())
    model = fit_model(space, 1, observed(space, list(np.linspace(0, 1, 80))), Settings())
    drawn = proposals(space, model, 100)
    assert len(drawn) == 100
    for proposal in drawn:
        assert proposal.origin is Origin.MODEL
        space.encode(proposal.config)  # raises unless it is legal


def test_a_conditional_child_is_learnt_although_it_is_often_inactive() -> None:
    space = Space(spaces.conditional())
    d_b = Observations(space.d)
    for i in range(150):
        config = space.sample(np.random.default_rng(i))
        loss = abs(config["trees"] - 80) / 100 if config["algo"] == "forest" else 2.0
        d_b.add(space.encode(config), loss)
    drawn = proposals(space, fit_model(space, 1, d_b, Settings()), 100)
    trees = [p.config["trees"] for p in drawn if p.config["algo"] == "forest"]
    assert len(trees) > 80
    assert abs(np.mean(trees) - 80) < 10


def test_only_new_configurations_are_proposed_and_nothing_if_none_is_left() -> None:
    space = Space({"c": ["a", "b", "c"]})
    model = fit_model(space, 1, observed(space, [0.0] * 10), Settings())
    only_b = situation(space, is_new=lambda config: config["c"] == "b")
    for i in range(50):
        by_model = propose_by(model, np.random.default_rng(i), only_b)
        by_chance = propose_random(np.random.default_rng(i), only_b, "")
        assert isinstance(by_model, Proposal)
        assert by_chance is not None
        assert by_model.config == by_chance.config == {"c": "b"}
    nothing = situation(space, is_new=lambda _: False)
    assert propose_by(model, np.random.default_rng(0), nothing) == Declined("no candidate allowed")
    assert propose_random(np.random.default_rng(0), nothing, "") is None


def test_the_hpbandster_preset_waits_for_two_disjoint_sets() -> None:
    space = Space({f"x{i}": (0.0, 1.0) for i in range(6)})
    assert points_needed(space, PRESETS["hpbandster"]) == 14
    assert split(14, 14, 7, PRESETS["hpbandster"]) == (7, 7)
    assert split(21, 21, 7, PRESETS["hpbandster"]) == (7, 14)
    assert split(50, 50, 7, PRESETS["hpbandster"]) == (7, 42)  # the reference also drops the single worst point here


@given(st.lists(st.floats(0, 1) | st.just(math.inf), min_size=1, max_size=200))
def test_observations_are_kept_in_the_order_of_their_losses(losses: list[float]) -> None:
    d_b = Observations(1)
    for i, loss in enumerate(losses):
        d_b.add(np.array([float(i)]), loss)
    order = sorted(range(len(losses)), key=lambda i: losses[i])  # stable: ties in order of arrival
    assert d_b.ranked(0, len(losses))[:, 0].tolist() == order
    assert d_b.losses.tolist() == sorted(losses)
    assert (len(d_b), d_b.n_finite) == (len(losses), sum(map(math.isfinite, losses)))
