"""Every finished trial as one row, in the order in which they finished."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.analysis.clock import run_clock
from bohb.analysis.rows import finished, seconds
from bohb.core.history import History
from bohb.core.trial import Origin, Status


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One finished trial.

    picked: how its configuration was first chosen; `origin` is "promoted" on all later rungs.
    loss: None if it failed.
    seconds: the run time of the study when it finished; None if no time was recorded.
    duration: in seconds; None if it was not measured.
    reused: whether it reuses the result of another trial.
    """

    number: int
    config_id: int
    bracket: int
    rung: int
    budget: float
    origin: Origin
    picked: Origin
    status: Status
    loss: float | None
    seconds: float | None
    duration: float | None
    reused: bool


def losses(history: History) -> list[Evaluation]:
    """Return one row per finished trial."""
    clock = run_clock(history)
    rows = []
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        rows.append(
            Evaluation(
                number=number,
                config_id=trial.config_id,
                bracket=trial.bracket,
                rung=trial.rung,
                budget=trial.budget,
                origin=trial.origin,
                picked=history.trials[trial.config_id].origin,
                status=outcome.status,
                loss=outcome.loss,
                seconds=clock.seconds(finished(history, number)),
                duration=seconds(history, number),
                reused=trial.reuses is not None,
            )
        )
    return rows
