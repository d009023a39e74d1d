"""Choose the budget to show, and collect its finished trials."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Observed:
    """The finished trials of one budget, without reused results."""

    budget: float
    trials: tuple[Trial, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def losses(self) -> list[float]:
        """Their losses; +inf for a failed trial."""
        return [outcome.ranking_loss for outcome in self.outcomes]


def telling_budget(history: History, enough: int | None = None) -> float | None:
    """Return the largest budget with enough losses, else the one with the most losses; None without any loss.

    enough: required number of losses. Default: 2·(d + 1), at least 10.
    """
    counts: dict[float, int] = {}
    for number, outcome in history.outcomes.items():
        if outcome.ok:
            budget = history.trials[number].budget
            counts[budget] = counts.get(budget, 0) + 1
    if not counts:
        return None
    needed = max(10, 2 * (history.space.d + 1)) if enough is None else enough
    return max((b for b, n in counts.items() if n >= needed), default=max(counts, key=lambda b: (counts[b], b)))


def observed(history: History, budget: float | None = None) -> Observed | None:
    """Return the finished trials of a budget, by default of `telling_budget`; None if there are none."""
    if budget is None:
        budget = telling_budget(history)
    if budget is None:
        return None
    numbers = [
        number
        for number in history.outcomes
        if history.trials[number].budget == budget and history.trials[number].reuses is None
    ]
    if not numbers:
        seen = sorted({history.trials[number].budget for number in history.outcomes})
        raise InvalidArgument(f"budget={budget!r} has no finished trial; there are some on {seen}")
    return Observed(budget, tuple(history.trials[n] for n in numbers), tuple(history.outcomes[n] for n in numbers))
