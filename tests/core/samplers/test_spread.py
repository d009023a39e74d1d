"""The first random configurations of a study with the Gaussian process: spread evenly, and each of them random."""

from __future__ import annotations

from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import kstest

import bohb
from bohb.core.samplers.proposal import SPREAD
from bohb.core.space import Array, Space
from bohb.core.streams import spread_point
from bohb.core.trial import Origin

SMALL: dict[str, Any] = {"min_budget": 1, "max_budget": 9}


def drawn(space: Any, n: int, seed: int = 0, **settings: Any) -> list[dict[str, Any]]:
    """The first n configurations of a study in which all configurations are drawn at random."""
    study = bohb.BOHB(space, **SMALL, **{"random_fraction": 1.0, "seed": seed, **settings})
    found: dict[int, dict[str, Any]] = {}
    while len(found) < n:
        trial = study.ask()
        assert trial.origin in (Origin.RANDOM, Origin.PROMOTED)
        found.setdefault(trial.config_id, trial.config)
        study.tell(trial, 1.0)
    return list(found.values())


def largest_gap(points: Array) -> float:
    """The mean distance of places in the unit square to the nearest of the points."""
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 21)] * 2), axis=-1).reshape(-1, 2)
    return float(cdist(grid, points).min(axis=1).mean())


def test_they_leave_smaller_gaps_than_independent_ones() -> None:
    space, gaps = {"x": (0.0, 1.0), "y": (0.0, 1.0)}, []
    for preset in ("best", "paper"):
        every = (drawn(space, 9, seed, preset=preset) for seed in range(20))
        gaps.append([largest_gap(np.array([[c["x"], c["y"]] for c in those])) for those in every])
    assert np.mean(gaps[0]) < 0.93 * np.mean(gaps[1])  # 0.88 times
    assert np.std(gaps[0]) < np.std(gaps[1])


@pytest.mark.parametrize("number", [0, 1, 6, SPREAD - 1])
def test_each_by_itself_is_distributed_as_the_prior(number: int) -> None:
    space = Space({"x": (0.0, 1.0), "y": (1e-3, 1.0, "log"), "c": ["a", "b"]})
    points = np.vstack([spread_point(seed, number, space.d) for seed in range(400)])
    assert kstest(points[:, 0], "uniform").pvalue > 1e-3
    choices = space.at_quantiles(points)[:, space.names.index("c")]
    assert choices.mean() == pytest.approx(0.5, abs=0.1)


def test_conditions_weights_and_forbidden_combinations_hold() -> None:
    space = CS.ConfigurationSpace()
    space.add(
        CS.Categorical("kind", ["a", "b", "never"], weights=[1, 3, 0]), CS.Float("x", (0, 1)), CS.Float("y", (0, 1))
    )
    space.add(CS.EqualsCondition(space["y"], space["kind"], "a"))
    space.add(CS.Integer("k", (1, 4)))
    space.add(
        CS.ForbiddenAndConjunction(
            CS.ForbiddenEqualsClause(space["kind"], "b"), CS.ForbiddenEqualsClause(space["k"], 4)
        )
    )
    found = drawn(space, 40)
    assert all(("y" in config) == (config["kind"] == "a") for config in found)
    assert not any(config["kind"] == "b" and config["k"] == 4 for config in found)
    assert 4 <= sum(config["kind"] == "a" for config in found) <= 20
    assert {config["kind"] for config in found} == {"a", "b"}


def test_another_seed_draws_others_and_the_same_seed_the_same() -> None:
    space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    assert drawn(space, 9, 1) == drawn(space, 9, 1)
    assert not any(config in drawn(space, 9, 2) for config in drawn(space, 9, 1))


def test_workers_that_ask_together_get_different_points() -> None:
    study = bohb.BOHB({"x": (0.0, 1.0)}, **SMALL, seed=3)
    trials = study.ask_many(8)
    strata = {int(8 * trial.config["x"]) for trial in trials}
    assert len(strata) == 8  # one in each eighth of the range
