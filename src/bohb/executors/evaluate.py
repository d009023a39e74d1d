"""Call an objective, turn anything it does into an Outcome, and run trials in this process."""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from bohb.core.encoding import check_storable
from bohb.core.trial import Outcome, Status, Trial, failure, outcome_of, with_times
from bohb.errors import BohbError, InvalidResult
from bohb.executors.base import Done, Objective, check_objective
from bohb.executors.local.curve import Point, Reporter, extend

T = TypeVar("T")

TRACEBACK_CHARACTERS = 20_000  # an exception with a data set in its message must not fill the journal


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
    return replace(outcome, traceback=_cut(outcome.traceback or ""))


def _cut(text: str) -> str:
    """Keep the two ends of a long traceback: they show where it began and what was raised."""
    if len(text) <= TRACEBACK_CHARACTERS:
        return text
    half = TRACEBACK_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


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
