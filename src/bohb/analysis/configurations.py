"""Tables for parallel coordinates and for slices of the search space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, Axis, axes, placed, vectors
from bohb.analysis.budgets import observed
from bohb.core.history import History


@dataclass(frozen=True, slots=True, eq=False)
class Parallel:
    """All configurations of one budget, one row each, in the order in which they finished.

    axes: the hyperparameters that vary.
    places: (n, d) where each value lies on its axis, from 0 to 1; NaN where inactive.
    losses: (n,) +inf for a failed trial.
    numbers: (n,) the trials.
    """

    budget: float
    axes: tuple[Axis, ...]
    places: Array
    losses: Array
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """One hyperparameter against the loss, for all trials in which it is active.

    places, losses, budgets, numbers: (n,) one entry per finished trial; the loss is +inf for a failed trial.
    inactive: number of finished trials in which it is inactive.
    """

    axis: Axis
    places: Array
    losses: Array
    budgets: Array
    numbers: NDArray[np.int64]
    inactive: int


def parallel(history: History, budget: float | None = None) -> Parallel | None:
    """Return the configurations of a budget, by default the largest with enough losses; None without any."""
    seen = observed(history, budget)
    if seen is None:
        return None
    X = vectors(history.space, [trial.config for trial in seen.trials])
    return Parallel(
        seen.budget,
        axes(history.space),
        placed(history.space, X),
        np.array(seen.losses, dtype=float),
        np.array([trial.number for trial in seen.trials], dtype=np.int64),
    )


def slices(history: History, budget: float | None = None) -> list[Slice]:
    """Return each hyperparameter against the loss, on all budgets or on one."""
    numbers = [
        number
        for number in history.outcomes
        if history.trials[number].reuses is None and budget in (None, history.trials[number].budget)
    ]
    trials = [history.trials[number] for number in numbers]
    places = placed(history.space, vectors(history.space, [trial.config for trial in trials]))
    losses = np.array([history.outcomes[number].ranking_loss for number in numbers], dtype=float)
    budgets = np.array([trial.budget for trial in trials], dtype=float)
    tables = []
    for j, axis in enumerate(axes(history.space)):
        active = ~np.isnan(places[:, j])
        tables.append(
            Slice(
                axis,
                places[active, j],
                losses[active],
                budgets[active],
                np.array(numbers, dtype=np.int64)[active],
                int((~active).sum()),
            )
        )
    return tables
