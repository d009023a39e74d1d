"""Goals: what the user writes, what a result must have, and what is shown."""

from __future__ import annotations

import math
from typing import Any

import pytest

from bohb.core.goals import PLAIN, Constraint, Goals, Objective, goals_of
from bohb.core.trial import Outcome, Status, outcome_of
from bohb.errors import InvalidArgument, InvalidResult

TWO = goals_of(["error", "-accuracy"], {"latency": "<= 10ms"})


@pytest.mark.parametrize(
    ("text", "value", "violation"),
    [
        ("<= 10", 10, 0.0),
        ("<= 10", 15, 0.5),
        (">=0.8", 0.9, 0.0),
        (">= 0.8", 0.4, 0.5),
        ("<= 8GB", 12e9, 0.5),
        ("<= 10ms", 0.02, 1.0),
        ("<= 2m", 180, 0.5),
        ("<= -2", -1, 0.5),
        ("<= 0", 3, 3.0),
    ],
)
def test_a_bound_is_a_number_a_duration_or_a_size_and_a_violation_is_relative_to_it(
    text: str, value: float, violation: float
) -> None:
    [constraint] = goals_of(constraints={"x": text}).constraints
    assert constraint.violation(value) == pytest.approx(violation)


def test_goals_are_stored_in_the_users_spelling_and_a_plain_study_stores_nothing() -> None:
    assert PLAIN.to_json() == goals_of().to_json() == goals_of(["loss"]).to_json() == {}
    assert TWO.to_json() == {"objectives": ["error", "-accuracy"], "constraints": {"latency": "<= 0.01"}}
    for goals in (PLAIN, TWO, goals_of(direction="maximize"), goals_of(None, {"a": ">= 1e-7"})):
        assert goals_of(**goals.to_json()) == goals


def test_a_table_of_directions_means_the_same_as_a_list() -> None:
    assert goals_of({"error": "minimize", "accuracy": "maximize"}) == goals_of(["error", "-accuracy"])
    assert goals_of(direction="maximize") == goals_of(["-score"])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"objectives": "error"}, "'error'"),
        ({"objectives": [3]}, "3"),
        ({"objectives": ["a", "-a"]}, "'a' twice"),
        ({"objectives": ["info"]}, "'info'"),
        ({"objectives": {"a": "up"}}, "'up'"),
        ({"objectives": ["a"], "direction": "maximize"}, "exclude each other"),
        ({"direction": "max"}, "'max'"),
        ({"constraints": ["a <= 1"]}, "must be a table"),
        ({"constraints": {"latency": "< 10"}}, "'latency' has '< 10'"),
        ({"constraints": {"latency": 10}}, "'latency' has 10"),
        ({"constraints": {"latency": "<= ten"}}, "'<= ten'"),
        ({"constraints": {"latency": "<= nan"}}, "'<= nan'"),
        ({"objectives": ["a\0b"]}, "all of them printable"),
        ({"objectives": ["a" * 10_000]}, "at most 100 characters"),
        ({"constraints": {"a\nb": "<= 1"}}, "all of them printable"),
        ({"objectives": [f"loss{i}" for i in range(50)]}, "50 objectives are given, at most 8 can be"),
    ],
)
def test_a_mistake_in_the_goals_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        goals_of(**arguments)


def test_values_are_read_from_losses_and_from_beside_it() -> None:
    outcome = outcome_of({"losses": {"error": 0.2, "accuracy": 0.8}, "latency": 0.02, "info": {"n": 1}, "cost": 3}, TWO)
    assert outcome == outcome_of({"error": 0.2, "accuracy": 0.8, "latency": 0.02, "info": {"n": 1}, "cost": 3}, TWO)
    assert outcome.values == {"error": 0.2, "accuracy": 0.8, "latency": 0.02}
    assert (outcome.loss, outcome.info, outcome.cost) == (0.2, {"n": 1}, 3.0)
    assert TWO.losses(outcome.values) == (0.2, -0.8)
    assert TWO.violation(outcome.values) == pytest.approx(1.0)


