"""Several runners of one study: which trials belong to which runner, and which runners are gone.

Only a journal on a server can be shared (`SharedJournal`). Each of its runners holds a lease, which a thread renews as
long as the process lives, however busy the objective keeps it.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from contextlib import AbstractContextManager, nullcontext
from typing import Self

from bohb.core.events import Event, TrialLost
from bohb.core.history import History
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import SharedJournal

log = logging.getLogger("bohb")
RENEWALS = 4  # per lease: three may fail before a living runner counts as gone


def turn_at(journal: SharedJournal | None) -> AbstractContextManager[None]:
    """Take a turn at a shared journal; do nothing if there is none."""
    return nullcontext() if journal is None else journal.turn()


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

    journal: the journal that holds the lease; the thread opens it again.
    holder: the runner's name.
    seconds: how long a lease lasts; it is renewed four times in that time.
    """

    def __init__(self, journal: SharedJournal, holder: str, seconds: float) -> None:
        if not (isinstance(seconds, int | float) and 1 <= seconds <= 86_400):
            raise InvalidArgument(f"lease_seconds={seconds!r} must be between 1 and 86400")
        self._journal, self._holder, self._seconds = journal.again(), holder, float(seconds)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="bohb-lease", daemon=True)

    def __enter__(self) -> Self:
        self._journal.renew_lease(self._holder, self._seconds)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        try:
            self._journal.end_lease(self._holder)
        except JournalError as error:
            log.warning("the lease could not be deleted and expires by itself: %s", error)
        self._journal.close()

    def _renew(self) -> None:
        while not self._over.wait(self._seconds / RENEWALS):
            try:
                self._journal.renew_lease(self._holder, self._seconds)
            except JournalError as error:
                log.warning("the lease could not be renewed, which is tried again: %s", error)
