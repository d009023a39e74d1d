"""Call an objective, turn anything it does into an Outcome and a curve, and run trials in this process.

Trials run one after the other, or on a simulated cluster: parallel behaviour in seconds instead of days.
"""

from __future__ import annotations

import heapq
import math
import os
import platform
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from bohb.arguments import COUNT, check_value
from bohb.core.trial import Lost, Outcome, Status, Trial, failure, outcome_of
from bohb.errors import BohbError, DeviceMemory, InvalidArgument, InvalidResult
from bohb.executors.base import Done, Objective, check_objective

T = TypeVar("T")
Point = tuple[float, float]

TRACEBACK_CHARACTERS = 20_000  # an exception with a data set in its message must not fill the journal
_CAUSES = 10  # of an exception that are looked at
# What PyTorch, CuPy, JAX, TensorFlow, XGBoost, LightGBM and NVIDIA's libraries say; none of them need be imported here.
_DEVICE_MEMORY = re.compile(
    r"^OutOfMemoryError:|\b(CUDA|HIP|XPU|MPS)\b[^.\n]{0,40}out of memory|RESOURCE_EXHAUSTED: .*(out of memory|allocat)"
    r"|OOM when allocating .*device:GPU|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CU[A-Z]+_STATUS_(ALLOC_FAILED|NOT_INITIALIZED)",
    re.IGNORECASE | re.DOTALL,
)
POINTS = 10_000  # an even number; a curve with more points is halved: it is only drawn
BATCH_SECONDS = 0.1  # a killed trial loses at most the points of this time


def evaluate(objective: Objective, trial: Trial, propagate: tuple[type[BaseException], ...] = ()) -> Outcome:
    """Return the Outcome of `objective(trial)`, whatever it raises or returns, with its start and end times.

    propagate: exceptions that are raised instead, such as a KeyboardInterrupt in this process.
    """
    started, clock = time.time(), time.monotonic()
    outcome = attempt(lambda: outcome_of(objective(trial), trial.goals), propagate)
    # the monotonic clock measures the duration, so that setting the machine's clock cannot make it negative
    return replace(outcome, started=started, finished=started + (time.monotonic() - clock))


def attempt(action: Callable[[], T], propagate: tuple[type[BaseException], ...] = ()) -> T | Outcome:
    """Return the result of `action`, or the Outcome of its failure. This is the only broad except of the package."""
    try:
        return action()
    except BaseException as error:  # sys.exit and a library's own BaseException end a trial, too
        if isinstance(error, propagate):
            raise
        return _failed(error)


def _failed(error: BaseException) -> Outcome:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next  # it begins with the objective
    try:
        outcome = failure(error.with_traceback(trace), _status(error))
    except Exception as broken:  # noqa: BLE001 - formatting runs the code of the user's exception class
        text = f"{type(error).__name__} (its traceback cannot be shown: {type(broken).__name__})"
        return Outcome(Status.CRASHED, error=text)
    text, half = outcome.traceback or "", TRACEBACK_CHARACTERS // 2
    if len(text) > TRACEBACK_CHARACTERS:  # its two ends show where it began and what was raised
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"
    return replace(outcome, traceback=text)


def _status(error: BaseException) -> Status:
    """Return how an evaluation that raised has ended, also by the exceptions that this one was raised from."""
    if isinstance(error, InvalidResult):
        return Status.BAD_RESULT
    cause: BaseException | None = error
    for _ in range(_CAUSES):
        if cause is None:
            break
        if isinstance(cause, DeviceMemory) or _DEVICE_MEMORY.search(failure(cause).error or ""):
            return Status.DEVICE_MEMORY
        cause = cause.__cause__
    return Status.MEMORY if isinstance(error, MemoryError) else Status.CRASHED


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


Duration = Callable[[Trial, Outcome], float]


def budget_added(trial: Trial, outcome: Outcome) -> float:  # noqa: ARG001 - a Duration may look at the outcome
    """Return one second per unit of budget that this trial adds to what its configuration had reached before."""
    return trial.budget - (trial.previous_budget or 0.0)


