"""What Gaussian processes model: the loss alone, or every objective and every bounded value of a study."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bohb.core.events import ObservationAdded
from bohb.core.goals import Constraint, Goals, Objective
from bohb.core.trial import Outcome

_SMALL = 0.1  # of a bound or a usual value: above it values are compared by ratios, below it by differences
_HIGHEST = 700.0  # the hyperbolic sine of more overflows


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of each result that one process models.

    objective: the objective that it is the loss of, or None for a value that is only bounded.
    constraints: the bounds on this value.
    first: whether it is the first objective: a failed evaluation counts as bad there, elsewhere its value is unknown.
    unit: the loss of an objective counts by its logarithm where it is larger than this; 0: it counts as it is.
    """

    objective: Objective | None
    constraints: tuple[Constraint, ...] = ()
    first: bool = True
    unit: float = 0.0

    def value(self, result: Outcome | ObservationAdded) -> float:
        """Return the number of a result; NaN if it is unknown, +inf for the first objective of a failed evaluation.

        A value that is only bounded counts by its logarithm, unless it is far below its bound, and so does an objective
        other than the first, if its sign does not change. One huge value then does not hide the differences between the
        others, and budgets on which all values are twice as high differ by a constant. Below the bound is good.
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
            loss = self.objective.loss(value)
            return math.asinh(loss / self.unit) if self.unit else loss
        constraint = self.constraints[0]
        ratio = math.asinh(value / (_SMALL * abs(constraint.bound) or 1.0))
        return ratio if constraint.sense == "<=" else 0.0 - ratio

    def loss(self, scaled: float) -> float:
        """Return the loss of an objective that has this value; the inverse of `value`."""
        return self.unit * math.sinh(min(max(scaled, -_HIGHEST), _HIGHEST)) if self.unit else scaled


LOSS = Quantity(Objective("loss"))


def quantities(goals: Goals, results: Iterable[Outcome | ObservationAdded] = ()) -> Sequence[Quantity]:
    """Return what to model: the objectives first, then the values that are only bounded.

    results: some of the study, whose medians determine the units of objectives.
    """
    known = [result.values for result in results]
    found = []
    for number, objective in enumerate(goals.objectives):
        bounds = tuple(c for c in goals.constraints if c.name == objective.name)
        usual = [values[objective.name] for values in known if number and objective.name in values]
        found.append(Quantity(objective, bounds, first=number == 0, unit=_unit(usual)))
    names = {objective.name for objective in goals.objectives}
    return [*found, *(Quantity(None, (c,), first=False) for c in goals.constraints if c.name not in names)]


def _unit(usual: Sequence[float]) -> float:
    """Return the unit of an objective; 0 if values of both signs show that ratios mean nothing."""
    if not usual or min(usual) * max(usual) <= 0:
        return 0.0
    return _SMALL * abs(statistics.median(usual))
