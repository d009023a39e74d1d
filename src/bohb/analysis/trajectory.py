"""The best loss over time, over spent budget and over trials."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.analysis.evaluations import Evaluation, losses
from bohb.core.history import History
from bohb.core.results import Leaders, Result


@dataclass(frozen=True, slots=True)
class Moment:
    """The progress of a study when a trial finished.

    trials: number of finished trials, including this one.
    seconds: run time; None if no time was recorded.
    fresh, continued: budget of the finished trials in full evaluations, if every trial starts from scratch and if a
        promoted configuration continues from its checkpoint.
    """

    trials: int
    seconds: float | None
    fresh: float
    continued: float


@dataclass(frozen=True, slots=True)
class Step:
    """An improvement: the trial and the time."""

    number: int
    loss: float
    budget: float
    at: Moment


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All improvements in order.

    incumbents: the largest budget counts first, then the lowest loss; so the loss can rise with the first result on a
        larger budget. Results that keep the constraints come before all others.
    per_budget: the improvements on each budget, smallest budget first; without constraints these losses only fall.
    end: the current progress; None before the first trial has finished.
    """

    incumbents: tuple[Step, ...]
    per_budget: dict[float, tuple[Step, ...]]
    end: Moment | None


def moments(history: History, rows: list[Evaluation]) -> list[Moment]:
    """Return the progress after each finished trial; times never decrease."""
    full = history.budgets[-1] if history.created is not None else 1.0
    fresh = continued = 0.0
    seconds: float | None = None
    found = []
    for count, row in enumerate(rows, start=1):
        if not row.reused:
            fresh += row.budget
            continued += row.budget - (history.trials[row.number].previous_budget or 0.0)
        if row.seconds is not None:
            seconds = row.seconds if seconds is None else max(seconds, row.seconds)
        found.append(Moment(count, seconds, fresh / full, continued / full))
    return found


def trajectory(history: History) -> Trajectory:
    """Return the incumbents and the best losses per budget, in the order in which trials finished."""
    rows = losses(history)
    when = moments(history, rows)
    incumbents: list[Step] = []
    per_budget: dict[float, list[Step]] = {}
    leaders = Leaders()  # by the loss alone: `Leaders` compares by the violations that it is given
    for row, at in zip(rows, when, strict=True):
        if row.loss is None:
            continue
        step = Step(row.number, row.loss, row.budget, at)
        outcome = history.outcomes[row.number]
        result = Result(history.trials[row.number], outcome, history.violation(outcome))
        leaders.add(result)
        if leaders.best[row.budget] is result:
            per_budget.setdefault(row.budget, []).append(step)
        if leaders.trajectory[-1] is result:
            incumbents.append(step)
    return Trajectory(
        tuple(incumbents),
        {budget: tuple(per_budget[budget]) for budget in sorted(per_budget)},
        when[-1] if when else None,
    )
