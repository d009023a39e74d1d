"""What Gaussian processes model: the loss alone, or every objective and every bounded value of a study."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bohb.core.events import ObservationAdded
from bohb.core.goals import Constraint, Goals, Objective
from bohb.core.trial import Outcome


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of each result that one process models.

    objective: the objective that it is the loss of, or None for a value that is only bounded.
    constraints: the bounds on this value.
    first: whether it is the first objective: a failed evaluation counts as bad there, elsewhere its value is unknown.
    """

    objective: Objective | None
    constraints: tuple[Constraint, ...] = ()
    first: bool = True

    def value(self, result: Outcome | ObservationAdded) -> float:
        """Return the number of a result; NaN if it is unknown, +inf for the first objective of a failed evaluation.

        A value that is only bounded is compressed on both sides of its bound, so that one huge value does not hide the
        differences between the others; below the bound is good.
        """
        if self.first:
            return math.inf if result.loss is None else result.loss
        name = self.constraints[0].name if self.objective is None else self.objective.name
        value = result.values.get(name)
        if value is None:
            return math.nan
        return self._scaled(value)

    @property
    def bounds(self) -> list[tuple[float, bool]]:
        """Each bound on the scale of `value`, and whether it is an upper one."""
        if self.objective is not None:
            maximised = self.objective.maximised
            return [(self._scaled(c.bound), (c.sense == "<=") != maximised) for c in self.constraints]
        return [(self._scaled(c.bound), True) for c in self.constraints]

    def _scaled(self, value: float) -> float:
        if self.objective is not None:
            return self.objective.loss(value)
        constraint = self.constraints[0]
        ratio = math.asinh(value / (abs(constraint.bound) or 1.0))
        return ratio if constraint.sense == "<=" else 0.0 - ratio


LOSS = Quantity(Objective("loss"))


def quantities(goals: Goals) -> Sequence[Quantity]:
    """Return what to model: the objectives first, then the values that are only bounded."""
    found = []
    for number, objective in enumerate(goals.objectives):
        bounds = tuple(c for c in goals.constraints if c.name == objective.name)
        found.append(Quantity(objective, bounds, first=number == 0))
    names = {objective.name for objective in goals.objectives}
    return [*found, *(Quantity(None, (c,), first=False) for c in goals.constraints if c.name not in names)]
