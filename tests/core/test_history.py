"""A history: the events of a study folded into what decisions are made from."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bohb import BOHB, History, Origin, Outcome, Status
from bohb.core.events import (
    BracketPlanned,
    BracketShortened,
    BudgetsRaised,
    ConfigGiven,
    Event,
    FailuresForgotten,
    NoteAdded,
    ObservationAdded,
    ResultLate,
    RungCut,
    SessionStarted,
    TrialFinished,
    TrialStarted,
)
from bohb.errors import JournalError
from tests.core.building import created, finished, folded, lost, promoted, rung, started
from tests.core.playing import busy_study, loss_of, new, run

FULL = rung(0.3, 0.1, 0.2)


def test_a_trial_is_pending_from_its_start_to_its_end() -> None:
    history = folded(started(0))
    assert list(history.pending) == list(history.running) == [0]
    assert history.outcomes == {}
    history.apply(finished(0, 0.5))
    assert not history.pending
    assert history.outcomes[0].loss == 0.5
    assert [result.loss for result in history.results] == [0.5]


def test_a_lost_trial_waits_until_it_starts_again_and_counts_its_losses() -> None:
    history = folded(started(0), started(1), lost(0), lost(1, counts=False))
    assert history.lost == {0: "gone", 1: "gone"}
    assert (list(history.pending), list(history.running)) == ([0, 1], [])
    assert history.losses == {0: 1}
    assert history.given_up == {(0, 1), (1, 1)}
    history.apply(started(0, attempt=2))
    assert list(history.lost) == [1]
    assert history.trials[0].attempt == 2
    assert history.budget_spent == 2, "another attempt costs nothing"


def test_what_is_printed_of_a_history_is_short() -> None:
    assert repr(History()) == "<History of 0 trials, 0 finished>"
    assert repr(folded(started(0))) == "<History of 1 trial, 0 finished>"
    told = BOHB({"x": (0.0, 1.0)}, budgets=[3], seed=0, direction="maximize")
    told.tell(told.ask(), 0.125)
    assert repr(told) == "<BOHB of 1 trial, 1 finished, best score 0.125 on budget 3>"
    assert repr(told.history.results) == "[<Result of trial 0 on budget 3: score 0.125>]"
    told = BOHB({"x": (0.0, 1.0)}, budgets=[3], seed=0, objectives=["a", "-b"], constraints={"a": "<= 1"})
    told.tell(told.ask(), {"a": 2, "b": 1 / 3})
    told.tell(told.ask(), {"a": 0, "b": 0.5})
    assert repr(told.history.front) == "[<Result of trial 1 on budget 3: a 0, b 0.5>]"
    assert repr(told.history.results[0]) == (
        "<Result of trial 0 on budget 3: a 2, b 0.333333, violates the constraints>"
    )
    assert repr(folded(started(0), finished(0, 0.25)).results) == "[<Result of trial 0 on budget 1: loss 0.25>]"


def test_a_late_result_is_kept_and_not_used() -> None:
    late = ResultLate(0, 1, Outcome(Status.OK, 0.0))
    history = folded(started(0), lost(0), late, started(0, attempt=2), finished(0, 0.5))
    assert history.late == [late]
    assert history.incumbent is not None
    assert history.incumbent.loss == 0.5


def test_a_promoted_configuration_spends_what_its_budget_adds_and_one_that_is_reused_nothing() -> None:
    assert folded(FULL).budget_spent == 3
    assert folded(FULL, promoted(3, started(1))).budget_spent == 5
    assert folded(FULL, promoted(3, started(1), reuses=0)).budget_spent == 3


def test_a_reused_result_is_no_new_evidence() -> None:
    events = [*FULL, promoted(3, started(1)), finished(3, 0.1)]
    assert len(folded(*events).evidence.observations[3]) == 1
    events[-2] = promoted(3, started(1), reuses=0)
    assert 3 not in folded(*events).evidence.observations


def test_the_time_and_the_reported_cost_add_up() -> None:
    cost = [TrialFinished(n, Outcome(Status.OK, 0.5, cost=1.5), elapsed=3.0 + n) for n in range(2)]
    history = folded(TrialStarted(started(0).trial, elapsed=1.0), started(1), *cost)
    assert history.cost_reported == 3.0
    assert history.seconds == 4.0


def test_patience_counts_from_the_last_improvement() -> None:
    history = folded(*FULL[:3], finished(0, 0.5), finished(1, 0.4), finished(2, 0.6), started(3, 1, 3))
    assert history.spent_at_improvement == 3
    assert history.budget_spent == 6


def test_forgotten_failures_keep_their_places_and_are_no_evidence() -> None:
    failed = rung(math.inf, math.inf, 0.5)
    history = folded(*failed, SessionStarted(0, "machine:1", 0.0))
    assert (history.n_failed, history.evidence.n_failures, history.n_before_session) == (2, 2, 3)
    history.apply(FailuresForgotten(1))
    assert history.forgotten == {0, 1}
    assert (history.n_failed, history.evidence.n_failures) == (2, 0)
    assert history.brackets[0].rung == 1
    assert folded(*failed, FailuresForgotten(1, since=1)).forgotten == {1}


def test_observations_of_earlier_studies_are_evidence_and_no_results() -> None:
    history = folded(ObservationAdded(0, {"x": 0.5}, 1, 0.25), ObservationAdded(1, {"x": 0.75}, 1, None))
    assert len(history.evidence.observations[1]) == 2
    assert history.evidence.n_failures == 1
    assert (history.results, history.incumbent, history.n_failed) == ([], None, 0)


def test_the_users_configurations_wait_until_they_start() -> None:
    wanted: list[Event] = [ConfigGiven(0, {"x": 0.5}), ConfigGiven(1, {"x": 0.25}, 3)]
    history = folded(*wanted)
    assert (len(history.given), history.given.waiting(None), history.given.waiting(3)) == (
        2,
        [{"x": 0.5}],
        [{"x": 0.25}],
    )
    history.extend([started(0, origin=Origin.GIVEN), BracketPlanned(1, ((3, 1),), "given")])
    assert (len(history.given), history.given.waiting(None)) == (1, [])
    history.apply(started(1, 1, 3, origin=Origin.GIVEN))
    assert (len(history.given), history.given.total) == (0, 2)


def test_raised_budgets_change_brackets_from_the_next_on() -> None:
    history = folded(*FULL, BudgetsRaised((1, 3, 9), 1))
    assert history.budgets == (1, 3, 9)
    assert [rung.budget for rung in history.schedule.plan(1).rungs] == [1, 3, 9]
    assert [rung.budget for rung in history.brackets[0].bracket.rungs] == [1, 3]


def test_a_note_changes_no_decision() -> None:
    with_note, without = folded(*FULL, NoteAdded(0, "good", ("tag",), 1)), folded(*FULL)
    assert [note.text for note in with_note.notes] == ["good"]
    assert (
        BOHB.from_events([created(), *FULL, NoteAdded(0, "good")]).ask() == BOHB.from_events([created(), *FULL]).ask()
    )
    assert with_note.alive() == without.alive()


def test_the_configurations_that_may_be_promoted_are_alive_and_the_incumbent_with_them() -> None:
    assert folded(*FULL[:5]).alive() == {0, 1, 2}
    assert folded(*FULL).alive() == {1}
    ended = folded(*FULL, promoted(3, started(1)), finished(3, 0.5), *rung(0.6, 0.2, first=4, bracket=1, budget=3))
    assert not ended.schedule.open
    assert ended.alive() == {5}


REFUSED: dict[str, tuple[list[Event], str]] = {
    "a second study": ([created(), created()], "a study is created once"),
    "a number that is left out": ([started(1)], "trial 1 starts, but the next number is 0"),
    "the end of a trial that does not run": ([finished(0, 0.5)], "trial 0 finishes, but it is not running"),
    "a second end": ([started(0), finished(0, 0.5), finished(0, 0.5)], "trial 0 finishes, but it is not running"),
    "the loss of a trial that does not run": ([lost(0)], "trial 0 is lost, but it is not running"),
    "a bracket that is not the next": (
        [BracketPlanned(2, ((1, 3), (3, 1)), "repeat")],
        "bracket 2 is planned, but the next one is 0",
    ),
    "a bracket that is planned twice": (
        [BracketPlanned(0, ((3, 1),), "skip"), BracketPlanned(0, ((3, 1),), "skip")],
        "bracket 0 is planned",
    ),
    "a shortened bracket that is not open": (
        [BracketShortened(0, 0, ((1, 1), (3, 1)), 9.0)],
        "bracket 0 is shortened, but it is not open",
    ),
    "a shortened bracket on another rung": (
        [started(0), BracketShortened(0, 0, ((3, 1),), 9.0)],
        "bracket 0 is shortened, but it is not open on the first budget",
    ),
    "a rung of a bracket far ahead": ([RungCut(7, 0)], "does not fit the events before it"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_events_that_do_not_follow_from_those_before_are_refused(what: str) -> None:
    events, message = REFUSED[what]
    with pytest.raises(JournalError, match=message):
        folded(*events)


def test_a_study_begins_with_its_creation() -> None:
    with pytest.raises(JournalError, match="must begin with 'created', not with 'started'"):
        History().apply(started(0))


def test_a_snapshot_stays_as_it_was() -> None:
    events = busy_study()
    half = len(events) // 2
    history = History().extend(events[:half])
    still, known = history.snapshot(), facts(History().extend(events[:half]))
    history.extend(events[half:])
    assert facts(still) == known
    assert facts(history) == facts(History().extend(events)) != known


def facts(history: History) -> dict[str, Any]:
    """What a history says about its study."""
    return {
        "trials": dict(history.trials),
        "outcomes": dict(history.outcomes),
        "pending": [*history.pending],
        "lost": dict(history.lost),
        "trajectory": [*history.trajectory],
        "observations": {b: d.losses.tolist() for b, d in history.evidence.observations.items()},
        "evaluated": dict(history.evaluated),
        "open": [*history.schedule.open],
        "rungs": [bracket.rung for bracket in history.brackets],
        "given": len(history.given),
        "spent": history.budget_spent,
    }


def test_the_incumbent_is_the_lowest_loss_on_the_largest_budget() -> None:
    study = new()
    assert study.incumbent is None
    losses = {}
    for _ in range(30):
        trial = study.ask()
        losses[trial.number] = loss_of(trial)
        study.tell(trial, losses[trial.number])
    best = min((t for t in study.history.trials.values() if t.budget == 9), key=lambda t: losses[t.number])
    assert study.incumbent is not None
    assert study.incumbent.config == best.config
    for budget in (1.0, 3.0, 9.0):
        on_budget = [losses[t.number] for t in study.history.trials.values() if t.budget == budget]
        assert study.history.best[budget].loss == min(on_budget)
    trajectory = study.history.trajectory
    assert all((b.budget, -b.loss) > (a.budget, -a.loss) for a, b in itertools.pairwise(trajectory))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.integers(1, 6), st.data())
def test_folding_in_two_parts_equals_folding_once(seed: int, workers: int, data: st.DataObject) -> None:
    events = run(new(seed), 25, workers=workers).events
    cut = data.draw(st.integers(1, len(events)))
    once = History().extend(events)
    twice = History().extend(events[:cut]).extend(events[cut:])
    assert twice.outcomes == once.outcomes
    assert twice.trajectory == once.trajectory
    assert {b: d.losses.tolist() for b, d in twice.evidence.observations.items()} == {
        b: d.losses.tolist() for b, d in once.evidence.observations.items()
    }
    assert BOHB.from_events(events).ask() == BOHB.from_events(list(events)).ask()


@pytest.mark.parametrize("name", ["space", "settings", "schedule", "brackets", "budgets"])
def test_an_empty_history_says_that_it_is_empty(name: str) -> None:
    with pytest.raises(JournalError, match="empty"):
        getattr(History(), name)
    assert not hasattr(History(), "no_such_name")


def test_counting_and_comparing_needs_no_space() -> None:
    events = busy_study()
    assert {"lost", "observed", "given", "session"} <= {event.kind for event in events}
    assert any(e.trial.reuses is not None for e in events if isinstance(e, TrialStarted))
    history = History().extend(events)
    assert history._space is None
    assert history._evidence.n_failures >= history.n_failed > 0
    assert history.incumbent is not None
    assert history._space is None, "only vectors need the space"
    assert sum(len(d_b) for d_b in history.evidence.observations.values()) == len(history.observed) + len(
        [n for n in history.outcomes if history.trials[n].reuses is None]
    )


def test_encoding_late_gives_the_same_vectors_as_encoding_at_once() -> None:
    events = busy_study()
    late, at_once = History().extend(events), History()
    for event in events:
        at_once.apply(event)
        _ = at_once.evidence.observations, at_once.evaluated
    for budget, d_b in at_once.evidence.observations.items():
        n = len(d_b)
        assert np.array_equal(late.evidence.observations[budget].ranked(0, n), d_b.ranked(0, n), equal_nan=True)
        assert np.array_equal(late.evidence.observations[budget].losses, d_b.losses)
    assert late.evaluated == at_once.evaluated
    assert [*map(bytes, late.evidence.recent_failed)] == [*map(bytes, at_once.evidence.recent_failed)]
