"""Which worker ran which trial when."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bohb.analysis.clock import run_clock
from bohb.core.columns import finished, started
from bohb.core.history import History
from bohb.core.trial import Status


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one trial on its worker, in seconds of run time.

    end: None while it runs.
    worker: the name of the worker. It is known only when the trial has finished; until then, and for workers without a
        name, trials that overlap are spread over "running 1", "running 2" … or "slot 1" …
    status: None while it runs.
    """

    number: int
    worker: str
    start: float
    end: float | None
    status: Status | None
    budget: float
    bracket: int
    attempt: int


def timeline(history: History) -> list[Span]:
    """Return every trial that ran or runs, ordered by start; without reused results and unknown starts."""
    clock = run_clock(history)
    timed = []
    for number, trial in history.trials.items():
        start = clock.seconds(started(history, number))
        if start is not None and number not in history.lost and trial.reuses is None:
            timed.append((start, number))
    lanes: dict[str, list[float]] = {"running": [], "slot": []}
    spans = []
    for start, number in sorted(timed):
        trial, outcome = history.trials[number], history.outcomes.get(number)
        end = clock.seconds(finished(history, number))
        end = None if end is None else max(start, end)
        named = None if outcome is None else outcome.worker
        kind = "running" if outcome is None else "slot"
        worker = _lane(kind, lanes[kind], start, end) if named is None else named
        status = None if outcome is None else outcome.status
        spans.append(Span(number, worker, start, end, status, trial.budget, trial.bracket, trial.attempt))
    return spans


def _lane(kind: str, ends: list[float], start: float, end: float | None) -> str:
    """Return the first lane that is free at `start`, and occupy it until `end`."""
    free = next((lane for lane, until in enumerate(ends) if until <= start), len(ends))
    ends[free : free + 1] = [math.inf if end is None else end]
    return f"{kind} {free + 1}"
