"""Places where trials run, such as a slot or a node: which of them lose trials, and are avoided for a while."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

FIRST_SECONDS = 1.0  # that a place is avoided; each further time is twice as long, up to LONGEST_SECONDS
LONGEST_SECONDS = 60.0


@dataclass(slots=True)
class _Record:
    """The losses at a place since a trial last ended there."""

    trials: set[int] = field(default_factory=set)
    times: int = 0  # that it was avoided
    until: float = -math.inf


class Places:
    """The places that have lost trials since a trial last ended there."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def works(self, place: str) -> None:
        """Record that a place works."""
        self._records.pop(place, None)

    def lost(self, place: str, number: int, began: bool) -> bool:
        """Record that a place has lost a trial; return whether the trial may be to blame.

        It is not if it had not begun, or if the place has lost another trial as well. Then the place is avoided.
        """
        record = self._records.setdefault(place, _Record())
        record.trials.add(number)
        if began and len(record.trials) == 1:
            return True
        now = time.monotonic()
        if now >= record.until:  # otherwise this trial was lost together with the one before
            record.until = now + min(LONGEST_SECONDS, FIRST_SECONDS * 2**record.times)
            record.times += 1
        return False

    def avoided(self) -> set[str]:
        """Return the places that should not be used now."""
        now = time.monotonic()
        return {place for place, record in self._records.items() if now < record.until}
