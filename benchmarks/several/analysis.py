"""What the runs show: dominated hypervolume, the best feasible error, and how much is infeasible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.several.problems import problem_of, sample
from benchmarks.several.runs import Row
from bohb.core.order import first_front, hypervolume

Array = NDArray[np.float64]
Runs = Mapping[str, Mapping[int, Sequence[Row]]]  # method -> seed -> rows
FIRST = 20  # trials after which the share of infeasible ones is counted


class Volume:
    """Hypervolume relative to that of the best known front of a task.

    Errors count as they are, the second value by its logarithm. The reference point is what 90 % of random
    configurations stay below; the best known front comes from all runs of all methods and the random configurations.
    """

    def __init__(self, task: str, runs: Runs) -> None:
        self._reference = np.quantile(_scaled(sample(task)), 0.9, axis=0)
        found = [_scaled(top(rows)) for seeds in runs.values() for rows in seeds.values()]
        known = np.concatenate([_scaled(sample(task)), *found])
        self.best = hypervolume(known[first_front(known)].tolist(), self._reference.tolist())

    def curve(self, rows: Sequence[Row], at: Array) -> Array:
        """Return the relative hypervolume after so many full evaluations; only results on the largest budget count."""
        ends, values = np.array([row.spent for row in rows if row.budget > 1 - 1e-9]), _scaled(top(rows))
        steps, volumes = [0.0], [0.0]
        front = np.empty((0, 2))
        for end, value in zip(ends, values, strict=True):
            front = np.concatenate([front, value[None]])
            front = front[first_front(front)]
            steps.append(float(end))
            volumes.append(hypervolume(front.tolist(), self._reference.tolist()) / self.best)
        return np.array(volumes)[np.searchsorted(steps, at + 1e-9, side="right") - 1]


def top(rows: Sequence[Row]) -> Array:
    """Return the results on the largest budget, (n, 2)."""
    return np.array([(row.error, row.second) for row in rows if row.budget > 1 - 1e-9]).reshape(-1, 2)


def _scaled(values: Array) -> Array:
    return np.column_stack([values[:, 0], np.log(np.maximum(values[:, 1], 1e-6))])


def best_feasible(rows: Sequence[Row], bound: float, spent: float) -> float:
    """Return the lowest error of a feasible result on the largest budget; +inf if there is none yet."""
    kept = [row.error for row in rows if row.budget > 1 - 1e-9 and row.second <= bound and row.spent <= spent + 1e-9]
    return min(kept, default=math.inf)


def infeasible_share(rows: Sequence[Row], bound: float) -> float:
    """Return the share of the trials after the first 20 whose configuration breaks the bound on the largest budget."""
    later = rows[FIRST:]
    return sum(row.at_top > bound for row in later) / max(1, len(later))


def infeasible_share_on_own_budget(rows: Sequence[Row], bound: float) -> float:
    """Return the share of the trials after the first 20 whose value breaks the bound on the budget that they ran on."""
    later = rows[FIRST:]
    return sum(row.second > bound for row in later) / max(1, len(later))


def epochs_to_reach(curves: Array, other: Array, at: Array) -> float:
    """Return the share of the budget after which the mean of `curves` reaches the final mean of `other`; at most 1."""
    reached = np.flatnonzero(curves.mean(axis=0) >= other[:, -1].mean() - 1e-12)
    return float(at[reached[0]] / at[-1]) if len(reached) else 1.0


def geometric_mean_interval(ratios: Sequence[tuple[Array, Array]], at: Array, rng: np.random.Generator) -> list[float]:
    """Return the geometric mean over problems of `epochs_to_reach`, and its 95 % interval over seeds.

    ratios: for each problem the curves of both methods, seed by seed.
    """

    def mean(pick: bool) -> float:
        found = []
        for ours, theirs in ratios:
            rows = rng.integers(len(ours), size=len(ours)) if pick else np.arange(len(ours))
            others = rng.integers(len(theirs), size=len(theirs)) if pick else np.arange(len(theirs))
            found.append(math.log(epochs_to_reach(ours[rows], theirs[others], at)))
        return math.exp(float(np.mean(found)))

    drawn = [mean(True) for _ in range(500)]
    return [mean(False), *np.quantile(drawn, [0.025, 0.975]).tolist()]


def average_ranks(runs: Mapping[str, Runs], spent: float) -> dict[str, float]:
    """Return the mean rank of each method by its best feasible error, over constrained problems and common seeds."""
    ranks: dict[str, list[float]] = {}
    for name, methods in runs.items():
        bound = problem_of(name).bound
        assert bound is not None
        for seed in set.intersection(*(set(seeds) for seeds in methods.values())):
            errors = {m: best_feasible(seeds[seed], bound, spent) for m, seeds in methods.items()}
            for method, error in errors.items():
                better = sum(other < error for other in errors.values())
                equal = sum(other == error for other in errors.values())
                ranks.setdefault(method, []).append(better + (equal + 1) / 2)
    return {method: float(np.mean(found)) for method, found in ranks.items()}


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean of values and its standard error."""
    array = np.array(values, dtype=float)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else 0.0
    return {"mean": round(float(array.mean()), 5), "error": round(error, 5)}
