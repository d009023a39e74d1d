"""The finished trials as points of the search space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, Axis, axes, places
from bohb.core.history import History
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """Finished trials, one row each, in the order in which they finished, without reused results.

    axes: the hyperparameters that vary.
    places: (n, d) where each value lies on its axis, from 0 to 1; NaN where the hyperparameter is inactive.
    losses: (n,) +inf for a failed trial.
    budgets: (n,) the budget of each trial.
    numbers: (n,) the number of each trial.
    """

    axes: tuple[Axis, ...]
    places: Array
    losses: Array
    budgets: Array
    numbers: NDArray[np.int64]


def configurations(history: History, budget: float | None = None) -> Configurations:
    """Return the finished trials on one budget, or on all budgets.

    budget: must have a finished trial. Default: all budgets.
    """
    numbers = [
        number
        for number in history.outcomes
        if history.trials[number].reuses is None and budget in (None, history.trials[number].budget)
    ]
    if budget is not None and not numbers:
        seen = sorted({history.trials[number].budget for number in history.outcomes})
        raise InvalidArgument(f"budget={budget!r} has no finished trial; there are some on {seen}")
    trials = [history.trials[number] for number in numbers]
    return Configurations(
        axes(history.space),
        places(history.space, [trial.config for trial in trials]),
        np.array([history.outcomes[number].ranking_loss for number in numbers], dtype=float),
        np.array([trial.budget for trial in trials], dtype=float),
        np.array(numbers, dtype=np.int64),
    )


def telling_budget(history: History, enough: int | None = None) -> float | None:
    """Return the largest budget with enough losses, else the one with the most losses; None without any loss.

    enough: required number of losses. Default: 2·(d + 1), at least 10.
    """
    counts: dict[float, int] = {}
    for number, outcome in history.outcomes.items():
        if outcome.ok:
            budget = history.trials[number].budget
            counts[budget] = counts.get(budget, 0) + 1
    if not counts:
        return None
    needed = max(10, 2 * (history.space.d + 1)) if enough is None else enough
    return max((b for b, n in counts.items() if n >= needed), default=max(counts, key=lambda b: (counts[b], b)))
