"""What a journal is: an append-only list of events with conflict detection. The simplest one is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from bohb.core.events import Event
from bohb.errors import Conflict


class Journal(Protocol):
    """The events of one study. A position is the number of events before it."""

    def read(self, after: int = 0) -> Sequence[Event]:
        """Return all events from position `after` on, in order."""

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is not exactly `after` events long.
        """

    def close(self) -> None:
        """Release files, locks and connections. Closing twice has no effect."""


@runtime_checkable
class SharedJournal(Journal, Protocol):
    """A journal that several runners can write to at once: they take turns, and each one holds a lease while it lives.

    holder: the unique name of a runner, which identifies its lease; or a trial of a program that gives signs of life.
    """

    def turn(self, seconds: float = 60.0) -> AbstractContextManager[None]:
        """Keep other runners from appending; events that are appended meanwhile may be stored only at the end.

        seconds: after this time without a sign of life of this runner others can append, and its own appends fail.
        """

    def renew_lease(self, holder: str, seconds: float) -> None:
        """Let a lease expire `seconds` from now."""

    def end_lease(self, holder: str) -> None:
        """Delete a lease: its runner has stopped."""

    def lease_is_over(self, holder: str) -> bool:
        """Whether a runner has no lease any more; a lease that has expired is deleted."""

    def live_leases(self) -> set[str]:
        """Return the holders of all leases that have not expired."""

    def expired_leases(self) -> dict[str, float]:
        """Return the holders of all leases that have expired, and for how many seconds."""

    def again(self) -> SharedJournal:
        """Open the same study once more, for another thread."""


def shared_journal(journal: Journal) -> SharedJournal | None:
    """Return the journal if several runners can share it, otherwise None."""
    return journal if isinstance(journal, SharedJournal) else None


class MemoryJournal:
    """A journal in memory: for tests, for ask and tell, for studies that need not be kept."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events = list(events)

    def read(self, after: int = 0) -> Sequence[Event]:
        return self._events[after:]

    def append(self, events: Sequence[Event], after: int) -> None:
        if after != len(self._events):
            raise Conflict(f"the journal has {len(self._events)} events, not {after}")
        self._events.extend(events)

    def close(self) -> None:
        pass
