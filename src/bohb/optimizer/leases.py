"""Several runners of one study: which trials belong to which runner, and which runners are gone.

Each runner of a journal that can be shared (`SharedJournal`) holds a lease, which a thread renews as long as the
process lives, however busy the objective keeps it.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import threading
import uuid
from contextlib import AbstractContextManager, nullcontext
from typing import Self

from bohb.core.events import Event, TrialLost
from bohb.core.history import History
from bohb.errors import InvalidArgument, JournalError, JournalUnavailable
from bohb.journal import SharedJournal

log = logging.getLogger("bohb")
RENEWALS = 4  # per lease: three may fail before a living runner counts as gone
_RETRY_SECONDS = 1.0  # after a renewal that failed
_EXIT_SECONDS = 2.0  # for a renewal that is under way when the runner stops
_DECISION_SECONDS = 10.0  # a turn lasts at least as long, whatever the lease: a decision must fit in
_TURN_SECONDS = 60.0


def turn_at(journal: SharedJournal | None, lease_seconds: float = math.inf) -> AbstractContextManager[None]:
    """Take a turn at a shared journal; do nothing if there is none.

    lease_seconds: a runner that is stopped in its turn loses it after this time, limited to between 10 and 60 s.
    """
    if journal is None:
        return nullcontext()
    return journal.turn(min(max(lease_seconds, _DECISION_SECONDS), _TURN_SECONDS))


def orphans(history: History, journal: SharedJournal | None, session: int | None, time: float) -> list[Event]:
    """Return the loss of every running trial whose runner is gone; without leases, of every running trial.

    journal: the journal that holds the leases, None if it cannot be shared.
    session: index of this runner's session, whose trials are never orphans.
    """
    running = history.running

    def is_gone(owner: int | None) -> bool:
        if owner is None or owner == session:
            return owner is None
        return journal is None or journal.lease_is_over(history.sessions[owner].runner)

    gone = {owner for owner in {history.owners[n] for n in running} if is_gone(owner)}
    return [
        TrialLost(n, trial.attempt, "its runner stopped while it ran", time, counts=False)
        for n, trial in running.items()
        if history.owners[n] in gone
    ]


def any_gone(history: History, journal: SharedJournal, session: int) -> bool:
    """Whether another runner seems to be gone; unlike `orphans`, this locks nothing."""
    owners = {history.owners[n] for n in history.running} - {session}
    if not owners:
        return False
    alive = journal.live_leases()
    return any(owner is None or history.sessions[owner].runner not in alive for owner in owners)


def runner_name(shared: bool) -> str:
    """Return the name of this process; unique if the study is shared, since process numbers are used again."""
    name = f"{platform.node()}:{os.getpid()}"
    return f"{name}:{uuid.uuid4().hex[:8]}" if shared else name


class Heartbeat:
    """Renews the lease of a runner in a thread, and deletes it on exit.

    journal: the journal that holds the lease; the thread opens it again, in order not to wait for the runner.
    holder: the runner's name.
    seconds: how long a lease lasts; it is renewed four times in that time.
    """

    def __init__(self, journal: SharedJournal, holder: str, seconds: float) -> None:
        if not (isinstance(seconds, int | float) and 1 <= seconds <= 86_400):
            raise InvalidArgument(f"lease_seconds={seconds!r} must be between 1 and 86400")
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
