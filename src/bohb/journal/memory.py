"""A journal in memory: for tests, for ask and tell, for studies that need not be kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bohb.core.events import Event
from bohb.errors import Conflict


class MemoryJournal:
    """A list of events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._events = list(events)

    def read(self, after: int = 0) -> Sequence[Event]:
        return self._events[after:]

    def append(self, events: Sequence[Event], after: int) -> None:
        if after != len(self._events):
            raise Conflict(f"the journal has {len(self._events)} events, not {after}")
        self._events.extend(events)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
