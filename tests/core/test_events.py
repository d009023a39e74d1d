"""The events of a study, their keys and their JSON form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bohb import BOHB, Origin, Outcome, Status, Trial
from bohb.core.encoding import (
    LARGEST_RESULT,
    check_storable,
    from_json,
    outcome_from_json,
    to_json,
    trial_from_json,
    trial_to_json,
)
from bohb.core.events import (
    BracketPlanned,
    BracketShortened,
    BudgetsRaised,
    ConfigGiven,
    ConfirmationFinished,
    ConfirmationStarted,
    Event,
    FailuresForgotten,
    NoteAdded,
    ObservationAdded,
    RepeatFinished,
    ResultLate,
    RungCut,
    SessionStarted,
    StudyCreated,
    TrialFinished,
    TrialLost,
    TrialStarted,
)
from bohb.core.goals import goals_of
from bohb.errors import InvalidResult, JournalError
from tests.core.playing import SPACE, fingerprint, new, run
from tests.replays.stored import events_of

OK = Outcome(Status.OK, 0.5)
TRIAL = Trial(7, {"x": 0.5}, 3.0, 4, 1, 1, 99, Origin.PROMOTED, 1.0, attempt=2, from_trial=4, reason={"loss": 0.25})
KEYS: list[tuple[Event, str]] = [
    (StudyCreated({}, (1.0,), 3.0, 0, {}), "created"),
    (ConfigGiven(2, {"x": 1}), "given/2"),
    (ObservationAdded(3, {"x": 1}, 1.0, 0.5), "observed/3"),
    (BudgetsRaised((1.0, 3.0), 5), "budgets/5"),
    (BracketPlanned(6, ((1.0, 3),), "skip"), "bracket/6"),
    (TrialStarted(TRIAL), "started/7/2"),
    (TrialFinished(7, OK), "finished/7"),
    (TrialLost(7, 2, "gone"), "lost/7/2"),
    (ResultLate(7, 1, OK), "late/7/1"),
    (RungCut(1, 2), "cut/1/2"),
    (BracketShortened(0, 4, ((1.0, 2),), 9.0), "shortened/0"),
    (SessionStarted(1, "machine:1", 0.0), "session/1"),
    (FailuresForgotten(2), "forgotten/2"),
    (NoteAdded(4, "good"), "note/4"),
    (ConfirmationStarted(0, (7,), 9.0, 5, None), "confirm/0"),
    (RepeatFinished(0, 1, 2, OK), "repeat/0/1/2"),
    (ConfirmationFinished(0, 1, (None,), None, None), "confirmed/0"),
]


def through_json(event: Event) -> Event:
    return from_json(event.kind, json.loads(json.dumps(to_json(event))))


@pytest.mark.parametrize(("event", "key"), KEYS, ids=[key for _, key in KEYS])
def test_a_key_names_an_event_among_all_of_a_study(event: Event, key: str) -> None:
    assert event.key == key
    assert through_json(event) == event


@pytest.mark.parametrize("name", ["paper-enqueued", "best-sessions", "paper-confirmed", "best-raised", "best-deadline"])
def test_events_of_a_study_come_back_equal_and_have_different_keys(name: str) -> None:
    events = events_of(name)
    assert [through_json(event) for event in events] == events
    assert len({event.key for event in events}) == len(events)


def test_what_has_its_default_is_not_stored() -> None:
    assert to_json(TrialFinished(7, OK)) == {"number": 7, "outcome": {"status": "ok", "loss": 0.5}}
    assert to_json(TrialLost(7, 2, "gone", counts=False)) == {
        "number": 7,
        "attempt": 2,
        "reason": "gone",
        "counts": False,
    }
    assert "attempt" not in to_json(TrialStarted(Trial(0, {}, 1.0, 0, 0, 0, 1, Origin.RANDOM)))["trial"]


def test_tuples_of_a_configuration_come_back_as_tuples() -> None:
    config = {"layers": (8, (4, 2)), "x": 0.5}
    given = through_json(ConfigGiven(0, config))
    assert isinstance(given, ConfigGiven)
    assert given.config == config


def test_a_trial_and_its_outcome_travel_to_a_worker_and_back() -> None:
    goals = goals_of(["error", "-accuracy"], {"latency": "<= 10ms"})
    sent = trial_from_json(
        json.loads(json.dumps(trial_to_json(Trial(1, {"x": 1}, 1.0, 1, 0, 0, 5, Origin.RANDOM, goals=goals))))
    )
    assert sent.goals == goals
    assert trial_from_json(trial_to_json(TRIAL)) == TRIAL
    outcome = Outcome(Status.OK, 0.5, info={"a": [1]}, cost=2.0, curve=((1.0, 0.75), (2.0, 0.5)), worker="a/1")
    assert outcome_from_json(json.loads(json.dumps(to_json(outcome)))) == outcome


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("finish", {}, "unknown event kind 'finish'"),
        ("created", {"format": 99}, "the study has format 99"),
        ("lost", {"number": 1}, "a stored 'lost' event cannot be read"),
        ("lost", {"number": 1, "attempt": 1, "reason": "", "colour": 1}, "a stored 'lost' event cannot be read"),
        ("finished", {"number": 1, "outcome": {"status": "fine"}}, "a stored 'finished' event cannot be read"),
        ("started", {"trial": {"origin": "nowhere"}}, "a stored 'started' event cannot be read"),
    ],
)
def test_an_event_that_cannot_be_read_is_refused_by_its_kind(kind: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(JournalError, match=message):
        from_json(kind, body)


def test_a_result_that_is_too_large_for_a_journal_is_refused_with_both_sizes() -> None:
    fits = Outcome(Status.OK, 0.5, info={"text": "x" * (LARGEST_RESULT - 100)})
    assert check_storable(fits) is fits
    for text in ("x" * LARGEST_RESULT, "é" * (LARGEST_RESULT // 6)):
        with pytest.raises(InvalidResult, match=f"more than the {LARGEST_RESULT:,} a journal takes"):
            check_storable(Outcome(Status.OK, 0.5, info={"text": text}))


def test_results_in_any_json_shape_replay_to_the_same_next_decision() -> None:
    study = run(new(5), 70, workers=4)
    stored = [(event.kind, json.loads(json.dumps(to_json(event)))) for event in study.events]
    again = BOHB.from_events([from_json(kind, body) for kind, body in stored], SPACE)
    assert fingerprint(again) == fingerprint(study)
    assert fingerprint(run(again, 20, workers=4)) == fingerprint(run(study, 20, workers=4))
