"""Learning curves: thinned to a bounded number of points and sent in batches while the trial runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

POINTS = 10_000  # an even number; a curve with more points is halved: it is only drawn
BATCH_SECONDS = 0.1  # a killed trial loses at most the points of this time

Point = tuple[float, float]


def extend(curve: list[Point], batch: Iterable[Point]) -> None:
    """Add points to a curve, dropping every second point whenever it has more than POINTS."""
    for point in batch:
        curve.append(point)
        if len(curve) > POINTS:
            del curve[1::2]


class Reporter:
    """Thins the points of one trial and passes them to `send` in batches.

    It counts the points that `extend` holds at the receiving end. Once those have been halved, it sends only every
    second point: of a million reports about 40,000 points are sent and at most POINTS are kept, evenly spaced.
    """

    def __init__(self, send: Callable[[list[Point]], None]) -> None:
        self._send = send
        self._batch: list[Point] = []
        self._last: Point | None = None  # the newest point, if it was not added to a batch
        self._seen, self._kept, self._stride = 0, 0, 1
        self._sent = time.monotonic()
        self._process = os.getpid()
        self._lock = threading.Lock()  # an objective may report from several threads
        self._open = True

    def report(self, step: float, loss: float) -> None:
        """Add one point; ignored in a process that the objective forked, whose bytes would mix with ours."""
        if os.getpid() != self._process:
            return
        with self._lock:
            if not self._open:
                return
            self._add((step, loss))
            now = time.monotonic()
            if self._batch and now - self._sent >= BATCH_SECONDS:
                self._sent = now
                batch, self._batch = self._batch, []
                self._send(batch)

    def close(self) -> list[Point]:
        """Return the points that have not been sent, including the last one; later reports are ignored."""
        with self._lock:
            self._open = False
            if self._last is not None:
                self._batch.append(self._last)
            return self._batch

    def _add(self, point: Point) -> None:
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
