"""Which budget to look at, and what was observed on it."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Observed:
    """The finished trials of one budget, results taken over from other trials left out."""

    budget: float
    trials: tuple[Trial, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def losses(self) -> list[float]:
        """Their losses; +inf for a failed one."""
        return [outcome.ranking_loss for outcome in self.outcomes]


def telling_budget(history: History, enough: int | None = None) -> float | None:
    """The largest budget with enough losses to see something; else the one with the most; None without any.

    enough: how many are enough; 2·(d + 1), at least 10, unless told otherwise.
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
    """What finished on a budget, by default on the telling one; None if nothing did."""
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
