"""The rungs of an Optuna study: in which bracket a trial is, and which budgets it has reached with which losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bohb.core.schedule.brackets import Bracket, geometric_budgets, hyperband
from bohb.errors import InvalidArgument

_SLACK = 1e-9  # a budget such as 52/27 is rounded


def one_more(step: int) -> float:
    """Return the budget of a step counted from 0: after epoch 0, one epoch has been spent."""
    return step + 1


def sign(study: Study) -> float:
    """Return what turns a value of the study into a loss: −1 if it is maximised."""
    if len(study.directions) != 1:
        raise InvalidArgument(f"the study has {len(study.directions)} objectives; BOHB needs exactly one")
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """The budgets and brackets that sampler and pruner share.

    round: one round of Hyperband. Its brackets take trials by their number, one after the other, and start over.
    budget_of_step: the budget that has been spent when `trial.report(value, step)` is called.
    """

    round: tuple[Bracket, ...]
    eta: float
    budget_of_step: Callable[[int], float]

    @classmethod
    def of(
        cls, min_budget: float, max_budget: float, eta: float, sizes: str, budget_of_step: Callable[[int], float]
    ) -> Ladder:
        """Return the ladder of these budgets; `sizes` as for `hyperband`."""
        return cls(hyperband(geometric_budgets(min_budget, max_budget, eta), eta, sizes), eta, budget_of_step)

    @property
    def budgets(self) -> tuple[float, ...]:
        """The budgets, ascending; a rung is an index of them."""
        return tuple(rung.budget for rung in self.round[0].rungs)

    @property
    def top(self) -> int:
        """The highest rung."""
        return len(self.budgets) - 1

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
        return len(self.budgets) - len(self.bracket(number).rungs)

    def reported(self, values: Mapping[int, float], sign: float) -> dict[int, float]:
        """Return the losses of intermediate values by rung; +inf for NaN and infinities.

        The first value at or after a budget counts on its rung. A value that is the first after several budgets counts
        on the highest of them only.
        """
        found: dict[int, float] = {}
        reached = -1
        for step in sorted(values):
            spent = self.budget_of_step(step) * (1 + _SLACK)
            rung = sum(budget <= spent for budget in self.budgets) - 1
            if rung > reached:
                reached, found[rung] = rung, _loss(values[step], sign)
        return found

    def results(self, trial: FrozenTrial, sign: float) -> dict[int, float]:
        """Return the losses of a trial by rung; +inf where it failed.

        The value of a complete trial counts on the highest rung. A failed trial fails on the rung that it was to reach
        next.
        """
        found = self.reported(trial.intermediate_values, sign)
        if trial.state != TrialState.PRUNED:
            found.pop(self.top, None)  # the final value is yet to come, or replaces it
        if trial.state == TrialState.COMPLETE:
            found[self.top] = _loss(trial.value, sign)
        elif trial.state == TrialState.FAIL:
            found[self.next_rung(trial.number, found)] = math.inf
        return found

    def next_rung(self, number: int, results: Mapping[int, float]) -> int:
        """Return the rung that trial `number` reaches next."""
        return min(max(self.first_rung(number), max(results, default=-1) + 1), self.top)


def _loss(value: float | None, sign: float) -> float:
    return sign * value if value is not None and math.isfinite(value) else math.inf