def test_a_score_is_stored_as_returned_and_its_negative_is_minimised() -> None:
    goals = goals_of(direction="maximize")
    for result in (0.9, {"score": 0.9}):
        outcome = outcome_of(result, goals)
        assert (outcome.loss, outcome.values) == (-0.9, {"score": 0.9})
        assert outcome.loss is not None
        assert goals.shown(outcome.loss) == goals.minimised(outcome.loss) == 0.9
    assert str(goals.shown(outcome_of(0.0, goals).loss)) == "0.0"
    with pytest.raises(InvalidResult, match="has no 'score'"):
        outcome_of({"loss": 0.9}, goals)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (0.3, "must be a dict: return {'losses': {'error': number, 'accuracy': number}, 'latency': number"),
        ({"losses": {"error": 0.1, "accuracy": 0.9}}, "has no 'latency'"),
        ({"losses": {"error": 0.1}, "latency": 1}, "has no 'accuracy'"),
        ({"losses": {"error": 0.1, "accuracy": 0.9}, "info": {"latency": 1}}, "has no 'latency'"),
        ({"losses": [0.1, 0.9], "latency": 1}, "losses=\\[0.1, 0.9\\] must be a dict"),
        ({"error": "low", "accuracy": 0.9, "latency": 1}, "error='low'"),
        (Outcome(Status.OK, 0.1), "finite 'error'"),
        (Outcome(Status.OK, 0.5, values={"error": 0.1, "accuracy": 0.9, "latency": 1.0}), "must be 0.1"),
    ],
)
def test_a_result_that_lacks_a_value_is_refused_by_name(result: object, named: str) -> None:
    with pytest.raises(InvalidResult, match=named):
        outcome_of(result, TWO)


@pytest.mark.parametrize("name", ["error", "accuracy", "latency"])
def test_a_value_that_is_not_finite_fails_the_trial_and_the_others_are_kept(name: str) -> None:
    values = {"error": 0.1, "accuracy": 0.9, "latency": 0.001}
    outcome = outcome_of({**values, name: math.nan}, TWO)
    assert outcome.status is Status.DIVERGED
    assert outcome.error == f"the {name} is nan, not a finite number"
    assert outcome.values == {other: value for other, value in values.items() if other != name}


def test_a_plain_result_has_no_values_and_may_keep_anything_called_losses() -> None:
    outcome = outcome_of({"loss": 1, "losses": [1, 2]})
    assert (outcome.loss, outcome.values, outcome.info) == (1.0, {}, {"losses": [1, 2]})


def test_an_outcome_keeps_the_values_of_the_study_and_no_others() -> None:
    values = {"error": 0.1, "accuracy": 0.9, "latency": 1.0}
    assert outcome_of(Outcome(Status.OK, 0.1, values={**values, "zzz": math.nan}), TWO).values == values
    assert outcome_of(Outcome(Status.OK, 0.1, values={"zzz": math.nan})).values == {}
    failed = Outcome(Status.CRASHED, values={"error": 0.1, "accuracy": math.inf, "zzz": 1.0})
    assert outcome_of(failed, TWO).values == {"error": 0.1}


def test_the_violation_is_zero_exactly_if_all_bounds_are_kept() -> None:
    tiny = Goals((Objective("loss"),), (Constraint("x", "<=", 1e300),))
    assert tiny.violation({"x": math.nextafter(1e300, math.inf)}) > 0
    assert math.isfinite(tiny.violation({"x": 1e308}))
    assert math.isfinite(Constraint("x", ">=", 1e-300).violation(-1e308))
    twice = Goals((Objective("loss"),), (Constraint("x", "<=", 1e-300), Constraint("y", "<=", 1e-300)))
    assert math.isfinite(twice.violation({"x": 1e308, "y": 1e308}))
