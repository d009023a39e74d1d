"""Several studies beside each other: their results, and their best losses at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bohb.analysis.summary import Summary, summary
from bohb.analysis.trajectory import Step, trajectory
from bohb.core.history import History

SHARES = (0.1, 0.25, 0.5, 1.0)  # of the cost that all studies have spent


@dataclass(frozen=True, slots=True)
class Comparison:
    """Studies in numbers.

    summaries: one for each study.
    budget: the largest budget on which all of them have a result; None if there is none.
    costs: numbers of full evaluations, up to what the study that spent least has spent; a promoted configuration counts
        for what it added.
    losses: for each study its best loss on that budget at each of these costs; None while it had none.
    """

    summaries: tuple[Summary, ...]
    budget: float | None
    costs: tuple[float, ...]
    losses: tuple[tuple[float | None, ...], ...]


def comparison(histories: Sequence[History]) -> Comparison:
    """Compare the best losses of studies at equal cost, on the largest budget that all of them have reached."""
    summaries = tuple(summary(history) for history in histories)
    per_budget = [trajectory(history).per_budget for history in histories]
    common = set(per_budget[0]).intersection(*per_budget[1:]) if per_budget else set()
    if not common:
        return Comparison(summaries, None, (), ())
    budget = max(common)
    least = min(row.spent_continued for row in summaries)
    costs = tuple(share * least for share in SHARES)
    losses = tuple(tuple(_best(steps[budget], cost) for cost in costs) for steps in per_budget)
    return Comparison(summaries, budget, costs, losses)


def _best(steps: Sequence[Step], cost: float) -> float | None:
    """Return the best loss by the time that this much was spent."""
    reached = [step.loss for step in steps if step.at.continued <= cost * (1 + 1e-9)]
    return reached[-1] if reached else None
