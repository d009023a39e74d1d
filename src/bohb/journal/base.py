"""What a journal is: an append-only list of events with conflict detection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bohb.core.events import Event


class Journal(Protocol):
    """Two methods. A position is the number of events before it; a journal of n events accepts only `after=n`."""

    def read(self, after: int = 0) -> Sequence[Event]:
        """All events from position `after` on, in order."""
        ...

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is no longer exactly `after` events long.
        """
        ...
