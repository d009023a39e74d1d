"""Two hyperparameters against the loss: the trials, and a smoothed surface through them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, Axis, configurations, loss_range, telling_budget
from bohb.analysis.importance import importance, most_important_pair
from bohb.core.history import History
from bohb.errors import InvalidArgument

_CELLS = 41  # grid points along a numeric axis
_NEAR = 0.5  # grid points with less kernel weight than this, in trials, are left blank
_MOST = 2000  # trials for the surface; of more than these, the latest are used


@dataclass(frozen=True, slots=True, eq=False)
class Contour:
    """Two hyperparameters on one budget.

    x, y: the axes.
    points: (n, 2) places of the trials; losses: (n,) +inf for a failed trial; numbers: (n,) the trials.
    grid_x, grid_y: places at which the surface is computed.
    surface: (len(grid_y), len(grid_x)) the mean loss nearby; NaN where no trial is near.
    log: whether it is the geometric mean, because losses are positive and several powers of ten apart.
    inactive: number of trials in which one of the two is inactive.
    """

    budget: float
    x: Axis
    y: Axis
    points: Array
    losses: Array
    numbers: NDArray[np.int64]
    grid_x: Array
    grid_y: Array
    surface: Array
    log: bool
    inactive: int


def contour(
    history: History, x: str | None = None, y: str | None = None, budget: float | None = None
) -> Contour | None:
    """Return the loss over two hyperparameters; None if there is no trial or no second hyperparameter.

    x, y: their names. Default: the pair that matters most.
    budget: the budget of the trials. Default: the largest with at least a hundred losses, else the one with the most.
    """
    budget = telling_budget(history, enough=100) if budget is None else budget
    if budget is None or history.space.d < 2:
        return None
    table = configurations(history, budget)
    names = [axis.name for axis in table.axes]
    pair = [names.index(name) for name in _pair(history, names, x, y)]
    places = table.places[:, pair]
    active = ~np.isnan(places).any(axis=1)
    points, losses = places[active], table.losses[active]
    both = table.axes[pair[0]], table.axes[pair[1]]
    grid_x, grid_y = _grid(both[0]), _grid(both[1])
    usual = loss_range(losses)
    shown = losses if usual is None else usual.clip(losses)  # one outlier would dominate every mean around it
    log = usual is not None and usual.log
    surface = smoothed(both, points, np.log(shown) if log else shown, grid_x, grid_y)
    return Contour(
        budget=budget,
        x=both[0],
        y=both[1],
        points=points,
        losses=losses,
        numbers=table.numbers[active],
        grid_x=grid_x,
        grid_y=grid_y,
        surface=np.exp(surface) if log else surface,
        log=log,
        inactive=int((~active).sum()),
    )


def smoothed(both: tuple[Axis, Axis], points: Array, losses: Array, grid_x: Array, grid_y: Array) -> Array:
    """Return the mean loss, weighted by a Gaussian of Scott's width per axis (Nadaraya and Watson's regression).

    Categories and named values are not smoothed. Failed trials have no loss and are ignored.
    """
    finite = np.flatnonzero(np.isfinite(losses))[-_MOST:]
    if not len(finite):
        return np.full((len(grid_y), len(grid_x)), np.nan)
    z = losses[finite]
    weight_x = _weights(both[0], points[finite, 0], grid_x)  # (gx, n)
    weight_y = _weights(both[1], points[finite, 1], grid_y)  # (gy, n)
    total = weight_y @ weight_x.T
    near = np.where(total >= _NEAR, total, np.nan)
    unit = float(np.abs(z).max()) or 1.0  # sums of huge losses could overflow
    surface: Array = unit * ((weight_y * (z / unit)) @ weight_x.T / near)
    return surface


def _pair(history: History, names: list[str], x: str | None, y: str | None) -> tuple[str, str]:
    """Return the two names: the pair that matters most, or the most important one for a given one."""
    for name in (x, y):
        if name is not None and name not in names:
            raise InvalidArgument(f"{name!r} is not a hyperparameter that varies; there are {names}")
    if x is None and y is None:
        return most_important_pair(history) or (names[0], names[1])
    ranked = importance(history, shuffles=0) if x is None or y is None else None
    order = names if ranked is None else [row.name for row in ranked.rows]
    first = x if x is not None else next(name for name in order if name != y)
    second = y if y is not None else next(name for name in order if name != first)
    if first == second:
        raise InvalidArgument(f"x={first!r} and y={second!r} must be two different hyperparameters")
    return first, second


def _grid(axis: Axis) -> Array:
    return np.array(axis.ticks) if axis.discrete else np.linspace(0, 1, _CELLS)


def _weights(axis: Axis, column: Array, grid: Array) -> Array:
    """Return the kernel of every trial at every grid point, (grid, n); it is 1 at the trial itself."""
    if axis.discrete:
        return (np.abs(grid[:, None] - column) < 1e-9).astype(float)
    width = max(0.03, float(column.std()) * len(column) ** (-1 / 6))
    weights: Array = np.exp(-0.5 * ((grid[:, None] - column) / width) ** 2)
    return weights
