"""Call an objective and turn anything it does into an Outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bohb.core.events import check_storable
from bohb.core.trial import Outcome, Status, Trial, failure, outcome_of, with_times
from bohb.errors import InvalidResult
from bohb.executors.base import Objective

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
