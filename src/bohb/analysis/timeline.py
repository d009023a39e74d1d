"""Who worked on what, and when."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.analysis.clock import finished, started, work_clock
from bohb.core.history import History
from bohb.core.trial import Status

UNNAMED = "worker"


@dataclass(frozen=True, slots=True)
class Span:
    """One trial's time on its worker, in seconds at work.

    end: None while it runs.
    worker: the slot or machine, "worker" if it was never said.
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
    """Every trial that ran or runs and whose start is known, by start; results taken over from others ran nowhere."""
    clock = work_clock(history)
    spans = []
    for number, trial in history.trials.items():
        start = clock.seconds(started(history, number))
        if start is None or number in history.lost or "reuses" in trial.reason:
            continue
        outcome = history.outcomes.get(number)
        end = clock.seconds(finished(history, number))
        spans.append(
            Span(
                number=number,
                worker=UNNAMED if outcome is None or outcome.worker is None else outcome.worker,
                start=start,
                end=None if end is None else max(start, end),
                status=None if outcome is None else outcome.status,
                budget=trial.budget,
                bracket=trial.bracket,
                attempt=trial.attempt,
            )
        )
    return sorted(spans, key=lambda span: (span.start, span.number))
