"""Which budgets an Optuna trial has reached, with which losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from bohb.errors import InvalidArgument
from bohb.integrations.rungs import Ladder, finite_or_inf


def one_more(step: int) -> float:
    """Return the budget of a step counted from 0: after epoch 0, one epoch has been spent."""
    return step + 1


def sign(study: Study) -> float:
    """Return what turns a value of the study into a loss: −1 if it is maximised."""
    if len(study.directions) != 1:
        raise InvalidArgument(f"the study has {len(study.directions)} objectives; BOHB needs exactly one")
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


@dataclass(frozen=True, slots=True)
class Steps:
    """The rungs that sampler and pruner share, and how trials reach them.

    budget_of_step: the budget that has been spent when `trial.report(value, step)` is called.
    """

    ladder: Ladder
    budget_of_step: Callable[[int], float]

    def reported(self, values: Mapping[int, float], sign: float) -> dict[int, float]:
        """Return the losses of intermediate values by rung; +inf for NaN and infinities.

        The first value at or after a budget counts on its rung. A value that is the first after several budgets counts
        on the highest of them only.
        """
        found: dict[int, float] = {}
        reached = -1
        for step in sorted(values):
            rung = self.ladder.rung_at(self.budget_of_step(step))
            if rung > reached:
                reached, found[rung] = rung, finite_or_inf(values[step], sign)
        return found

    def results(self, trial: FrozenTrial, sign: float) -> dict[int, float]:
        """Return the losses of a trial by rung; +inf where it failed.

        The value of a complete trial counts on the highest rung. A failed trial fails on the rung that it was to reach
        next.
        """
        found, top = self.reported(trial.intermediate_values, sign), self.ladder.top
        if trial.state != TrialState.PRUNED:
            found.pop(top, None)  # the final value is yet to come, or replaces it
        if trial.state == TrialState.COMPLETE:
            found[top] = finite_or_inf(trial.value, sign)
        elif trial.state == TrialState.FAIL:
            found[self.ladder.next_rung(trial.number, max(found, default=-1))] = math.inf
        return found
