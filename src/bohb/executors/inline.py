"""One trial at a time in this process: for debuggers, notebooks and objectives that must run here."""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from bohb.core.trial import Trial
from bohb.errors import BohbError
from bohb.executors.base import Done, Objective, check_objective
from bohb.executors.evaluate import evaluate
from bohb.executors.local.curve import Point, Reporter, extend


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
