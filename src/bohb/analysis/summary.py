"""A study in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bohb.analysis.clock import run_clock
from bohb.analysis.evaluations import Evaluation, losses
from bohb.analysis.trajectory import moments
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import Origin, Status


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """The trials of one budget.

    best: the lowest loss; None if no trial has one.
    seconds: the mean duration of a trial; None if none was measured.
    """

    budget: float
    finished: int
    failed: int
    best: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole study.

    running: trials that are being evaluated; `waiting`: trials that lost their worker and will be started again.
    configurations: number of different configurations.
    statuses, origins: numbers of finished trials by status and of started trials by origin.
    budgets: one row per budget, smallest first.
    spent, spent_continued: budget of the finished trials in full evaluations, if every trial starts from scratch and if
        training continues from checkpoints.
    cost: cost that the objective reported, in its own unit.
    seconds: run time; None if no time was recorded.
    busy: seconds that workers spent in trials, as far as they were measured.
    rate: finished trials per second of run time; None without a time.
    brackets_open, brackets_done: numbers of brackets.
    """

    trials: int
    finished: int
    failed: int
    running: int
    waiting: int
    reused: int
    configurations: int
    statuses: dict[Status, int]
    origins: dict[Origin, int]
    budgets: tuple[BudgetCount, ...]
    spent: float
    spent_continued: float
    cost: float
    seconds: float | None
    busy: float
    rate: float | None
    brackets_open: int
    brackets_done: int
    observed: int
    incumbent: Result | None


def summary(history: History) -> Summary:
    """Return counts, costs, times and the incumbent."""
    rows = losses(history)
    statuses = Counter(row.status for row in rows)
    origins = Counter(trial.origin for trial in history.trials.values())
    end = moments(history, rows)[-1] if rows else None
    seconds = _run_time(history, (row.seconds for row in rows))
    return Summary(
        trials=len(history.trials),
        finished=len(rows),
        failed=sum(row.loss is None for row in rows),
        running=len(history.running),
        waiting=len(history.lost),
        reused=sum(row.reused for row in rows),
        configurations=len({trial.config_id for trial in history.trials.values()}),
        statuses={status: statuses[status] for status in Status if status in statuses},
        origins={origin: origins[origin] for origin in Origin if origin in origins},
        budgets=_budget_counts(rows),
        spent=0.0 if end is None else end.fresh,
        spent_continued=0.0 if end is None else end.continued,
        cost=history.cost_reported,
        seconds=seconds,
        busy=sum(row.duration or 0.0 for row in rows),
        rate=len(rows) / seconds if seconds else None,
        brackets_open=len(history.open_brackets),
        brackets_done=len(history.brackets) - len(history.open_brackets),
        observed=len(history.observed),
        incumbent=history.incumbent,
    )


def _budget_counts(rows: list[Evaluation]) -> tuple[BudgetCount, ...]:
    """Return finished and failed trials, best loss and mean duration per budget, smallest first."""
    table = []
    for budget in sorted({row.budget for row in rows}):
        here = [row for row in rows if row.budget == budget]
        timed = [row.duration for row in here if row.duration is not None]
        table.append(
            BudgetCount(
                budget=budget,
                finished=len(here),
                failed=sum(row.loss is None for row in here),
                best=min((row.loss for row in here if row.loss is not None), default=None),
                seconds=sum(timed) / len(timed) if timed else None,
            )
        )
    return tuple(table)


def _run_time(history: History, finishes: Iterable[float | None]) -> float | None:
    """Return the recorded time, or the last time that a trial started or ended, whichever is later.

    With ask and tell no time is recorded, and a simulated study takes longer than its recorded time.
    """
    latest = max((time for time in history.started.values() if time is not None), default=None)
    known = (history.seconds or None, run_clock(history).seconds(latest), *finishes)
    return max((time for time in known if time is not None), default=None)
