"""Keeps a History in sync with its journal, and turns what `tell` is given into events.

`tell` stores events and then folds them; `ask` folds each decision, because the next one depends on it, and then stores
all of them with one append. Storing every decision before the next one would need one transaction per trial (measured
for 64 trials: 1.0 ms of CPU and 13 ms of waiting per trial instead of 0.04 and 0.1), and a failure in between would
leave started trials that nobody was given. Deciding on a copy of the history would cost time in proportion to the study
at every ask, so that a turn which fails after folding is undone by folding the journal again (`reload`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TypeVar

from bohb.core.encoding import check_storable
from bohb.core.events import Event, ResultLate, TrialFinished, TrialLost
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.limits import Now
from bohb.core.space import Space
from bohb.core.trial import Lost, Outcome, Status, Trial, checked_outcome, last_try, outcome_of
from bohb.errors import AlreadyTold, Conflict, InvalidResult, UnknownTrial
from bohb.journal import Journal, SharedJournal
from bohb.journal.base import shared_journal

T = TypeVar("T")
log = logging.getLogger("bohb")
_CONFLICTS = 100  # appends that another writer may beat before we give up
_DECISION_SECONDS = 10.0  # a turn lasts at least as long, whatever the lease: a decision must fit in
_TURN_SECONDS = 60.0


class Ledger:
    """The events of a study, stored and folded.

    journal: where the events are stored.
    space: the compiled space, so that the history need not compile it again.
    events: the events that the journal holds.
    """

    def __init__(self, journal: Journal, space: Space, events: Sequence[Event]) -> None:
        self.journal = journal
        self.shared = shared_journal(journal)  # None: this runner is the only one
        self.lease_seconds = math.inf  # of this runner, once it has a lease
        self._space = space
        self._stale = False  # whether the history may hold events that the journal does not
        self._fold(events)

    def add(self, make: Callable[[], Sequence[Event]]) -> Sequence[Event]:
        """Store and return the events of a function, which sees everything that others have stored."""

        def act() -> Sequence[Event]:
            events = make()
            self.append(events)
            return events

        return self.in_turn(act)

    def in_turn(self, act: Callable[[], T]) -> T:
        """Call a function that appends events, after folding everything that others have stored.

        At a journal without turns another writer may be faster; its events are then folded and `act` is called again.
        """
        for _ in range(_CONFLICTS):
            try:
                with self._turn():
                    return act()
            except Conflict:
                if not self._stale:
                    self.history.extend(self.journal.read(self.history.n_events))
        with self._turn():
            return act()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Take a turn at the journal; if it fails, for whatever reason, forget what was decided in it."""
        known = self.history.n_events
        try:
            with turn_at(self.shared, self.lease_seconds):
                self.catch_up()
                known = self.history.n_events
                yield
        except BaseException:
            if self.history.n_events != known:
                self._stale = True
                if self.shared is None:  # a server may be out of reach now: its journal is read in the next turn
                    self.reload()
            raise

    def catch_up(self) -> None:
        """Fold the events that others have stored."""
        if self._stale:
            self.reload()
        elif self.shared is not None:
            self.history.extend(self.journal.read(self.history.n_events))

    def append(self, events: Sequence[Event]) -> None:
        """Store events, then fold them."""
        self.store(events, self.history.n_events)
        self.history.extend(events)

    def store(self, events: Sequence[Event], after: int) -> None:
        """Store events that were folded in this turn."""
        if events:
            self.journal.append(events, after)

    def reload(self) -> None:
        """Read the journal again, and forget everything that it does not hold."""
        self._fold(self.journal.read(0))

    def _fold(self, events: Sequence[Event]) -> None:
        self.history = History(self._space).extend(events)
        self._stale = False


def turn_at(journal: SharedJournal | None, lease_seconds: float = math.inf) -> AbstractContextManager[None]:
    """Take a turn at a shared journal; do nothing if there is none.

    lease_seconds: a runner that is stopped in its turn loses it after this time, limited to between 10 and 60 s.
    """
    if journal is None:
        return nullcontext()
    return journal.turn(min(max(lease_seconds, _DECISION_SECONDS), _TURN_SECONDS))


def known_number(history: History, trial: Trial | int) -> int:
    """Return the number of a trial that this study has started. Raises UnknownTrial."""
    number = trial.number if isinstance(trial, Trial) else trial
    if not isinstance(number, int) or isinstance(number, bool) or number not in history.trials:
        raise UnknownTrial(f"trial {number!r} was never asked for; this study has started {len(history.trials)} trials")
    if isinstance(trial, Trial) and trial.seed != history.trials[number].seed:
        raise UnknownTrial(f"trial {number} of this study has another seed; does it belong to another study?")
    return number


def result_events(history: History, results: Iterable[tuple[Trial | int, object]], now: Now) -> list[Event]:
    """Return the events that store these results; a result that is already stored needs none, nor an old loss."""
    events: list[Event] = []
    ended: dict[int, Outcome] = {}
    for trial, result in results:
        number = known_number(history, trial)
        if isinstance(result, Lost):
            running = history.running.get(number)
            if running is not None and (not isinstance(trial, Trial) or trial.attempt == running.attempt):
                events.append(TrialLost(number, running.attempt, result.reason, now.time, result.charged))
            continue
        outcome = _storable_outcome(result, history.goals)
        outcome = last_try(outcome, len(history.retries.get(number, ())))
        again = outcome.status is Status.RETRY
        if isinstance(trial, Trial) and (number, trial.attempt) in history.given_up:
            if not again and not any((late.number, late.attempt) == (number, trial.attempt) for late in history.late):
                log.warning("the result of trial %d, attempt %d, is late and not used", number, trial.attempt)
                events.append(ResultLate(number, trial.attempt, outcome, now.elapsed))
            continue
        before = history.outcomes.get(number, ended.get(number))
        if before is None and again:
            lost = TrialLost(number, history.trials[number].attempt, outcome.error or "", now.time, False, retry=True)
            events += [] if number in history.lost else [lost]
        elif before is None:
            ended[number] = outcome
            events.append(TrialFinished(number, outcome, now.elapsed))
        elif not before.same_effect(outcome):
            raise AlreadyTold(
                f"trial {number} has already ended with {_describe(before)}; {_describe(outcome)} is not recorded"
            )
    return events


def _storable_outcome(result: object, goals: Goals) -> Outcome:
    """Return a result as an outcome to store. Raises InvalidResult, except for an Outcome.

    An Outcome comes from an executor after the evaluation, so that it fails as a bad result and the study goes on.
    """
    try:
        if isinstance(result, Outcome):
            return check_storable(checked_outcome(result, goals))
        return check_storable(outcome_of(result, goals))
    except InvalidResult as error:
        if not isinstance(result, Outcome):
            raise
        bare = Outcome(Status.BAD_RESULT, error=str(error))
        return replace(bare, started=result.started, finished=result.finished, worker=result.worker)


def _describe(outcome: Outcome) -> str:
    return f"loss {outcome.loss!r}" if outcome.ok else f"{outcome.status.value} ({outcome.error})"
