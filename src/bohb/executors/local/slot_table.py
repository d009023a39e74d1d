"""A few shared bytes per slot that say since when which trial runs.

Workers write them, the guard reads them ten times a second. Messages would cost two wake-ups per trial, and a guard
that learned of ends from the coordinator would kill finished trials whenever the coordinator is busy elsewhere.
"""

from __future__ import annotations

import mmap
import os
import struct
import time

_SINCE = struct.Struct("=d")
_NUMBER = struct.Struct("=q")
_WIDTH = _SINCE.size + _NUMBER.size

STARTING = 0.0
IDLE = -1.0


class Board:
    """One (since, number) pair per slot in a file mapped by guard and workers.

    descriptor: an open file; the first to map it gives it its size.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        size = slots * _WIDTH
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        self._map = mmap.mmap(descriptor, size)

    def begin(self, slot: int, number: int) -> None:
        """Note that a trial starts now, on the clock that all processes of this machine share."""
        _NUMBER.pack_into(self._map, slot * _WIDTH + _SINCE.size, number)
        # eight aligned bytes are written at once, and last: a reader sees the old trial's end or the new one whole
        _SINCE.pack_into(self._map, slot * _WIDTH, time.monotonic())

    def end(self, slot: int, since: float = IDLE) -> None:
        """Note that no trial runs: IDLE, or STARTING for a new worker."""
        _SINCE.pack_into(self._map, slot * _WIDTH, since)

    def read(self, slot: int) -> tuple[float, int]:
        """Since when which trial runs; STARTING or IDLE if none does."""
        since: float = _SINCE.unpack_from(self._map, slot * _WIDTH)[0]
        number: int = _NUMBER.unpack_from(self._map, slot * _WIDTH + _SINCE.size)[0]
        return since, number
