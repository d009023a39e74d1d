"""Every decision of the recorded studies is still made, whatever has changed around it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import get_args

import pytest

from bohb import replay
from bohb.core.events import (
    BracketPlanned,
    Event,
    ResultLate,
    SessionStarted,
    StudyCreated,
    TrialLost,
    TrialStarted,
)  # fmt: skip
from bohb.core.history import History
from bohb.core.schedule.brackets import BracketRule
from bohb.core.settings import PRESETS
from bohb.core.trial import Status
from bohb.journal import import_jsonl
from tests.replays.record import RECORDED
from tests.replays.stored import SAMPLERS, events_of, names

ROOT = Path(__file__).parents[2]
JOURNALS = ROOT / "benchmarks" / "paper" / "cifar10_journals"
TODAYS = ("bohb", "hyperband", "random")  # methods of those journals; of the others, only the results are kept

KINDS = {
    "created",
    "given",
    "observed",
    "budgets",
    "bracket",
    "started",
    "finished",
    "lost",
    "late",
    "cut",
    "shortened",
    "session",
    "forgotten",
    "note",
    "confirm",
    "repeat",
    "confirmed",
}


@cache
def recorded(name: str) -> list[Event]:
    return events_of(name)


def everything() -> list[Event]:
    return [event for name in names() for event in recorded(name)]


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_every_decision_of_a_recorded_study_is_made_again(name: str) -> None:
    found = replay(recorded(name), sampler=SAMPLERS.get(name))
    assert found.differences == ()
    assert found.decisions >= 20


@pytest.mark.parametrize("path", sorted(p for m in TODAYS for p in JOURNALS.glob(f"{m}-*.jsonl")), ids=lambda p: p.stem)
def test_every_decision_of_the_studies_on_cifar10_is_made_again(path: Path) -> None:
    assert replay(import_jsonl(path).events).differences == ()


def test_each_study_is_recorded_by_the_script() -> None:
    assert names() == sorted(RECORDED)


def test_recorded_are_events_of_every_kind() -> None:
    assert {event.kind for event in everything()} == KINDS


def test_recorded_are_brackets_of_every_rule() -> None:
    planned = [event for event in everything() if isinstance(event, BracketPlanned)]
    assert {event.rule for event in planned} == set(get_args(BracketRule))


def test_recorded_are_informed_studies_that_leave_out_rungs_and_repeat_brackets_with_several_workers() -> None:
    found: set[str] = set()
    for name in names():
        events = recorded(name)
        if max((e.workers or 1 for e in events if isinstance(e, SessionStarted)), default=1) == 4:
            found |= {event.rule for event in events if isinstance(event, BracketPlanned)}
    assert {"skip", "repeat"} <= found


def test_recorded_are_trials_of_every_origin_and_end() -> None:
    trials = [event.trial for event in everything() if isinstance(event, TrialStarted)]
    assert {trial.origin.value for trial in trials} == {"random", "model", "given", "promoted"}
    assert any(trial.reuses is not None for trial in trials)
    assert any(trial.attempt > 1 for trial in trials)
    histories = [History().extend(recorded(name)) for name in names()]
    ended = {outcome.status for history in histories for outcome in history.outcomes.values()}
    assert ended == set(Status) - {Status.RETRY}
    assert any(history.retries for history in histories)


def test_recorded_are_studies_of_every_preset() -> None:
    settings = [event.settings for event in everything() if isinstance(event, StudyCreated)]
    for name, preset in PRESETS.items():
        assert preset.to_json() in settings, name
    assert {s["schedule"] for s in settings} == {"hyperband", "informed"}


def test_recorded_are_studies_of_every_engine_and_of_programs_that_ask() -> None:
    for how in ("local-workers", "pool", "dask", "ray", "slurm", "programs", "clients", "shared-file"):
        assert any(name.endswith(f"-{how}") for name in names()), how
    programs = History().extend(recorded("best-programs"))
    assert sum(bool(outcome.curve) for outcome in programs.outcomes.values()) > 30
    assert not programs.sessions
    for name in ("paper-clients", "best-clients"):
        events = recorded(name)
        clients = {event.client for event in events if isinstance(event, TrialStarted)}
        assert clients == {"program 0", "program 1", "program 2"}
        assert any(isinstance(event, TrialLost) and event.retry for event in events)


def test_recorded_are_trials_of_runners_that_were_killed_or_came_back_too_late() -> None:
    for name in ("paper-taken-over", "best-taken-over"):
        events = recorded(name)
        assert len({event.session for event in events if isinstance(event, TrialStarted)}) == 3
        assert any(isinstance(event, TrialLost) and not event.counts for event in events)
    assert any(isinstance(event, ResultLate) for event in everything())
