"""Which hyperparameters matter: PED-ANOVA (Watanabe, Bansal and Hutter, 2023), and which pair matters most together.

The importance of a hyperparameter is how differently it is distributed among the best configurations and among all of
them: the Pearson divergence between the two one-dimensional densities,

    v_j = (γ'/γ)² · Σ_x p(x | all) · (p(x | best) / p(x | all) − 1)²,

each a Parzen estimate on a grid. A conditional hyperparameter is compared where it is active and weighted with α²/β,
where α and β are the shares of the best and of all configurations in which it is active (Conditional PED-ANOVA, arXiv
2601.20800).

Unlike a forest-based fANOVA it needs no regression: failed evaluations take part (they are never among the best),
inactive hyperparameters need no imputation, and it takes milliseconds. It cannot detect an interaction without a main
effect; the interactions of pairs can. The interaction of two hyperparameters is what their joint distribution among the
best configurations adds to the two distributions of each alone: χ²(i, j) − χ²(i) − χ²(j), each a Pearson divergence
between the best and all configurations on a coarse grid.

The configurations must not be those that the model picked: where the model has settled on a value, all configurations
look alike, and the most important hyperparameter would seem the least important. BOHB has an unbiased sample: its
random picks, each on its first budget. They are used as soon as there are enough, ranked within their budget.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bohb.analysis.agreement import ranks
from bohb.analysis.axes import Array, Axis, axes, configurations, places, telling_budget
from bohb.core.history import History
from bohb.core.trial import Origin

Mask = NDArray[np.bool_]
ENOUGH = 10  # smallest number of results
_RANDOM_ENOUGH = 30  # with this many random picks, only these are used
_RANKABLE = 5  # smallest number of random picks on one budget whose ranks are used
_STEPS = 50  # grid points of a float
_PRIOR = 1.0  # weight of a prior, in configurations: the uniform one, and for pairs that of all configurations
_BINS = 4  # of a numeric hyperparameter in a pair, with equally many configurations each
_PAIR_SHARE = 0.25  # of the configurations counts as the best: a grid of two dimensions needs more than one of one
_SHUFFLES = 40


@dataclass(frozen=True, slots=True)
class Importance:
    """One hyperparameter.

    value: v_j; comparable within one study only.
    share: v_j as a share of the sum over all hyperparameters.
    chance: 95 % quantile of the share for shuffled losses; a smaller share is not significant.
    """

    name: str
    value: float
    share: float
    chance: float


@dataclass(frozen=True, slots=True)
class Importances:
    """All hyperparameters, the most important first.

    budget: budget of the results; None for random picks, each on its first budget.
    n: number of results.
    best: the trials that count as the best of them.
    """

    budget: float | None
    n: int
    best: tuple[int, ...]
    rows: tuple[Importance, ...]


def importance(
    history: History, budget: float | None = None, quantile: float = 0.1, shuffles: int = _SHUFFLES
) -> Importances | None:
    """Return the importance of each hyperparameter; None with fewer than ten results.

    budget: use all results on this budget. Default: random picks if there are thirty or more, else all results on the
        largest budget with at least fifty, or on the one with the most.
    quantile: γ', the share of configurations that count as the best; at least five do.
    shuffles: how often the losses are shuffled to estimate `chance`; 0 leaves it out.
    """
    numbers, standings, budget = sample(history, budget)
    if len(numbers) < ENOUGH:
        return None
    best = best_of(standings, quantile)
    if not best.any() or best.all():
        return None
    columns = places(history.space, [history.trials[n].config for n in numbers]).T
    divergences = [Divergence(axis, column) for axis, column in zip(axes(history.space), columns, strict=True)]
    values = np.array([divergence.of(best) for divergence in divergences])
    chance = _chance(divergences, best, shuffles)
    total = float(values.sum())
    rows = [
        Importance(d.axis.name, float(v), float(v) / total if total else 0.0, float(c) / total if total else 0.0)
        for d, v, c in zip(divergences, values, chance, strict=True)
    ]
    chosen = tuple(number for number, is_best in zip(numbers, best.tolist(), strict=True) if is_best)
    return Importances(budget, len(numbers), chosen, tuple(sorted(rows, key=lambda row: -row.value)))


def sample(history: History, budget: float | None = None) -> tuple[list[int], Array, float | None]:
    """Return the trials that importance rests on, how they stand (lower is better), and their budget.

    The budget is None for random picks, each on its first budget.
    """
    numbers, standings = _random_picks(history) if budget is None else ([], [])
    if len(numbers) < _RANDOM_ENOUGH:
        budget = telling_budget(history, enough=50) if budget is None and history.created is not None else budget
        if budget is None:
            return [], np.empty(0), None
        table = configurations(history, budget)
        numbers, standings = table.numbers.tolist(), table.losses.tolist()
    return numbers, np.array(standings, dtype=float), budget


def _random_picks(history: History) -> tuple[list[int], list[float]]:
    """Return the trials of random configurations on their first budget, and their ranks there as shares.

    The rank of a failed trial is +inf. Budgets with fewer than five trials are left out.
    """
    by_budget: dict[float, list[int]] = {}
    for number in history.outcomes:
        trial = history.trials[number]
        if trial.origin is Origin.RANDOM and "chance" not in trial.reason:  # with it, infeasible ones were passed over
            by_budget.setdefault(trial.budget, []).append(number)
    numbers: list[int] = []
    standings: list[float] = []
    for mine in by_budget.values():
        if len(mine) >= _RANKABLE:
            losses = np.array([history.outcomes[n].ranking_loss for n in mine])
            numbers += mine
            standings += np.where(np.isfinite(losses), (ranks(losses) - 0.5) / len(mine), np.inf).tolist()
    return numbers, standings


def best_of(standings: Array, quantile: float) -> Mask:
    """Return which trials are the best: the share γ', at least five, with ties, without failed trials."""
    n = len(standings)
    k = max(math.ceil(quantile * n), min(5, n // 2), 1)
    best: Mask = (standings <= np.partition(standings, k - 1)[k - 1]) & np.isfinite(standings)
    return best


class Divergence:
    """Computes v_j of one hyperparameter for a choice of the best configurations.

    axis: the axis of the hyperparameter.
    column: (n,) the places of all configurations on it; NaN where it is inactive.
    """

    def __init__(self, axis: Axis, column: Array) -> None:
        self.axis = axis
        self._column = column
        self._active = ~np.isnan(column)
        self._p_all = _density(axis, column[self._active]) if self._active.sum() >= 2 else None

    def of(self, best: Mask) -> float:
        """Return v_j if these are the best."""
        chosen = self._active & best
        if self._p_all is None or not chosen.any():
            return 0.0
        pearson = float(self._p_all @ (_density(self.axis, self._column[chosen]) / self._p_all - 1) ** 2)
        alpha, beta = chosen.sum() / best.sum(), self._active.mean()
        return float(alpha**2 / beta * pearson * best.mean() ** 2)


def _chance(divergences: list[Divergence], best: Mask, shuffles: int) -> Array:
    """Return the 95 % quantile of v_j for shuffled losses; the shuffles are always the same."""
    if not shuffles:
        return np.zeros(len(divergences))
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(best) for _ in range(shuffles)]
    values = [[divergence.of(chosen) for divergence in divergences] for chosen in shuffled]
    return np.asarray(np.quantile(values, 0.95, axis=0), dtype=float)


def _density(axis: Axis, places: Array) -> Array:
    """Return the probability of each grid cell, (grid,); it is never zero."""
    if axis.kind == "categorical":
        counts = np.bincount((places * axis.cells).astype(np.intp), minlength=axis.cells)
        return np.asarray((counts + _PRIOR / axis.cells) / (len(places) + _PRIOR), dtype=float)
    cells = min(axis.cells or _STEPS, _STEPS)
    at = np.floor(places * cells) if axis.cells else np.ceil(places * (cells - 1) - 0.5)
    counts = np.bincount(np.clip(at, 0, cells - 1).astype(np.intp), minlength=cells)
    centres = np.flatnonzero(counts).astype(float)
    weights = counts[counts > 0].astype(float)
    width = _scott(centres, weights)
    masses = weights @ _cell_masses(centres, width, cells) + _PRIOR * _prior(cells)
    density: Array = masses / (weights.sum() + _PRIOR) + 1e-12
    return density


@functools.cache
def _prior(cells: int) -> Array:
    """Return a wide Gaussian in the middle of the grid."""
    return _cell_masses(np.array([(cells - 1) / 2]), float(cells), cells).ravel()


def _cell_masses(centres: Array, width: float, cells: int) -> Array:
    """Return the mass of truncated Gaussians on each grid cell, (m, grid)."""
    edges = np.arange(cells + 1) - 0.5
    below = ndtr((edges - centres[:, None]) / width)
    masses: Array = np.diff(below, axis=1) / (below[:, -1:] - below[:, :1])
    return masses


def _scott(centres: Array, weights: Array) -> float:
    """Return Scott's bandwidth on the grid, robust against outliers; at least 90 % of a kernel in one cell."""
    total = weights.sum()
    mean = centres @ weights / total
    sigma = math.sqrt(float((centres - mean) ** 2 @ weights) / max(1.0, total - 1))
    cumulated = np.cumsum(weights)
    first = int(np.searchsorted(cumulated, total // 4, side="left"))
    third = min(len(centres) - 1, int(np.searchsorted(cumulated, total * 3 // 4, side="right")))
    spread = float(centres[third] - centres[first]) / 1.34
    return float(max(1.059 * min(spread, sigma) * float(total) ** -0.2, 0.5 / 1.64))


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
    best = best_of(standings, _PAIR_SHARE)
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
