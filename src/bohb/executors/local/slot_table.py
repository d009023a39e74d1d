"""Shared memory with the start time and the number of the trial that runs in each slot.

Workers write it and the guard reads it ten times a second. Messages would cost two wake-ups per trial. If the guard
heard of the end of a trial from the coordinator, it would kill finished trials whenever the coordinator is busy.
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


class SlotTable:
    """One (start time, trial number) pair per slot, in a file that guard and workers map.

    descriptor: an open file; the first process that maps it sets its size.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        size = slots * _WIDTH
        if os.fstat(descriptor).st_size < size:
            os.ftruncate(descriptor, size)
        self._map = mmap.mmap(descriptor, size)

    def begin(self, slot: int, number: int) -> None:
        """Record that a trial starts now, by the monotonic clock that all processes of this machine share."""
        _NUMBER.pack_into(self._map, slot * _WIDTH + _SINCE.size, number)
        # written last, as eight aligned bytes at once: a reader never sees half of a new entry
        _SINCE.pack_into(self._map, slot * _WIDTH, time.monotonic())

    def end(self, slot: int, since: float = IDLE) -> None:
        """Record that no trial runs: IDLE, or STARTING for a new worker."""
        _SINCE.pack_into(self._map, slot * _WIDTH, since)

    def read(self, slot: int) -> tuple[float, int]:
        """Return the start time and the number of the running trial; the time is STARTING or IDLE if there is none."""
        since: float = _SINCE.unpack_from(self._map, slot * _WIDTH)[0]
        number: int = _NUMBER.unpack_from(self._map, slot * _WIDTH + _SINCE.size)[0]
        return since, number
