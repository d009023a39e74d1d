"""Several objectives and constraints: the front, the volume it dominates, and a study seen by one of its values."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, loss_range
from bohb.analysis.trajectory import Moment, evaluations
from bohb.core.events import ObservationAdded
from bohb.core.goals import Goals, Objective
from bohb.core.history import History
from bohb.core.order import first_front, hypervolume
from bohb.core.results import Result
from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument

_ROOM = 0.1  # between the worst result and the reference point, as a share of the range


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """The results on one budget.

    names: the values that are shown: all objectives, or one objective and all constraints.
    values: (n, len(names)) as the objective returned them.
    numbers: (n,) the trials.
    feasible: (n,) whether each keeps the constraints.
    best: (n,) whether each is on the front: it is feasible and no feasible one dominates it.
    """

    goals: Goals
    budget: float
    names: tuple[str, ...]
    values: Array
    numbers: NDArray[np.int64]
    feasible: NDArray[np.bool_]
    best: NDArray[np.bool_]

    def maximised(self, name: str) -> bool:
        """Whether larger values are better."""
        return any(objective.name == name and objective.maximised for objective in self.goals.objectives)


@dataclass(frozen=True, slots=True)
class Volume:
    """The dominated volume after a trial, as a share of the box between the best values and the reference point."""

    number: int
    share: float
    at: Moment


def has_front(history: History) -> bool:
    """Whether a study has several objectives or constraints."""
    return not history.goals.single


def front(history: History, budget: float | None = None) -> Front | None:
    """Return the results on one budget; None without any.

    budget: default: the largest one with a feasible result, or with any result if none is feasible.
    """
    goals, results = history.goals, history.results
    if not results or goals.single:
        return None
    if budget is None:
        budget = max((result.feasible, result.budget) for result in results)[1]
    here = [result for result in results if result.budget == budget and result.trial.reuses is None]
    if not here:
        return None
    names = tuple(objective.name for objective in goals.objectives) if goals.several else goals.names
    feasible = np.array([result.feasible for result in here])
    best = np.zeros(len(here), dtype=np.bool_)
    candidates = np.flatnonzero(feasible)
    if len(candidates):
        best[candidates[first_front(_losses(goals, [here[i] for i in candidates]))]] = True
    return Front(
        goals,
        budget,
        names,
        np.array([[result.values[name] for name in names] for result in here], dtype=float),
        np.array([result.trial.number for result in here], dtype=np.int64),
        feasible,
        best,
    )


def volumes(*histories: History) -> list[list[Volume]]:
    """Return how the dominated volume of each study grew, trial by trial, on the largest budget that all fronts reach.

    The reference point is a little worse than the worst feasible result of all these studies in each objective, without
    outliers, so that volumes can be compared within one call only.
    """
    fronts = [table for history in histories if (table := front(history)) is not None and table.feasible.any()]
    if not fronts or not all(table.goals.several for table in fronts):
        return [[] for _ in histories]
    budget = min(table.budget for table in fronts)
    tables = [front(history, budget) for history in histories]
    kept = [[] if table is None else table.numbers[table.feasible].tolist() for table in tables]
    results = [[Result(h.trials[n], h.outcomes[n]) for n in mine] for h, mine in zip(histories, kept, strict=True)]
    points = _scaled(_losses(fronts[0].goals, [result for mine in results for result in mine]))
    reference = _ROOM + np.max(points, axis=0)
    parts = np.split(points, np.cumsum([len(mine) for mine in kept])[:-1])
    return [
        _grown(history, dict(zip(mine, part, strict=True)), reference)
        for history, mine, part in zip(histories, kept, parts, strict=True)
    ]


def _grown(history: History, points: dict[int, Array], reference: Array) -> list[Volume]:
    """Return how the volume between the points of a study and the reference point grew."""
    box = float(np.prod(reference))
    found: list[Volume] = []
    so_far = np.empty((0, len(reference)))
    for trial, _, _, at in evaluations(history):
        if trial.number not in points:
            continue
        so_far = np.vstack([so_far, points[trial.number]])
        so_far = so_far[first_front(so_far)]
        share = hypervolume(so_far.tolist(), reference.tolist()) / box
        if not found or share > found[-1].share:
            found.append(Volume(trial.number, share, at))
    return found


def _scaled(losses: Array) -> Array:
    """Return losses from 0, the best of each objective, to 1, the worst, to which outliers are moved."""
    ranges = [loss_range(column) for column in losses.T]
    losses = np.minimum(losses, [np.inf if usual is None else usual.high for usual in ranges])
    unit = np.maximum(np.abs(losses).max(axis=0), np.finfo(float).tiny)
    low, high = (losses / unit).min(axis=0), (losses / unit).max(axis=0)
    scaled: Array = (losses / unit - low) / np.where(high > low, high - low, 1.0)
    return scaled


def _losses(goals: Goals, results: list[Result]) -> Array:
    return np.array([goals.losses(result.values) for result in results], dtype=float)


def metrics(history: History) -> tuple[str, ...]:
    """Return the values that a study can be seen by: its objectives and constraints, if it has named ones."""
    return () if len(history.goals.names) < 2 else history.goals.names


def seen_by(history: History, name: str) -> History:
    """Return a history whose losses are another value of the same results. It is for reading only.

    name: an objective or a constraint of the study.
    """
    if name not in metrics(history):
        raise InvalidArgument(f"metric={name!r} is not a value of this study; there are {metrics(history)}")
    objective = next((each for each in history.goals.objectives if each.name == name), Objective(name))

    def seen(outcome: Outcome) -> Outcome:
        return replace(outcome, loss=objective.loss(outcome.values[name])) if outcome.ok else outcome

    def known(event: ObservationAdded) -> ObservationAdded:
        value = event.values.get(name)
        return replace(event, loss=None if value is None else objective.loss(value))

    still = copy.copy(history)
    still.goals = Goals((objective,))
    still.outcomes = {number: seen(outcome) for number, outcome in history.outcomes.items()}
    still.observed = [known(event) for event in history.observed]
    still.repeats = [repeat._replace(outcome=seen(repeat.outcome)) for repeat in history.repeats]
    return still
