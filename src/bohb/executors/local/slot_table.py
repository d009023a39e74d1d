"""Shared memory with the start time and the number of the trial that runs in each slot.

Workers write it and the guard reads it ten times a second. Messages would cost two wake-ups per trial. If the guard
heard of the end of a trial from the coordinator, it would kill finished trials whenever the coordinator is busy.
"""

from __future__ import annotations

import mmap
import os
import time

STARTING = 0.0
IDLE = -1.0


class SlotTable:
    """One (start time, trial number) pair per slot, in a file that guard and workers map.

    descriptor: an open file, whose size is set here.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        os.ftruncate(descriptor, 16 * slots)
        self._cells = memoryview(mmap.mmap(descriptor, 16 * slots)).cast("d")

    def begin(self, slot: int, number: int) -> None:
        """Record that a trial starts now, by the monotonic clock that all processes of this machine share."""
        self._cells[2 * slot + 1] = number
        self._cells[2 * slot] = time.monotonic()  # last, because the guard reads the number only after the time

    def end(self, slot: int, since: float = IDLE) -> None:
        """Record that no trial runs: IDLE, or STARTING for a new worker."""
        self._cells[2 * slot] = since

    def read(self, slot: int) -> tuple[float, int]:
        """Return the start time and the number of the running trial; the time is STARTING or IDLE if there is none."""
        return self._cells[2 * slot], int(self._cells[2 * slot + 1])
