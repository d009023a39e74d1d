"""Session: one runner's work on a study, from its start to its end."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bohb.core.events import Event, FailuresForgotten, SessionStarted
from bohb.core.history import History
from bohb.core.limits import Now
from bohb.core.trial import Trial
from bohb.optimizer.leases import Heartbeat, any_gone, orphans
from bohb.optimizer.ledger import Ledger

log = logging.getLogger("bohb")
BROKEN_FROM = 3  # failures, and nothing else, after which a session of a study that once worked counts as broken


class Session:
    """The working time of a runner, the trials it started, and those it takes over from others.

    clock, stopwatch: the time of day for people, and a monotonic clock.
    index: position among the sessions of the study; None before it begins, or if the study cannot be shared.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float], stopwatch: Callable[[], float]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._stopwatch = stopwatch
        self._earlier = ledger.history.seconds
        self._began: float | None = None  # by the stopwatch
        self._workers: int | None = None
        self.index: int | None = None

    @property
    def seconds(self) -> float:
        """How long the study has been running, earlier sessions included."""
        if self._began is None:
            return self._ledger.history.seconds
        return self._earlier + self._stopwatch() - self._began

    def now(self) -> Now:
        """Return the times and the session that the next events belong to."""
        elapsed = None if self._began is None else self.seconds
        alone = not self._ledger.shared or len(self._ledger.history.sessions) <= 1
        return Now(self._clock(), elapsed, self.index, self._workers, alone)

    def begin(self, runner: str, forget_failures: bool, limits: Mapping[str, Any], workers: int | None) -> None:
        """Store the start of the session, and what it changes."""
        history = self._ledger.history
        index = len(history.sessions)
        orphans = self._orphans()
        forgotten = forgotten_failures(history, forget_failures, len(history.running) > len(orphans))
        if forgotten:
            log.warning("failures of earlier sessions no longer count: the sampler does not learn from them")
        self._began, self._earlier, self._workers = self._stopwatch(), history.seconds, workers
        session = SessionStarted(index, runner, self._clock(), dict(limits), workers)
        self._ledger.append([session, *forgotten, *orphans])
        self.index = index if self._ledger.shared else None

    def lease(self, runner: str, seconds: float) -> AbstractContextManager[object]:
        """Return a context that shows other runners of a shared study that this one is alive."""
        shared = self._ledger.shared_journal
        if shared is None:
            return nullcontext()
        self._ledger.lease_seconds = seconds
        return Heartbeat(shared, runner, seconds)

    def take_over(self) -> None:
        """Declare the trials of runners that are gone as lost."""
        shared = self._ledger.shared_journal
        if shared is not None and self.index is not None and any_gone(self._ledger.history, shared, self.index):
            self._ledger.in_turn(lambda: self._ledger.append(self._orphans()))

    def _orphans(self) -> list[Event]:
        return orphans(self._ledger.history, self._ledger.shared_journal, self.index, self._clock())

    @property
    def trials(self) -> list[Trial]:
        """The running trials that this session started; none if the study is not shared."""
        history = self._ledger.history
        return [t for n, t in history.running.items() if self.index is not None and history.owners[n] == self.index]


def forgotten_failures(history: History, forget: bool, others: bool) -> list[Event]:
    """Return the event that makes a new session forget earlier failures; none if they stay evidence.

    forget: whether the user asked to forget all of them. Otherwise only those of the last session are forgotten, and
        only if the objective was broken: every trial of the session failed, and there were at least three or none of
        the study had ever succeeded.
    others: whether other runners are at work, so that the last session is not over.
    """
    last = list(history.outcomes.values())[history.n_before_session :]
    all_failed = bool(last) and not any(outcome.ok for outcome in last) and not others
    broken = all_failed and (len(last) >= BROKEN_FROM or history.incumbent is None)
    since = 0 if forget else history.n_before_session
    failed = {n for n, outcome in itertools.islice(history.outcomes.items(), since, None) if not outcome.ok}
    if not (forget or broken) or failed <= history.forgotten:
        return []
    return [FailuresForgotten(len(history.sessions), since)]


def forgotten_brackets(history: History) -> int:
    """Return the number of finished brackets that consist of forgotten failures only."""
    counting = {trial.bracket for number, trial in history.trials.items() if number not in history.forgotten}
    return len(set(range(len(history.brackets))) - counting - set(history.schedule.open))
