"""One trial at a time in this process: for debuggers, notebooks and objectives that cannot leave it."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from bohb.core.trial import Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Objective
from bohb.executors.evaluate import evaluate
from bohb.executors.local.curve import Point, Reporter, extend


class SerialExecutor:
    """Runs each trial inside `wait`, without isolation: a crash or a hang of the objective is one of this process.

    objective: called with each trial.
    """

    def __init__(self, objective: Objective) -> None:
        if not callable(objective):
            raise InvalidArgument(f"objective={objective!r} must be callable with one argument, the trial")
        self._objective = objective
        self._queue: deque[Trial] = deque()
        self._closed = False

    @property
    def slots(self) -> int:
        """One: `wait` runs what `submit` was given."""
        return 1

    def submit(self, trial: Trial) -> None:
        """Keep the trial until `wait`."""
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        self._queue.append(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:  # noqa: ARG002 - a call cannot be left half-way
        """Run the oldest trial to its end, however long it takes; Ctrl-C passes through and keeps it queued."""
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
        """Forget what has not started."""
        self._closed = True
        self._queue.clear()

    def __enter__(self) -> SerialExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(kill=True)
