"""The search for the highest acquisition: what it leaves, that it is legal, and that last bits do not decide."""

from __future__ import annotations

from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest

import bohb
from bohb.core.samplers.gaussian import GaussianSampler, Surrogate
from bohb.core.samplers.proposal import Proposal, Situation
from bohb.core.samplers.search import apart, changes, climb, mutations, scorer, search
from bohb.core.space import Array, Space
from tests.core import spaces

BUMPS = np.random.default_rng(7).random((6, 12))
SPACES: dict[str, Any] = {
    "numbers": {f"x{j}": (0.0, 1.0) for j in range(5)},
    "choices": {**{f"x{j}": (0.0, 1.0) for j in range(3)}, "a": ["u", "v", "w"], "b": ["u", "v"], "n": (1, 9)},
    "conditional": spaces.conditional(),
    "many": {f"x{j}": (0.0, 1.0) for j in range(12)},
}


def state(name: str, trials: int, seed: int = 0) -> tuple[Surrogate, Situation, GaussianSampler]:
    """A study of a loss with several valleys, at a moment when the process proposes."""
    study = bohb.BOHB(SPACES[name], min_budget=1, max_budget=9, seed=seed, preset="best", random_fraction=0.7)
    space = study.space
    for _ in range(trials):
        trial = study.ask()
        x = np.nan_to_num(space.encode(trial.config), nan=0.5) / np.maximum(space.choices, 1)
        valleys = np.exp(-4 * ((x - BUMPS[:, : space.d]) ** 2).sum(axis=1))
        study.tell(trial, float(1 - valleys.max() + 0.05 / trial.budget))
    sampler = GaussianSampler(space)
    surrogate = sampler.surrogate(study.history)
    assert surrogate is not None
    return surrogate, Situation(study.history, 1.0, lambda _: True, None), sampler


def proposed(surrogate: Surrogate, situation: Situation, sampler: GaussianSampler, seed: int, rise: Any) -> Array:
    found = search(np.random.default_rng(seed), surrogate, sampler.is_new(situation), situation, rise)
    assert isinstance(found, Proposal)
    return situation.space.encode(found.config)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("near", [False, True])
def test_slopes_are_those_of_log_ei(name: str, near: bool) -> None:
    surrogate, situation, _ = state(name, 40)
    space, rng = situation.space, np.random.default_rng(1)
    X = mutations(rng, space, surrogate.parents, 30, 0.01) if near else space.draw(rng, 30)
    number = space.choices == 0
    X = np.where(number, np.clip(X, 0.01, 0.99), X)
    score, slopes = surrogate.rise(X)
    assert score == pytest.approx(surrogate.log_improvement(X))
    assert not slopes[:, ~number].any()
    for j in np.flatnonzero(number):
        step = 1e-6 * (np.arange(space.d) == j)
        higher, lower = surrogate.log_improvement(X + step), surrogate.log_improvement(X - step)
        active = ~np.isnan(X[:, j])
        differences = ((higher - lower) / 2e-6)[active]
        right = np.isclose(slopes[active, j], differences, rtol=1e-2, atol=1e-2 * np.abs(slopes).max(axis=1)[active])
        assert right.mean() > 0.9  # the slope jumps where another known configuration is the nearest
        assert not slopes[~active, j].any()


def reference(surrogate: Surrogate, situation: Situation) -> float:
    """The highest score that 100 long climbs and 4000 candidates find."""
    space, rng = situation.space, np.random.default_rng(99)
    X = np.vstack([space.draw(rng, 2000), mutations(rng, space, surrogate.parents, 2000)])
    score = scorer(surrogate, situation)(X)
    best = apart(X, score, 0.05, 100)
    _, reached = climb(surrogate.rise, space, X[best], (100,) * 25, np.full(len(best), 0.05))
    return float(max(score.max(), reached.max()))


