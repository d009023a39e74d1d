"""Which two hyperparameters matter most together: their importance, and how much they interact.

The interaction of two hyperparameters is what their joint distribution among the best configurations adds to the two
distributions of each alone: χ²(i, j) − χ²(i) − χ²(j), each a Pearson divergence between the best and all configurations
on a coarse grid. Unlike PED-ANOVA it detects a hyperparameter that matters only for some values of another one.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, Axis, axes, places
from bohb.analysis.importance import Mask, best_of, importance, sample
from bohb.core.history import History

_BINS = 4  # of a numeric hyperparameter, with equally many configurations each
_SHARE = 0.25  # of the configurations counts as the best: a grid of two dimensions needs more than one of one
_SHUFFLES = 40
_PRIOR = 1.0  # weight of the distribution of all configurations in that of the best, in configurations


def most_important_pair(history: History) -> tuple[str, str] | None:
    """Return the two hyperparameters that matter most; None if too little is known or only one varies.

    What counts is the less important one of the two, with its half of their interaction: a picture of two
    hyperparameters shows little if one of them does not matter. Each counts beyond what chance explains.
    """
    table = importance(history)
    if table is None or len(table.rows) < 2:
        return None
    effects, single = interactions(history)
    names = [axis.name for axis in axes(history.space)]
    gain = {names.index(row.name): row.share - row.chance for row in table.rows}  # the most important first

    def worth(pair: tuple[int, int]) -> tuple[float, float]:
        together = max(0.0, float(effects[pair])) / (float(single.sum()) or 1.0)
        each = [gain[i] + together / 2 for i in pair]
        return max(0.0, min(each)), sum(each)

    first, second = max(itertools.combinations(gain, 2), key=worth)  # of equal ones, that of the most important
    return names[first], names[second]


def interactions(history: History) -> tuple[Array, Array]:
    """Return the interaction of each pair beyond what chance explains, (d, d), and the effect of each alone, (d,).

    Chance is the 95 % quantile of the largest interaction of any pair for shuffled losses, so that one of many pairs is
    not found by accident; the shuffles are always the same.
    """
    numbers, standings, _ = sample(history)
    best = best_of(standings, _SHARE)
    columns = places(history.space, [history.trials[n].config for n in numbers]).T
    cells = [_cells(axis, column) for axis, column in zip(axes(history.space), columns, strict=True)]
    starts = np.cumsum([0, *(c.shape[1] for c in cells)])[:-1].astype(np.intp)
    grid = np.hstack(cells)  # (n, all cells of all hyperparameters)
    rng = np.random.default_rng(0)
    found, single = _excess(grid, starts, best)
    by_chance = [_excess(grid, starts, rng.permutation(best))[0].max() for _ in range(_SHUFFLES)]
    return found - float(np.quantile(by_chance, 0.95)), single


def _excess(grid: Array, starts: NDArray[np.intp], best: Mask) -> tuple[Array, Array]:
    """Return χ²(i, j) − χ²(i) − χ²(j), zero on the diagonal, and χ²(i)."""
    everything = grid.T @ grid / len(grid)
    chosen = (grid[best].T @ grid[best] + _PRIOR * everything) / (best.sum() + _PRIOR)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(everything > 0, (chosen - everything) ** 2 / everything, 0.0)
    joint: Array = np.add.reduceat(np.add.reduceat(terms, starts, axis=0), starts, axis=1)
    single = np.diag(joint).copy()
    found: Array = joint - single[:, None] - single
    np.fill_diagonal(found, 0.0)
    return found, single


def _cells(axis: Axis, column: Array) -> Array:
    """Return which cell each configuration is in, as zeros and ones, (n, cells); inactive is a cell of its own."""
    active = ~np.isnan(column)
    cell = np.zeros(len(column), dtype=np.intp)
    if 0 < axis.cells <= _BINS or axis.kind == "categorical":
        cell[active] = 1 + np.minimum((column[active] * axis.cells).astype(np.intp), axis.cells - 1)
    elif active.any():
        edges = np.quantile(column[active], np.linspace(0, 1, _BINS + 1)[1:-1])
        cell[active] = 1 + np.searchsorted(edges, column[active], side="right")
    return np.eye(int(cell.max()) + 1)[cell]
