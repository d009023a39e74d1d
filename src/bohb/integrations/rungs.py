"""Hyperband where trials cannot pause: each is stopped or goes on when it reaches a rung.

Libraries that start trials and stop them early (Optuna, Ray Tune) have no brackets of their own. Trials belong to
brackets by their number. A trial is compared with the latest ones on its rung instead of waiting for a complete rung.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

from bohb.core.schedule.brackets import Bracket, geometric_budgets, hyperband

_SLACK = 1e-9  # a budget such as 52/27 is rounded


@dataclass(frozen=True, slots=True)
class Ladder:
    """The budgets and brackets of a study; a rung is an index of the budgets.

    round: one round of Hyperband. Its brackets take trials by their number, one after the other, and start over.
    eta: the best 1/eta of a rung go on.
    """

    round: tuple[Bracket, ...]
    eta: float

    @classmethod
    def of(cls, min_budget: float, max_budget: float, eta: float, sizes: str = "paper") -> Ladder:
        """Return the ladder of these budgets; `sizes` as for `hyperband`."""
        return cls(hyperband(geometric_budgets(min_budget, max_budget, eta), eta, sizes), eta)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, ascending."""
        return tuple(rung.budget for rung in self.round[0].rungs)

    @property
    def top(self) -> int:
        """The highest rung."""
        return len(self.round) - 1

    def bracket(self, number: int) -> Bracket:
        """Return the bracket of trial `number`."""
        place = number % sum(bracket.rungs[0].size for bracket in self.round)
        for bracket in self.round:
            place -= bracket.rungs[0].size
            if place < 0:
                return bracket
        raise AssertionError(number)

    def first_rung(self, number: int) -> int:
        """Return the rung on which trial `number` is judged first."""
        return len(self.round) - len(self.bracket(number).rungs)

    def rung_at(self, spent: float) -> int:
        """Return the highest rung that is reached with a budget; −1 if none is."""
        return sum(budget <= spent * (1 + _SLACK) for budget in self.budgets) - 1

    def next_rung(self, number: int, reached: int) -> int:
        """Return the rung on which trial `number` is evaluated after it has reached another; −1 if none yet."""
        return min(max(self.first_rung(number), reached + 1), self.top)

    def goes_on(self, number: int, rung: int, loss: float, others: Iterable[float]) -> bool:
        """Whether trial `number` goes on from a rung: it is among the best 1/η, and its loss is finite.

        others: the losses of other trials on the rung, the latest first, whichever bracket they belong to. As many
            count as the trial's bracket has; earlier ones were proposed by a model that knew less.
        """
        if rung >= self.top or rung < self.first_rung(number):
            return True
        if math.isinf(loss):
            return False
        latest = list(itertools.islice(others, self.bracket(number).rungs[0].size))
        places = max(1, math.floor((len(latest) + 1) / self.eta))
        return sum(other < loss for other in latest) < places


def finite_or_inf(value: float | None, sign: float) -> float:
    """Return a value as a loss: +inf where it is missing, NaN or infinite; `sign` is −1 if values are maximised."""
    return sign * value if value is not None and math.isfinite(value) else math.inf
