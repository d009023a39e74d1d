"""Several runners, one study: whose trials are whose, and how one notices that another is gone.

Only a journal on a server can be shared (`journal.shared`). There each runner has a lease, renewed by a thread of its
own for as long as the process lives, however busy its objective keeps it.
"""

from __future__ import annotations

import logging
import os
import platform
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Self

from bohb.core.events import Event, TrialLost
from bohb.core.history import History
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import Journal, SqlJournal

log = logging.getLogger("bohb")
RENEWALS = 4  # per lease: three may fail before a living runner is taken for gone


def is_shared(journal: Journal) -> bool:
    """Whether several runners may work on the journal's study at once."""
    return bool(getattr(journal, "shared", False))


def turn_at(journal: Journal) -> AbstractContextManager[None]:
    """Our turn at a journal that has turns; nothing special at one that has not."""
    turn: Callable[[], AbstractContextManager[None]] = getattr(journal, "turn", nullcontext)
    return turn()


def orphans(history: History, journal: Journal, session: int | None, time: float) -> list[Event]:
    """The loss of every running trial whose runner is gone; without leases, of every running trial.

    session: our own, whose trials are never orphans.
    """
    running = history.running
    owners = {history.owners[n] for n in running}
    gone = {owner for owner in owners if owner is None or (owner != session and _is_gone(history, journal, owner))}
    return [
        TrialLost(n, trial.attempt, "its runner stopped while it ran", time, counts=False)
        for n, trial in running.items()
        if history.owners[n] in gone
    ]


def any_gone(history: History, journal: Journal, session: int) -> bool:
    """Whether a runner other than ours seems to be gone: one look that holds nobody up."""
    owners = {history.owners[n] for n in history.running} - {session}
    if not owners or not isinstance(journal, SqlJournal):
        return False
    alive = journal.live_leases()
    return any(owner is None or history.sessions[owner].runner not in alive for owner in owners)


def _is_gone(history: History, journal: Journal, session: int) -> bool:
    over: Callable[[str], bool] | None = getattr(journal, "lease_is_over", None)
    return over is None or not is_shared(journal) or over(history.sessions[session].runner)


def runner_name(shared: bool) -> str:
    """Who we are; unique where others may be at work on the same machine, or have been under the same number."""
    name = f"{platform.node()}:{os.getpid()}"
    return f"{name}:{uuid.uuid4().hex[:8]}" if shared else name


class Heartbeat:
    """Renews the lease of a runner until it is left; then the lease ends.

    journal: where the lease is; the thread has a connection of its own.
    holder: the runner's name.
    seconds: how long a lease lasts; it is renewed four times in that span.
    """

    def __init__(self, journal: SqlJournal, holder: str, seconds: float) -> None:
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
            log.warning("the lease could not be given back and runs out by itself: %s", error)
        self._journal.close()

    def _renew(self) -> None:
        while not self._over.wait(self._seconds / RENEWALS):
            try:
                self._journal.renew_lease(self._holder, self._seconds)
            except JournalError as error:
                log.warning("the lease could not be renewed, it is tried again: %s", error)