def test_little_of_log_ei_is_left_and_less_than_by_random_steps() -> None:
    left: dict[bool, list[float]] = {True: [], False: []}
    for name in SPACES:
        for seed in range(3):
            surrogate, situation, sampler = state(name, 25 + 15 * seed, seed)
            best, score = reference(surrogate, situation), scorer(surrogate, situation)
            for gradient, gaps in left.items():
                x = proposed(surrogate, situation, sampler, seed, surrogate.rise if gradient else None)
                gaps.append(best - float(score(x[None, :])[0]))
    assert np.mean(left[True]) < 0.1
    assert np.mean(left[True]) < np.mean(left[False]) / 3
    assert min(left[True]) > -0.5  # the reference is one


@pytest.mark.parametrize("name", SPACES)
def test_the_last_bits_of_linear_algebra_do_not_decide(name: str) -> None:
    for seed in range(4):
        surrogate, situation, sampler = state(name, 30, seed)
        noise = np.random.default_rng(seed)

        def disturbed(X: Array, surrogate: Surrogate = surrogate, noise: Any = noise) -> tuple[Array, Array]:
            score, slopes = surrogate.rise(X)
            return score + 1e-11 * noise.standard_normal(len(X)), slopes * (1 + 1e-10 * noise.standard_normal(X.shape))

        one, other = (proposed(surrogate, situation, sampler, seed, rise) for rise in (surrogate.rise, disturbed))
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("name", SPACES)
def test_climbing_stays_in_the_space_and_never_loses(name: str) -> None:
    surrogate, situation, _ = state(name, 30)
    space = situation.space
    X = space.draw(np.random.default_rng(3), 20)
    before = surrogate.rise(X)[0]
    reached, score = climb(surrogate.rise, space, X, (20,) * 6, np.full(20, 0.1))
    assert np.array_equal(space.snap(np.nan_to_num(reached, nan=0.5)), reached, equal_nan=True)
    assert np.all(score >= np.sort(before)[::-1] - 1e-9)
    assert score.mean() > before.mean() + 0.1
    assert np.all(np.diff(score) <= 1e-6)  # best first


def test_climbing_finds_the_top_of_a_hill_inside_and_at_the_bounds() -> None:
    space, top = Space({f"x{j}": (0.0, 1.0) for j in range(4)}), np.array([0.3, 0.7, 1.4, -0.2])
    widths = np.array([0.1, 0.3, 1.0, 1.0])

    def hill(X: Array) -> tuple[Array, Array]:
        z = (X - top) / widths
        return -0.5 * (z**2).sum(axis=1), -z / widths

    X = space.draw(np.random.default_rng(0), 10)
    reached, _ = climb(hill, space, X, (10,) * 20, np.full(10, 0.1))
    assert np.abs(reached - np.clip(top, 0, 1)).max() < 0.01


def test_starts_are_the_best_that_are_apart() -> None:
    X = np.array([[0.5, 0.5], [0.55, 0.45], [0.5, 0.7], [0.9, 0.5], [0.91, 0.5]])
    assert apart(X, np.array([5.0, 4.0, 1.0, 2.0, 3.0]), 0.1, 3) == [0, 4, 2]
    assert apart(X, np.array([5.0, 4.0, 1.0, 2.0, 3.0]), 0.1, 2) == [0, 4]


def test_changes_try_every_possible_choice_and_both_ends_of_every_range() -> None:
    space = CS.ConfigurationSpace()
    space.add(CS.Float("x", (0, 1)), CS.Categorical("c", ["never", "a", "b"], weights=[0, 1, 1]))
    compiled = Space(space)
    X = compiled.encode({"x": 0.5, "c": "a"})[None, :]
    x, c = compiled.names.index("x"), compiled.names.index("c")
    found = changes(np.random.default_rng(0), compiled, X)
    assert {0.0, 1.0} <= set(found[:, x])
    assert set(found[:, c]) == {1.0, 2.0}
    assert np.all((found != X).sum(axis=1) <= 1)
