"""Results: the best so far, and the evidence that models are fitted to."""

from __future__ import annotations

import copy
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bohb.core.goals import PLAIN, Goals
from bohb.core.trial import Outcome, Trial
from bohb.units import number

if TYPE_CHECKING:
    from bohb.core.events import ObservationAdded
    from bohb.core.samplers.observations import Observations
    from bohb.core.space import Array, Space

_RECENT = 1000  # vectors kept to tell where evaluations fail


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """A finished trial with its finite loss.

    violation: by how much it violates the study's constraints; 0 if it keeps them or there are none.
    """

    trial: Trial
    outcome: Outcome
    violation: float = 0.0

    def __repr__(self) -> str:
        shown = ", ".join(f"{name} {number(value)}" for name, value in (self.values or {"loss": self.loss}).items())
        return f"<Result of trial {self.trial.number} on budget {self.budget:g}: {shown}{self.caveat}>"

    @property
    def config(self) -> dict[str, Any]:
        """The configuration."""
        return self.trial.config

    @property
    def budget(self) -> float:
        """The budget it was evaluated on."""
        return self.trial.budget

    @property
    def loss(self) -> float:
        """Its loss, to be minimised; `Goals.shown` turns it into what the user knows."""
        return self.outcome.ranking_loss

    @property
    def values(self) -> dict[str, float]:
        """Its named values, as the objective returned them; empty in a study with one unnamed loss."""
        return self.outcome.values

    @property
    def feasible(self) -> bool:
        """Whether it keeps all constraints."""
        return self.violation == 0

    @property
    def caveat(self) -> str:
        """A warning for people if it violates the constraints; empty if it keeps them."""
        return "" if self.feasible else ", violates the constraints"


class Leaders:
    """The best results of a study.

    trajectory: all incumbents in order; the last one is current.
    best: the best result per budget: the lowest loss among those that keep the constraints, or the least violation.
    fronts: with several objectives, the results per budget that keep the constraints and that no other dominates.
    """

    def __init__(self, goals: Goals = PLAIN) -> None:
        self._goals = goals
        self.trajectory: list[Result] = []
        self.best: dict[float, Result] = {}
        self.fronts: dict[float, list[Result]] = {}

    def add(self, result: Result) -> bool:
        """Add a result; return whether it is the new incumbent, or belongs to the front that the incumbent is on."""
        improved = self._goals.several and self._join_front(result)
        best = self.best.get(result.budget)
        better = best is None or (result.violation, result.loss) < (best.violation, best.loss)
        if better:
            self.best[result.budget] = result
        leads = result.budget == self._budget
        if better and leads:
            self.trajectory.append(result)
        return leads and (better or improved)

    def front(self, budget: float | None = None) -> list[Result]:
        """Return the feasible results that no other dominates, by their first loss.

        budget: default: the largest one that has feasible results.
        """
        best = self.best.get(self._budget if budget is None and self.best else budget or 0.0)
        if best is None or not best.feasible:
            return []
        if not self._goals.several:
            return [best]
        return sorted(self.fronts[best.budget], key=lambda result: self._goals.losses(result.values))

    def snapshot(self) -> Leaders:
        """Return a copy that later results do not change."""
        still = copy.copy(self)
        still.trajectory, still.best, still.fronts = self.trajectory.copy(), self.best.copy(), self.fronts.copy()
        return still

    @property
    def _budget(self) -> float:
        """The largest budget with a feasible result, or with any result while none is feasible."""
        return max([budget for budget, result in self.best.items() if result.violation == 0] or self.best)

    def _join_front(self, result: Result) -> bool:
        """Add a result to the front of its budget unless it is infeasible, or another is as good in all losses."""
        front, losses = self.fronts.get(result.budget, []), self._goals.losses(result.values)
        others = [self._goals.losses(other.values) for other in front]
        if not result.feasible or any(_at_most(other, losses) for other in others):
            return False
        kept = [other for other, of in zip(front, others, strict=True) if not _at_most(losses, of)]
        self.fronts[result.budget] = [*kept, result]  # a new list: a snapshot keeps the old one
        return True


def _at_most(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


class Evidence:
    """Results of this study and of earlier ones. Configurations are encoded when vectors are first needed.

    goals: how results compare; with several objectives or constraints, D_b is sorted by their order.
    observations: D_b by budget.
    recent_ok, recent_failed: the vectors of the last successful and failed evaluations.
    n_failures: number of failed evaluations.
    """

    def __init__(self, goals: Goals = PLAIN) -> None:
        self._goals = goals
        self.observations: dict[float, Observations] = {}
        self.recent_ok: deque[Array] = deque(maxlen=_RECENT)
        self.recent_failed: deque[Array] = deque(maxlen=_RECENT)
        self.n_failures = 0
        self._waiting: deque[int | ObservationAdded] = deque()

    def add(self, result: int | ObservationAdded, loss: float | None) -> None:
        """Add a trial that has finished or an earlier result, with its loss; a failed evaluation has none."""
        self.n_failures += loss is None
        self._waiting.append(result)

    def snapshot(self) -> Evidence:
        """Return a copy that later results do not change."""
        still = copy.copy(self)
        still._waiting, still.observations = self._waiting.copy(), copy.deepcopy(self.observations)
        still.recent_ok, still.recent_failed = self.recent_ok.copy(), self.recent_failed.copy()
        return still

    def encode(self, space: Space, trials: Mapping[int, Trial], outcomes: Mapping[int, Outcome]) -> None:
        """Encode the results that were added since the last call; those of trials are found by their numbers."""
        if not self._waiting:
            return
        # not before vectors are needed: it imports numpy
        from bohb.core.samplers.observations import Observations, RankedObservations

        while self._waiting:
            waiting = self._waiting[0]
            place, result = (trials[waiting], outcomes[waiting]) if isinstance(waiting, int) else (waiting, waiting)
            budget, standing = place.budget, self._goals.standing(result.loss, result.values)
            vector = space.encode(space.restore(place.config))
            if budget not in self.observations:
                self.observations[budget] = (Observations if self._goals.single else RankedObservations)(space.d)
            d_b = self.observations[budget]
            if isinstance(d_b, RankedObservations):
                d_b.add_standing(vector, standing)
            else:
                d_b.add(vector, standing[1])
            (self.recent_failed if math.isinf(standing[-1]) else self.recent_ok).append(vector)
            self._waiting.popleft()
