"""A study in a few numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from bohb.analysis.clock import work_clock
from bohb.analysis.evaluations import Evaluation, losses
from bohb.core.history import History, Result
from bohb.core.trial import Origin, Status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BudgetCount:
    """What happened on one budget.

    best: the lowest loss, None if no trial has one.
    seconds: the mean duration of a trial, None if none was timed.
    """

    budget: float
    finished: int
    failed: int
    best: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """The whole study.

    running: trials somebody works on; `waiting` ones lost their worker and will be started again.
    configurations: how many different ones were started.
    statuses, origins: counts of finished trials by how they ended, of started ones by why they ran.
    budgets: one row per budget, smallest first.
    spent, spent_continued: budget of the finished trials in full evaluations, afresh and continued.
    cost: what the objective reported, in its own unit.
    seconds: the study has been at work; None if no time was recorded.
    busy: worker seconds spent in trials, where they were timed.
    rate: finished trials per second at work; None without a time.
    brackets_open, brackets_done: how far the schedule is.
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
    """Counts, costs, times and the incumbent."""
    rows = losses(history)
    full = history.budgets[-1] if history.created is not None else 1.0
    run = [row for row in rows if not row.reused]
    continued = sum(row.budget - (history.trials[row.number].previous_budget or 0.0) for row in run)
    seconds = _seconds_at_work(history, (row.seconds for row in rows))
    return Summary(
        trials=len(history.trials),
        finished=len(rows),
        failed=sum(row.loss is None for row in rows),
        running=len(history.running),
        waiting=len(history.lost),
        reused=len(rows) - len(run),
        configurations=len({trial.config_id for trial in history.trials.values()}),
        statuses=_counts((row.status for row in rows), Status),
        origins=_counts((trial.origin for trial in history.trials.values()), Origin),
        budgets=_budget_counts(rows),
        spent=sum(row.budget for row in run) / full,
        spent_continued=continued / full,
        cost=history.cost_reported,
        seconds=seconds,
        busy=sum(row.duration or 0.0 for row in run),
        rate=len(rows) / seconds if seconds else None,
        brackets_open=len(history.open_brackets),
        brackets_done=len(history.brackets) - len(history.open_brackets),
        observed=len(history.observed),
        incumbent=history.incumbent,
    )


def _budget_counts(rows: list[Evaluation]) -> tuple[BudgetCount, ...]:
    """Finished and failed trials, best loss and mean duration per budget, smallest first."""
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


def _seconds_at_work(history: History, finishes: Iterable[float | None]) -> float | None:
    """The study's own count, or the last time that a trial started or ended, whichever is later.

    Nobody counts when ask and tell are used by hand, and a simulated study takes longer than its count.
    """
    latest = max((time for time in history.started.values() if time is not None), default=None)
    known = (history.seconds or None, work_clock(history).seconds(latest), *finishes)
    return max((time for time in known if time is not None), default=None)


def _counts(values: Iterable[T], order: Iterable[T]) -> dict[T, int]:
    """How often each value occurs, in a fixed order, zeros left out."""
    counted = Counter(values)
    return {value: counted[value] for value in order if counted[value]}
