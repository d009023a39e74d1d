"""`Budgets`: the budgets of a study from the arguments that define them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bohb.arguments import FLAG, LIST, NUMBER, argument
from bohb.core.schedule.brackets import check_budgets, geometric_budgets, hyperband
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Budgets:
    """What an evaluation may spend.

    min_budget: the smallest budget; no evaluation gets less.
    max_budget: the largest budget; the budgets between are a factor eta apart.
    eta: a rung keeps the best 1/eta of its configurations, by default a third.
    budgets: a list of increasing budgets instead of min_budget and max_budget.
    integer_budgets: whether budgets are rounded to whole numbers.
    """

    min_budget: float | None = argument(None, NUMBER, "budget.min")
    max_budget: float | None = argument(None, NUMBER, "budget.max")
    eta: float = argument(3, NUMBER, "budget.eta")
    budgets: Sequence[float] | None = argument(None, LIST, "budget.values")
    integer_budgets: bool = argument(False, FLAG, "budget.integer")

    def values(self) -> tuple[float, ...]:
        """Return the budgets, smallest first. Raises InvalidArgument if they break a rule."""
        low, high, budgets = self.min_budget, self.max_budget, self.budgets
        if isinstance(budgets, str):
            raise InvalidArgument(f"budgets={budgets!r} must be a list of numbers")
        if budgets is not None:
            if low is not None or high is not None:
                raise InvalidArgument("give either budgets or min_budget and max_budget, not both")
            return self._checked(check_budgets(budgets))
        if low is None or high is None:
            raise InvalidArgument(
                f"min_budget={low!r} and max_budget={high!r} must both be given (or the list budgets=[…])"
            )
        return self._checked(geometric_budgets(low, high, self.eta, self.integer_budgets))

    def _checked(self, budgets: tuple[float, ...]) -> tuple[float, ...]:
        hyperband(budgets, self.eta)  # checks eta and the size of the brackets
        return budgets
