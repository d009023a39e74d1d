"""Learning curves: thinned to a bounded number of points, sent in batches while the trial still runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

POINTS = 10_000  # a curve is for looking at; beyond this, every second point is dropped (an even number)
BATCH_SECONDS = 0.1  # what a killed trial may lose of its curve

Point = tuple[float, float]


def extend(curve: list[Point], batch: Iterable[Point]) -> None:
    """Add points to a curve, and halve it whenever it has more than POINTS."""
    for point in batch:
        curve.append(point)
        if len(curve) > POINTS:
            del curve[1::2]


class Reporter:
    """Thins the points of one trial and hands them in batches to `send`.

    It keeps count of what `extend` holds at the other end and, once that has been halved, sends every second point
    only: a million reports become some 40,000 points on the way and POINTS or fewer in the end, evenly spread.
    """

    def __init__(self, send: Callable[[list[Point]], None]) -> None:
        self._send = send
        self._batch: list[Point] = []
        self._last: Point | None = None  # the newest point, while it has not been taken
        self._seen, self._kept, self._stride = 0, 0, 1
        self._sent = time.monotonic()
        self._process = os.getpid()
        self._lock = threading.Lock()  # an objective may report from several threads
        self._open = True

    def report(self, step: float, loss: float) -> None:
        """Take one point; ignored in a process the objective forked, whose bytes would mix with ours."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._open:
                return
            self._take((step, loss))
            now = time.monotonic()
            if self._batch and now - self._sent >= BATCH_SECONDS:
                self._sent = now
                batch, self._batch = self._batch, []
                self._send(batch)

    def close(self) -> list[Point]:
        """What has not been sent yet, and the last point in any case; later reports are ignored."""
        with self._lock:
            self._open = False
            if self._last is not None:
                self._batch.append(self._last)
            return self._batch

    def _take(self, point: Point) -> None:
        regular = self._seen % self._stride == 0
        self._seen += 1
        self._last = None if regular else point
        if not regular:
            return
        self._batch.append(point)
        self._kept += 1
        if self._kept > POINTS:
            self._kept -= self._kept // 2
            self._stride *= 2
