"""Learning curves as results on smaller budgets: the losses a configuration had on its way to a larger one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from bohb.core.goals import PLAIN, Goals
from bohb.core.gp.process import MOST_BELOW
from bohb.core.space import Array
from bohb.core.trial import Outcome, Trial

_SAME_LOSS = 1e-6  # relative difference of the last point from the returned loss
_SAME_STEP = 0.01  # relative difference of a step from a budget


class Curves:
    """The learning curves of a study's trials, from which losses on smaller budgets are read."""

    def __init__(self) -> None:
        self._curves: list[tuple[int, int, float, Array]] = []  # position of the result, row, budget, points
        self._read: dict[tuple[float, ...], tuple[int, Array]] = {}  # budgets -> number of curves read, readings

    def add(self, result: int, row: int, trial: Trial, outcome: Outcome, goals: Goals = PLAIN) -> None:
        """Add the curve of a trial if it can be compared with losses on smaller budgets.

        result: the position of the trial among all results.
        row: the row of its configuration.
        """
        points = comparable(trial, outcome, goals)
        if len(points):
            self._curves.append((result, row, trial.budget, points))

    def on_rungs(self, n: int, budgets: Sequence[float]) -> Array:
        """Return row, rung below the largest of `budgets` and loss, (m, 3), from the curves of the first n results."""
        key = tuple(budgets)
        done, readings = self._read.get(key, (0, np.empty((0, 4))))
        if done < len(self._curves):
            new = [
                (result, row, below, loss)
                for result, row, budget, points in self._curves[done:]
                for below, loss in _losses_below(points, budget, key)
            ]
            readings = np.concatenate([readings, np.array(new).reshape(-1, 4)])
            self._read[key] = len(self._curves), readings
        return readings[readings[:, 0] < n, 1:]


def comparable(trial: Trial, outcome: Outcome, goals: Goals = PLAIN) -> Array:
    """Return those points of a learning curve that can be compared with results on smaller budgets: step, loss, (n, 2).

    The steps must be in the budget's unit: the last one is the budget, perhaps rounded to a whole number, or one less
    if steps are counted from 0. The last value must be the returned one: otherwise the objective reports another
    quantity than it returns. With several objectives or constraints, one curve does not say enough. The curve of a
    promoted trial is not needed, since there are results on its smaller budgets, and its steps may start anew where
    training was continued.
    """
    none = np.empty((0, 2))
    if trial.previous_budget is not None or outcome.loss is None or len(outcome.curve) < 2 or not goals.single:
        return none
    (first, _), (last, value) = outcome.curve[0], outcome.curve[-1]
    if not math.isclose(goals.minimised(value), outcome.loss, rel_tol=_SAME_LOSS):
        return none
    from_zero = first == 0 and last + 1 == round(trial.budget)
    if not from_zero and not _is_at(last, trial.budget):
        return none
    points: Array = np.array([(step + from_zero, goals.minimised(value)) for step, value in outcome.curve[:-1]])
    before_the_end = (points[:, 0] > 0) & (points[:, 0] < last + from_zero)
    return np.asarray(points[before_the_end & np.isfinite(points[:, 1])])


def _losses_below(points: Array, budget: float, budgets: tuple[float, ...]) -> Iterator[tuple[int, float]]:
    """Yield the rungs below a budget that have a point, and its loss: the nearest one's, of equal ones the latest."""
    steps, losses = points[::-1].T
    for below, rung in enumerate(budgets[::-1][: MOST_BELOW + 1]):
        nearest = int(np.abs(steps - rung).argmin())
        if rung < budget * (1 - 1e-9) and _is_at(float(steps[nearest]), rung):
            yield below, float(losses[nearest])


def _is_at(step: float, budget: float) -> bool:
    """Whether a step is the end of an evaluation on a budget, which the objective may have rounded."""
    return step == round(budget) or math.isclose(step, budget, rel_tol=_SAME_STEP)