class SimulatedExecutor:
    """Runs trials on simulated workers, on a clock that jumps from the end of one trial to the next.

    The objective is called when a trial is submitted, and its result is returned when the trial would have ended. The
    runner, the optimizer and the journal are the real ones, so the decisions are those of a real run.

    objective: called at once, in this process; the call takes no simulated time.
    workers: number of trials that run at once.
    duration: function of a trial and its outcome that returns the simulated duration in seconds.
    straggling: every duration is multiplied by a log-normal factor with median 1 and this standard deviation.
    loss_rate: losses of a worker per second of work; the runner then starts the trial again.
    seed: random seed of straggling and losses.
    until: the clock stops here once, even if no trial ends then, so that a runner notices its deadline.
    """

    def __init__(
        self,
        objective: Objective,
        workers: int,
        *,
        duration: Duration = budget_added,
        straggling: float = 0.0,
        loss_rate: float = 0.0,
        seed: int = 0,
        until: float = math.inf,
    ) -> None:
        check_value("workers", workers, COUNT)
        for name, value in (("straggling", straggling), ("loss_rate", loss_rate)):
            if not 0 <= value < math.inf:
                raise InvalidArgument(f"{name}={value!r} must be a finite number, at least 0")
        self._objective, self._duration = objective, duration
        self._straggling, self._loss_rate = straggling, loss_rate
        self._rng = np.random.default_rng(seed)
        self._workers, self._until = workers, until
        self._free = list(range(workers))  # heap: the worker with the lowest number comes first
        self._ends: list[tuple[float, int, int, Done]] = []  # heap: (end time, order of submission, worker, result)
        self._submitted = 0
        self._closed = False
        self.now = 0.0  # simulated seconds since the start
        self.busy = 0.0  # total seconds of work of all workers

    @property
    def slots(self) -> int:
        """Number of trials that may run at once."""
        return self._workers

    @property
    def utilisation(self) -> float:
        """Fraction of the workers' time that was spent on trials."""
        return self.busy / (self.now * self._workers) if self.now else 0.0

    def clock(self) -> float:
        """Return the simulated time, for `BOHB(clock=…, stopwatch=…)`."""
        return self.now

    def submit(self, trial: Trial) -> None:
        """Evaluate a trial and schedule the return of its result."""
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        outcome = evaluate(self._objective, trial, propagate=(KeyboardInterrupt,))
        seconds = self._seconds(trial, outcome)
        worker = heapq.heappop(self._free) if self._free else self._submitted % self._workers
        lost_after = float(self._rng.exponential(1 / self._loss_rate)) if self._loss_rate else math.inf
        result: Outcome | Lost
        if lost_after < seconds:
            seconds = lost_after
            result = Lost(f"simulated worker {worker} was lost after {seconds:.3g} s")
        else:
            result = replace(outcome, started=self.now, finished=self.now + seconds, worker=str(worker))
        self.busy += seconds
        heapq.heappush(self._ends, (self.now + seconds, self._submitted, worker, Done(trial, result)))
        self._submitted += 1

    def wait(self, timeout: float | None) -> Sequence[Done]:  # noqa: ARG002 - simulated time passes at once
        """Move the clock to the next end and return all trials that end at that time."""
        if not self._ends:
            return []
        if self.now < self._until < self._ends[0][0]:
            self.now = self._until
            return []
        self.now = self._ends[0][0]
        done: list[Done] = []
        while self._ends and self._ends[0][0] == self.now:
            _, _, worker, ended = heapq.heappop(self._ends)
            heapq.heappush(self._free, worker)
            done.append(ended)
        return done

    def shutdown(self, kill: bool) -> None:  # noqa: ARG002 - nothing runs
        """Discard the trials that have not ended."""
        self._closed = True
        self._ends.clear()

    def _seconds(self, trial: Trial, outcome: Outcome) -> float:
        seconds = float(self._duration(trial, outcome))
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidArgument(f"duration={seconds!r} of trial {trial.number} must be a finite number, at least 0")
        return seconds * float(np.exp(self._rng.normal(0.0, self._straggling))) if self._straggling else seconds
