"""Which hyperparameters matter: PED-ANOVA (Watanabe, Bansal and Hutter, 2023), also for conditional spaces.

The importance of a hyperparameter is how differently it is distributed among the best configurations and among all of
them: the Pearson divergence between the two one-dimensional densities,

    v_j = (γ'/γ)² · Σ_x p(x | all) · (p(x | best) / p(x | all) − 1)²,

each a Parzen estimate on a grid. A conditional hyperparameter is compared where it is active and weighted with α²/β,
where α and β are the shares of the best and of all configurations in which it is active (Conditional PED-ANOVA, arXiv
2601.20800).

Unlike a forest-based fANOVA it needs no regression: failed evaluations take part (they are never among the best),
inactive hyperparameters need no imputation, and it takes milliseconds. It cannot detect an interaction without a main
effect; `bohb.analysis.interactions` can.

The configurations must not be those that the model picked: where the model has settled on a value, all configurations
look alike, and the most important hyperparameter would seem the least important. BOHB has an unbiased sample: its
random picks, each on its first budget. They are used as soon as there are enough, ranked within their budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bohb.analysis.axes import Array, Axis, axes, places
from bohb.analysis.configurations import configurations, telling_budget
from bohb.analysis.correlation import ranks
from bohb.core.history import History
from bohb.core.trial import Origin

Mask = NDArray[np.bool_]
ENOUGH = 10  # smallest number of results
_RANDOM_ENOUGH = 30  # with this many random picks, only these are used
_RANKABLE = 5  # smallest number of random picks on one budget whose ranks are used
_STEPS = 50  # grid points of a float
_PRIOR = 1.0  # weight of the uniform prior, in configurations


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
    n, best: number of results, and how many of them count as the best.
    """

    budget: float | None
    n: int
    best: int
    rows: tuple[Importance, ...]


def importance(
    history: History, budget: float | None = None, quantile: float = 0.1, shuffles: int = 40
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
    return Importances(budget, len(numbers), int(best.sum()), tuple(sorted(rows, key=lambda row: -row.value)))


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
