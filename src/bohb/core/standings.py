"""How results compare under a study's goals: which trial of a rung is better, and how much better in ranks.

With one objective and no constraint, the loss decides. Otherwise feasible results come first, by non-dominated rank and
then spread along their front; infeasible ones follow by how much they violate the constraints (`fronts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bohb.core.goals import Goals
from bohb.core.trial import Outcome

if TYPE_CHECKING:
    from bohb.core.events import ObservationAdded

Standing = tuple[float, ...]  # violation and losses, as `fronts.levels` takes them


def standing(goals: Goals, result: Outcome | ObservationAdded) -> Standing:
    """Return the violation and the losses of a result; all +inf if it failed."""
    if result.loss is None:
        return (math.inf,) * (1 + len(goals.objectives))
    if goals.single:
        return (0.0, result.loss)
    return (goals.violation(result.values), *goals.losses(result.values))


def best_first(goals: Goals, outcomes: Mapping[int, Outcome], numbers: Iterable[int]) -> list[int]:
    """Return the numbers of finished trials of one rung from best to worst, without failed ones."""
    ok = sorted(number for number in numbers if outcomes[number].ok)
    if goals.single:
        return sorted(ok, key=lambda number: outcomes[number].ranking_loss)
    import numpy as np  # only studies with several objectives or constraints need it here

    from bohb.core.fronts import ranked

    order = ranked(np.array([standing(goals, outcomes[n]) for n in ok]).reshape(-1, 1 + len(goals.objectives)))
    return [ok[i] for i in order]


def levels(goals: Goals, outcomes: Mapping[int, Outcome], numbers: Iterable[int]) -> dict[int, float]:
    """Return numbers to compare trials of one budget by, lower is better: the loss, or the level; +inf if it failed."""
    known = list(numbers)
    if goals.single:
        return {number: outcomes[number].ranking_loss for number in known}
    import numpy as np

    from bohb.core.fronts import levels as levels_of

    ok = [number for number in known if outcomes[number].ok]
    found = levels_of(np.array([standing(goals, outcomes[n]) for n in ok]).reshape(-1, 1 + len(goals.objectives)))
    return dict.fromkeys(known, math.inf) | dict(zip(ok, found.astype(float).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Order:
    """Compares the finished trials of a study by several losses and constraints."""

    goals: Goals
    outcomes: Mapping[int, Outcome]

    def best_first(self, numbers: Iterable[int]) -> list[int]:
        """Return trials from best to worst, without failed ones."""
        return best_first(self.goals, self.outcomes, numbers)
