"""The soak's checks find what they look for; the soak itself is `make test-soak`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bohb import BOHB, Outcome, Status
from bohb.core.events import Event, SessionStarted, TrialFinished, TrialLost, TrialStarted
from bohb.core.schedule.rules import kept_for_growth
from tests.faults.soak.checks import Line, Records, check, memory, what_is_not_removed
from tests.faults.soak.stage import Sample
from tests.objectives import SPACE, quadratic

RUNNER = 77


@pytest.fixture
def sound() -> Records:
    """The records of a study of 20 trials in which nothing went wrong."""
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    study.session.begin(f"host:{RUNNER}:abc")
    log = []
    for _ in range(20):
        trial = study.ask()
        loss = quadratic(trial)
        log += [Line("begin", trial.number, 1, None, 0.0), Line("end", trial.number, 1, loss, 1.0)]
        study.tell(trial, {"loss": loss, "info": {"attempt": 1}})
    events = [_of_session(event) for event in study.events]
    return Records(events, log, events[:30], killed=set())


def _of_session(event: Event) -> Event:
    return replace(event, session=0) if isinstance(event, TrialStarted) else event


def changed(of: Records, number: int, event: Event) -> list[Event]:
    """Return the events with another end of a trial."""
    return [event if isinstance(e, TrialFinished) and e.number == number else e for e in of.events]


def complaints(of: Records) -> str:
    return "\n".join(check(of)[1])


def test_nothing_is_wrong_with_a_sound_study(sound: Records) -> None:
    numbers, wrong = check(sound)
    assert wrong == []
    assert (numbers["trials"], numbers["results stored"], numbers["burnt trials"]) == (20, 20, 0)
    assert numbers["decisions replayed exactly"] == numbers["decisions"] == 20
    assert [type(event) for event in sound.events].count(SessionStarted) == 1


def test_a_lost_result_is_found(sound: Records) -> None:
    of = replace(sound, events=sound.events[:-1])
    assert "the result of (19, 1) is neither stored nor late" in complaints(of)
    assert "1 trials are still marked as running" in complaints(of)


def test_a_change_of_what_was_read_before_is_found(sound: Records) -> None:
    of = replace(sound, seen=[*sound.seen[:-1], sound.events[0]])
    assert "gone or changed" in complaints(of)


def test_a_result_may_only_be_given_up_if_its_runner_was_killed(sound: Records) -> None:
    lost = [*sound.events[:-1], TrialLost(19, 1, "its runner stopped while it ran", counts=False)]
    assert "the result of (19, 1) is lost although its runner lived" in complaints(replace(sound, events=lost))
    assert complaints(replace(sound, events=lost, killed={RUNNER})) == ""


def test_a_doubled_or_invented_result_is_found(sound: Records) -> None:
    assert "attempt (0, 1) ran 2 times" in complaints(replace(sound, log=[*sound.log, sound.log[0]]))
    other = TrialFinished(19, Outcome(Status.OK, loss=-1.0, info={"attempt": 1}))
    of = replace(sound, events=changed(sound, 19, other))
    assert "the result of (19, 1) is not what its evaluation returned" in complaints(of)


def test_a_failure_that_nobody_ordered_is_found(sound: Records) -> None:
    log = [line for line in sound.log if line[:2] != ("end", 19)]
    of = replace(sound, log=log, events=changed(sound, 19, TrialFinished(19, Outcome(Status.TIMEOUT, error="late"))))
    assert "trial 19 failed (timeout) for no reason of its own" in complaints(of)
    ordered = Line("hang", 19, 1, None, 0.5)
    assert complaints(replace(of, log=[*of.log, ordered])) == ""


def test_a_checkpoint_that_no_budget_can_need_is_found(tmp_path: Path) -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    for _ in range(60):
        trial = study.ask()
        study.tell(trial, quadratic(trial))
    for_growth, alive = kept_for_growth(study.history), study.history.alive()
    assert for_growth - alive
    checkpoints = tmp_path / "files" / "study" / "checkpoints"
    (tmp_path / "tmp").mkdir()
    for config_id in for_growth | alive:
        (checkpoints / str(config_id)).mkdir(parents=True)
    assert what_is_not_removed(tmp_path, study.events) == []
    (checkpoints / "0").mkdir()
    assert what_is_not_removed(tmp_path, study.events) == [
        "1 checkpoints can no longer be promoted but were not removed"
    ]


def test_the_growth_of_memory_is_measured_after_the_first_quarter() -> None:
    samples = [Sample(900.0 * n, "A", 1, 1024 * (50 + n), 0.0, 100 * n) for n in range(9)]
    measured = memory(samples, "A")
    assert measured["MiB per hour after the first quarter"] == 4.0
    assert measured["MiB at each quarter"] == [50, 52, 54, 56, 58]
