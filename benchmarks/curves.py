"""Compute curves from incumbents: mean regret over runs and its standard error at any point of the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import Point

Array = NDArray[np.float64]
Axis = Literal["spent", "time"]
Trajectory = Sequence[Point]


def regret_at(points: Trajectory, x: Array, axis: Axis) -> Array:
    """Return the incumbent's regret at these points of the axis; NaN before the first incumbent."""
    changes = np.array([getattr(point, axis) for point in points])
    values = np.array([np.nan, *(point.regret for point in points)])
    # An evaluation that ends at a point counts there, although its sum of budgets may have a rounding error.
    return values[np.searchsorted(changes, x * (1 + 1e-9), side="right")]


def mean_and_error(runs: Sequence[Trajectory], x: Array, axis: Axis) -> tuple[Array, Array]:
    """Return mean and standard error over runs; NaN where one of the runs has no incumbent yet."""
    values = np.array([regret_at(points, x, axis) for points in runs])  # (runs, x)
    n = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(x), np.nan)
    return values.mean(axis=0), error


def final(points: Trajectory) -> float:
    """Return the final regret; NaN without an incumbent."""
    return points[-1].regret if points else float("nan")


def first_at_most(runs: Sequence[Trajectory], level: float, axis: Axis) -> float | None:
    """Return where the mean regret first reaches this level; None if it never does."""
    x = np.unique([getattr(point, axis) for points in runs for point in points])
    if not len(x):
        return None
    mean, _ = mean_and_error(runs, x, axis)
    reached = np.flatnonzero(mean <= level)
    return float(x[reached[0]]) if len(reached) else None


def grid(low: float, high: float, n: int = 61) -> Array:
    """Return n points from low to high with equal distances on a logarithmic axis."""
    return np.geomspace(low, high, n)
