"""A cluster on a simulated clock: parallel behaviour in seconds instead of days.

The objective is called when a trial is submitted, and its result is returned when the trial would have ended; in
between, the clock jumps. The runner, the optimizer and the journal are the real ones, so the decisions are those of a
real run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bohb.arguments import COUNT, check_value
from bohb.core.trial import Outcome, Trial, with_times
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Lost, Objective
from bohb.executors.evaluate import evaluate

Duration = Callable[[Trial, Outcome], float]


def budget_added(trial: Trial, outcome: Outcome) -> float:  # noqa: ARG001 - a Duration may look at the outcome
    """Return one second per unit of budget that this trial adds to what its configuration had reached before."""
    return trial.budget - (trial.previous_budget or 0.0)


class SimulatedExecutor:
    """Runs trials on simulated workers.

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
            result = replace(with_times(outcome, self.now, self.now + seconds), worker=str(worker))
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
