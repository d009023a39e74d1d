"""Call an objective, turn anything it does into an Outcome and a curve, and run trials in this process."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from bohb.core.encoding import check_storable
from bohb.core.trial import Outcome, Status, Trial, failure, outcome_of, with_times
from bohb.errors import BohbError, InvalidResult
from bohb.executors.base import Done, Objective, check_objective

T = TypeVar("T")
Point = tuple[float, float]

TRACEBACK_CHARACTERS = 20_000  # an exception with a data set in its message must not fill the journal
POINTS = 10_000  # an even number; a curve with more points is halved: it is only drawn
BATCH_SECONDS = 0.1  # a killed trial loses at most the points of this time


def evaluate(objective: Objective, trial: Trial, propagate: tuple[type[BaseException], ...] = ()) -> Outcome:
    """Return the Outcome of `objective(trial)`, whatever it raises or returns, with its start and end times.

    propagate: exceptions that are raised instead, such as a KeyboardInterrupt in this process.
    """
    started, clock = time.time(), time.monotonic()
    outcome = attempt(lambda: check_storable(outcome_of(objective(trial), trial.goals)), propagate)
    # the monotonic clock measures the duration, so that setting the machine's clock cannot make it negative
    return with_times(outcome, started, started + (time.monotonic() - clock))


def attempt(action: Callable[[], T], propagate: tuple[type[BaseException], ...] = ()) -> T | Outcome:
    """Return the result of `action`, or the Outcome of its failure. This is the only broad except of the package."""
    try:
        return action()
    except BaseException as error:  # sys.exit and a library's own BaseException end a trial, too
        if isinstance(error, propagate):
            raise
        return _failed(error)


def _failed(error: BaseException) -> Outcome:
    status = Status.CRASHED
    if isinstance(error, InvalidResult):
        status = Status.BAD_RESULT
    elif isinstance(error, MemoryError):
        status = Status.MEMORY
    try:
        outcome = failure(error, status)
    except Exception as broken:  # noqa: BLE001 - formatting runs the code of the user's exception class
        text = f"{type(error).__name__} (its traceback cannot be shown: {type(broken).__name__})"
        return Outcome(status, error=text)
    text, half = outcome.traceback or "", TRACEBACK_CHARACTERS // 2
    if len(text) > TRACEBACK_CHARACTERS:  # its two ends show where it began and what was raised
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
    return replace(outcome, traceback=text)


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


class InlineExecutor:
    """Runs each trial inside `wait`, without isolation: if the objective crashes or hangs, so does this process.

    objective: called with each trial.
    """

    def __init__(self, objective: Objective) -> None:
        check_objective(objective)
        self._objective = objective
        self._queue: deque[Trial] = deque()
        self._closed = False

    @property
    def slots(self) -> int:
        """Always 1."""
        return 1

    def submit(self, trial: Trial) -> None:
        """Keep the trial until `wait` runs it."""
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        self._queue.append(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:  # noqa: ARG002 - a call cannot be interrupted half-way
        """Run the oldest trial, however long it takes; a KeyboardInterrupt propagates and keeps the trial queued."""
        if not self._queue:
            return []
        trial = self._queue[0]
        curve: list[Point] = []
        reporter = Reporter(lambda batch: extend(curve, batch))
        outcome = evaluate(self._objective, replace(trial, reporter=reporter.report), propagate=(KeyboardInterrupt,))
        self._queue.popleft()
        extend(curve, reporter.close())
        return [Done(trial, replace(outcome, curve=tuple(curve) or outcome.curve, worker=platform.node()))]

    def shutdown(self, kill: bool) -> None:  # noqa: ARG002 - nothing runs between two calls of `wait`
        """Discard the trials that have not started."""
        self._closed = True
        self._queue.clear()

    def __enter__(self) -> InlineExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown(kill=True)
