"""Session: one runner's work on a study, from its start to its end, and the lease that shows others that it lives.

Each runner of a journal that can be shared (`SharedJournal`) holds a lease, which a thread renews as long as the
process lives, however busy the objective keeps it.
"""

from __future__ import annotations

import itertools
import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

from bohb.arguments import LEASE, check_value
from bohb.core.events import Event, FailuresForgotten, SessionStarted, TrialLost
from bohb.core.history import History
from bohb.core.limits import Now
from bohb.core.trial import Trial
from bohb.errors import JournalError, JournalUnavailable
from bohb.journal import SharedJournal
from bohb.optimizer.ledger import Ledger

log = logging.getLogger("bohb")
BROKEN_FROM = 3  # failures, and nothing else, after which a session of a study that once worked counts as broken
RENEWALS = 4  # per lease: three may fail before a living runner counts as gone
_RETRY_SECONDS = 1.0  # after a renewal that failed
_EXIT_SECONDS = 2.0  # for a renewal that is under way when the runner stops


def runner_name(shared: bool) -> str:
    """Return the name of this process; unique if the study is shared, since process numbers are used again."""
    name = f"{platform.node()}:{os.getpid()}"
    return f"{name}:{uuid.uuid4().hex[:8]}" if shared else name


class Session:
    """The working time of a runner, the trials it started, and those it takes over from others.

    clock: returns the time of day, for people.
    stopwatch: returns a monotonic time, for limits.
    index: position among the sessions of the study; None before it begins, or if the study cannot be shared.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float], stopwatch: Callable[[], float]) -> None:
        self._ledger = ledger
        self.clock = clock
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

    def now(self, client: str | None = None) -> Now:
        """Return the times, the session and the program that the next events belong to."""
        elapsed = None if self._began is None else self.seconds
        alone = self._ledger.shared is None or len(self._ledger.history.sessions) <= 1
        return Now(self.clock(), elapsed, self.index, self._workers, alone, client)

    def begin(
        self,
        runner: str,
        forget_failures: bool = False,
        limits: Mapping[str, Any] | None = None,
        workers: int | None = None,
    ) -> None:
        """Store the start of the session; `ask` will return the trials again that an earlier runner left unfinished.

        runner: a unique name, which identifies its lease if several runners share the study.
        forget_failures: whether earlier failures no longer count as evidence. Those of a session with a broken
            objective never do (`forgotten_failures`).
        limits, workers: when the runner stops, and how many trials it runs at once; stored for estimates of the end.
        """

        def events() -> list[Event]:
            history, orphans = self._ledger.history, self._orphans()
            forgotten = forgotten_failures(history, forget_failures, len(history.running) > len(orphans))
            if forgotten:
                log.warning("failures of earlier sessions no longer count: the sampler does not learn from them")
            self._began, self._earlier, self._workers = self._stopwatch(), history.seconds, workers
            started = SessionStarted(len(history.sessions), runner, self.clock(), dict(limits or {}), workers)
            return [started, *forgotten, *orphans]

        self._ledger.add(events)
        self.index = None if self._ledger.shared is None else self._ledger.history.sessions[-1].index

    def lease(self, runner: str, seconds: float) -> AbstractContextManager[object]:
        """Return a context that shows other runners of a shared study that this one is alive."""
        if self._ledger.shared is None:
            return nullcontext()
        self._ledger.lease_seconds = seconds
        return Heartbeat(self._ledger.shared, runner, seconds)

    def take_over(self) -> None:
        """Declare the trials of runners that are gone as lost, so that `ask` returns them again."""
        self._ledger.catch_up()
        shared, history = self._ledger.shared, self._ledger.history
        owners = {history.owner(number) for number in history.running} - {self.index}
        if shared is None or self.index is None or not owners:
            return
        alive = shared.live_leases()  # unlike `_orphans`, this locks nothing
        if any(owner is None or history.sessions[owner].runner not in alive for owner in owners):
            self._ledger.add(self._orphans)

    def _orphans(self) -> list[Event]:
        """Return the loss of every running trial whose runner is gone; without leases, of every running trial."""
        shared, history, running = self._ledger.shared, self._ledger.history, self._ledger.history.running

        def is_gone(owner: int | None) -> bool:
            if owner is None or owner == self.index:
                return owner is None
            return shared is None or shared.lease_is_over(history.sessions[owner].runner)

        gone = {owner for owner in {history.owner(n) for n in running} if is_gone(owner)}
        return [
            TrialLost(n, trial.attempt, "its runner stopped while it ran", self.clock(), counts=False)
            for n, trial in running.items()
            if history.owner(n) in gone
        ]

    @property
    def trials(self) -> list[Trial]:
        """The running trials that this session started; none if the study is not shared."""
        history = self._ledger.history
        return [t for n, t in history.running.items() if self.index is not None and history.owner(n) == self.index]


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


class Heartbeat:
    """Renews the lease of a runner in a thread, and deletes it on exit.

    journal: the journal that holds the lease; the thread opens it again, in order not to wait for the runner.
    holder: the runner's name.
    seconds: how long a lease lasts; it is renewed four times in that time.
    """

    def __init__(self, journal: SharedJournal, holder: str, seconds: float) -> None:
        check_value("lease_seconds", seconds, LEASE)
        self._journal, self._holder, self._seconds = journal, holder, float(seconds)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="bohb-lease", daemon=True)

    def __enter__(self) -> Self:
        self._journal.renew_lease(self._holder, self._seconds)
        try:
            self._thread.start()
        except RuntimeError as error:  # the limit of processes, which counts threads, is reached
            raise JournalUnavailable(
                f"the thread that renews the lease of this runner cannot be started: {error}"
            ) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_EXIT_SECONDS)
        try:
            self._journal.end_lease(self._holder)
        except JournalError as error:
            log.warning("the lease could not be deleted and expires by itself: %s", error)

    def _renew(self) -> None:
        """Renew the lease until the runner stops; after an outage at once, before others take over its trials."""
        pause, failing = self._seconds / RENEWALS, False
        own: SharedJournal | None = None
        while not self._over.wait(min(pause, _RETRY_SECONDS) if failing else pause):
            try:
                own = self._journal.again() if own is None else own
                own.renew_lease(self._holder, self._seconds)
                if failing:
                    log.info("the lease was renewed again")
                failing = False
            except JournalError as error:
                if not failing:
                    log.warning("the lease could not be renewed, which is tried again: %s", error)
                failing = True
        if own is not None:
            own.close()
