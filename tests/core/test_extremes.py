"""Budgets, ranges and losses at the ends of what floats and integers can hold."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bohb import BOHB
from bohb.analysis.why import why
from bohb.core.encoding import encode, from_json, to_json
from bohb.core.space.scales import Numeric
from bohb.errors import InvalidArgument, InvalidConfiguration, InvalidSpace

SPACE = {"x": (0.0, 1.0), "c": ["a", "b"]}


@pytest.mark.parametrize(
    "budgets",
    [
        {"min_budget": 1e-300, "max_budget": 1e300},
        {"min_budget": 5e-324, "max_budget": 1},
        {"min_budget": 1, "max_budget": 2**63 - 1},
        {"min_budget": 1, "max_budget": 2**63 - 1, "eta": 2**20},
        {"min_budget": 1, "max_budget": 1e9, "eta": 1.0000001},
        {"budgets": list(range(1, 20))},
        {"budgets": [1, 2], "eta": 1e8},
    ],
    ids=str,
)
def test_budgets_that_need_impossible_brackets_are_refused_before_anything_is_stored(budgets: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="need a bracket of more than 10,000,000 configurations or 1,000 rungs"):
        BOHB(SPACE, seed=0, **budgets)


@pytest.mark.parametrize("budgets", [{"budgets": [1, 10**400]}, {"min_budget": 1, "max_budget": 10**5000}])
def test_a_budget_larger_than_all_floats_is_refused(budgets: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="larger than all floats"):
        BOHB(SPACE, seed=0, **budgets)


@pytest.mark.parametrize("preset", ["paper", "best"])
@pytest.mark.parametrize(
    "budgets",
    [
        {"budgets": [1e-300, 1e300]},
        {"budgets": [1e-300, 1.0, 1e300]},
        {"budgets": [2**62, 2**63 - 1]},
        {"budgets": [1e307, 1.7e308]},
        {"min_budget": 1e-308, "max_budget": 1e-305},
        {"min_budget": 1, "max_budget": 9, "eta": 1e308},
    ],
    ids=str,
)
def test_budgets_at_the_ends_of_the_scale_work(preset: Any, budgets: dict[str, Any]) -> None:
    study = BOHB(SPACE, seed=0, preset=preset, **budgets)
    for _ in range(20):
        trial = study.ask()
        study.tell(trial, trial.config["x"])
    assert len(study.history.outcomes) == 20


@pytest.mark.parametrize(
    "bounds",
    [
        (0, 2**63 - 1),
        (-(2**63), 2**63 - 1),
        (1, 2**63 - 1, "log"),
        (0, 2**64),
        (-1.7e308, 1.7e308),
        (5e-324, 1.7e308, "log"),
        (0.0, 5e-324),
    ],
    ids=str,
)
def test_a_range_that_cannot_be_represented_is_refused_by_name(bounds: Any) -> None:
    with pytest.raises(InvalidSpace, match=r"^x=\(.*ConfigSpace cannot represent this range.*in the objective"):
        BOHB({"x": bounds}, budgets=[1], seed=0)


@pytest.mark.parametrize("values", [(0.0, 1.0), (1, 9), (1, 9, "log"), [1, 2], {"ordinal": [1, 2]}], ids=str)
def test_a_value_larger_than_all_floats_is_refused_by_name(values: Any) -> None:
    study = BOHB({"x": values, "y": (0.0, 1.0)}, budgets=[1], seed=0)
    with pytest.raises(InvalidConfiguration, match=r"^x( has a larger whole number than floats can hold|=1000)"):
        study.enqueue({"x": 10**400, "y": 0.5})


def test_a_scale_wider_than_all_floats_is_refused() -> None:
    with pytest.raises(InvalidSpace, match=r"'x' ranges from -1e\+308 to 1e\+308"):
        Numeric("x", -1e308, 1e308)


@pytest.mark.parametrize("preset", ["paper", "best"])
@pytest.mark.parametrize("losses", [[1e308, -1e308], [1.7e308, -1.7e308, 0.0], [5e-324, 0.0], [-1e308, 1e300]], ids=str)
def test_huge_and_tiny_losses_store_no_nan_and_no_infinity(losses: list[float], preset: Any) -> None:
    rng = random.Random(1)
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, preset=preset)
    for _ in range(22):
        study.tell(study.ask(), rng.choice(losses))
    stored = "".join(encode(to_json(event)) for event in study.events)
    assert not any(word in stored for word in ('"nan"', '"inf"', '"-inf"'))


def test_a_violation_stays_finite_when_it_is_stored_so_that_a_replay_decides_the_same() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, preset="paper", constraints={"lat": "<= 10ms"})
    for n in range(30):
        study.tell(study.ask(), {"loss": n, "lat": 1e308})
    stored = BOHB.from_events([from_json(event.kind, to_json(event)) for event in study.events]).history
    assert stored.trials == study.history.trials
    promoted = [n for n, trial in stored.trials.items() if trial.origin == "promoted"]
    assert [stored.trials[n].reason["violation"] for n in promoted] == [1e308] * len(promoted)
    assert all(why(stored, n).sentences for n in promoted)
