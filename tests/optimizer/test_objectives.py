"""Studies with named objectives and constraints, by ask and tell."""

from __future__ import annotations

import math
from typing import Any

import pytest

import bohb
from bohb.core.encoding import from_json, to_json
from bohb.core.events import StudyCreated
from bohb.errors import InvalidArgument, InvalidResult, StudyMismatch
from bohb.journal import MemoryJournal

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
BUDGETS: dict[str, Any] = {"min_budget": 1, "max_budget": 9}


def told(study: bohb.BOHB, results: list[object]) -> bohb.BOHB:
    for result in results:
        study.tell(study.ask(), result)
    return study


def test_a_plain_study_stores_what_it_always_stored() -> None:
    study = told(bohb.BOHB(SPACE, **BUDGETS, seed=0), [1.0])
    created, _, finished = study.events
    assert {"objectives", "constraints"}.isdisjoint(to_json(created))
    assert to_json(finished)["outcome"] == {"status": "ok", "loss": 1.0}


def test_goals_are_stored_and_continue_with_the_journal() -> None:
    journal = MemoryJournal()
    arguments: dict[str, Any] = {"objectives": ["error", "-accuracy"], "constraints": {"latency": "<= 10ms"}}
    study = bohb.BOHB(SPACE, **BUDGETS, seed=0, journal=journal, **arguments)
    created = study.events[0]
    assert isinstance(created, StudyCreated)
    assert from_json("created", to_json(created)) == created
    assert bohb.BOHB.from_journal(journal).history.goals == study.history.goals
    assert bohb.BOHB(SPACE, **BUDGETS, journal=journal, **arguments).ask().goals == study.history.goals
    with pytest.raises(StudyMismatch, match=r"objectives: stored .*'-accuracy'.*given none"):
        bohb.BOHB(SPACE, **BUDGETS, journal=journal)
    with pytest.raises(StudyMismatch, match=r"latency': '<= 0.02'"):
        bohb.BOHB(SPACE, **BUDGETS, journal=journal, **(arguments | {"constraints": {"latency": "<= 20ms"}}))


def test_a_score_is_maximised_and_shown_as_it_was_returned() -> None:
    study = told(bohb.BOHB(SPACE, **BUDGETS, seed=0, direction="maximize"), [0.1, 0.7, 0.3])
    assert study.best_loss == 0.7
    assert study.best_trial.number == 1
    assert [study.history.goals.shown(result.loss) for result in study.history.trajectory] == [0.1, 0.7]
    assert study.history.front == [study.incumbent]


def test_the_incumbent_keeps_the_constraints_as_soon_as_any_result_does() -> None:
    study = bohb.BOHB(SPACE, **BUDGETS, seed=0, constraints={"latency": "<= 10"})
    told(study, [{"loss": 0.1, "latency": 40}, {"loss": 0.5, "latency": 20}, {"loss": 0.3, "latency": 20}])
    assert study.incumbent is not None
    assert (study.best_loss, study.incumbent.feasible, study.front) == (0.3, False, [])
    assert "violates the constraints" in " ".join(str(bohb.Study(study.history)).split())
    told(study, [{"loss": 0.9, "latency": 10}, {"loss": 0.2, "latency": 11}, {"loss": 0.8, "latency": 3}])
    assert (study.best_loss, study.incumbent.feasible, len(study.front)) == (0.8, True, 1)
    assert [result.loss for result in study.history.trajectory] == [0.1, 0.5, 0.3, 0.9, 0.8]


def test_the_front_has_the_feasible_results_that_no_other_dominates() -> None:
    study = bohb.BOHB(SPACE, **BUDGETS, seed=0, objectives=["error", "-speed"], constraints={"memory": "<= 1GB"})
    rows = [(0.5, 5, 1e8), (0.4, 1, 1e8), (0.6, 4, 1e8), (0.1, 9, 2e9), (0.5, 5, 1e8), (0.3, 4, 1e9)]
    told(study, [{"losses": {"error": e, "speed": s}, "memory": m} for e, s, m in rows])
    assert [result.trial.number for result in study.front] == [5, 0]
    assert [result.values["speed"] for result in study.front] == [4, 5]


def test_nan_in_one_objective_is_a_failed_trial_and_a_missing_one_is_refused() -> None:
    study = bohb.BOHB(SPACE, **BUDGETS, seed=0, objectives=["error", "latency"])
    told(study, [{"losses": {"error": math.nan, "latency": 3.0}}])
    outcome = study.history.outcomes[0]
    assert (outcome.status, outcome.values) == ("diverged", {"latency": 3.0})
    assert "the error is nan" in str(outcome.error)
    trial = study.ask()
    with pytest.raises(InvalidResult, match="has no 'latency'"):
        study.tell(trial, {"losses": {"error": 1.0}})
    study.tell(trial, bohb.Outcome(bohb.Status.OK, 1.0))  # as an executor that knows nothing of the goals would
    assert study.history.outcomes[1].status == "bad_result"


def test_a_warm_start_must_have_the_same_values() -> None:
    earlier = told(bohb.BOHB(SPACE, **BUDGETS, objectives=["error", "-speed"]), [{"error": 0.5, "speed": 2.0}])
    new = bohb.BOHB(SPACE, **BUDGETS, objectives=["-speed"], warm_start=earlier)
    [observed] = new.history.observed
    assert (observed.loss, observed.values) == (-2.0, {"speed": 2.0})
    with pytest.raises(InvalidArgument, match=r"has no 'loss' .it has error, speed"):
        bohb.BOHB(SPACE, **BUDGETS, warm_start=earlier)


def both(trial: bohb.Trial) -> dict[str, Any]:
    x, y = trial.config["x"], trial.config["y"]
    return {"losses": {"error": x, "latency": 1 - x + y}, "info": {"n": trial.number}}


@pytest.mark.parametrize("workers", [None, 1])
def test_minimize_returns_a_front_and_stops_at_a_target_in_the_users_sign(workers: int | None) -> None:
    study = bohb.minimize(
        both, SPACE, **BUDGETS, seed=0, objectives=["error", "latency"], workers=workers, max_trials=9
    )
    assert study.failures == []
    assert [result.values["error"] for result in study.front] == sorted(r.values["error"] for r in study.front)
    score = bohb.minimize(lambda t: t.config["x"], SPACE, budgets=[1], seed=0, direction="maximize", target_loss=0.5)
    assert score.best_loss >= 0.5
    assert "target_loss=0.5 reached" in score.stopped
    assert f"best      score {score.best_loss:.6g}" in str(score)
