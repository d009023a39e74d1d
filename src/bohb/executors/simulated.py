"""A cluster on a simulated clock: parallel behaviour in seconds instead of days.

The objective is called when a trial is submitted, and its result comes back when the trial would have ended. In between
the clock jumps. The runner, the optimizer and the journal are the real ones, so what is measured is what
would have been decided.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bohb.core.trial import Outcome, Trial, with_times
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Lost, Objective
from bohb.executors.evaluate import evaluate

Duration = Callable[[Trial, Outcome], float]


def budget_added(trial: Trial, outcome: Outcome) -> float:  # noqa: ARG001 - a Duration may look at the outcome
    """One second per unit of budget beyond what the configuration had reached before."""
    return trial.budget - (trial.previous_budget or 0.0)


class SimulatedExecutor:
    """Runs trials on workers that exist on paper only.

    objective: called at once, in this process; what it computes takes no simulated time.
    workers: how many trials run at once.
    duration: how long a trial would have taken, in seconds, from the trial and its outcome.
    straggling: the standard deviation of the logarithm of a random factor on every duration; its median is 1.
    loss_rate: how often, per second of work, a worker is lost; the trial is then started again by the runner.
    seed: of the stragglers and losses.
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
    ) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise InvalidArgument(f"workers={workers!r} must be an integer, at least 1")
        for name, value in (("straggling", straggling), ("loss_rate", loss_rate)):
            if not 0 <= value < math.inf:
                raise InvalidArgument(f"{name}={value!r} must be a finite number, at least 0")
        self._objective, self._duration = objective, duration
        self._straggling, self._loss_rate = straggling, loss_rate
        self._rng = np.random.default_rng(seed)
        self._workers = workers
        self._free = list(range(workers))  # a heap: the worker with the lowest number comes first
        self._ends: list[tuple[float, int, int, Done]] = []  # a heap: (when, order of submission, worker, what)
        self._submitted = 0
        self._closed = False
        self.now = 0.0  # simulated seconds since the beginning
        self.busy = 0.0  # seconds of work of all workers together

    @property
    def slots(self) -> int:
        """How many trials may run at once."""
        return self._workers

    @property
    def utilisation(self) -> float:
        """The share of the workers' time that was work."""
        return self.busy / (self.now * self._workers) if self.now else 0.0

    def clock(self) -> float:
        """The simulated time, for `BOHB(clock=…, stopwatch=…)`."""
        return self.now

    def submit(self, trial: Trial) -> None:
        """Evaluate a trial, and note when its result will be known."""
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

    def wait(self, timeout: float | None) -> Sequence[Done]:  # noqa: ARG002 - nobody waits in simulated time
        """Let the clock jump to the next end, and return all that end then."""
        if not self._ends:
            return []
        self.now = self._ends[0][0]
        done: list[Done] = []
        while self._ends and self._ends[0][0] == self.now:
            _, _, worker, ended = heapq.heappop(self._ends)
            heapq.heappush(self._free, worker)
            done.append(ended)
        return done

    def shutdown(self, kill: bool) -> None:  # noqa: ARG002 - nothing runs
        """Forget what has not ended."""
        self._closed = True
        self._ends.clear()

    def _seconds(self, trial: Trial, outcome: Outcome) -> float:
        seconds = float(self._duration(trial, outcome))
        if not (math.isfinite(seconds) and seconds >= 0):
            raise InvalidArgument(f"duration={seconds!r} of trial {trial.number} must be a finite number, at least 0")
        return seconds * float(np.exp(self._rng.normal(0.0, self._straggling))) if self._straggling else seconds
