"""Which hyperparameters matter: PED-ANOVA (Watanabe, Bansal and Hutter, 2023), also for conditional spaces.

How differently is a hyperparameter distributed among the best configurations than among all of them? Its importance
for getting among the best is the Pearson divergence between the two one-dimensional densities,

    v_j = (γ'/γ)² · Σ_x p(x | all) · (p(x | best) / p(x | all) − 1)²,

each a Parzen estimate on a grid. A hyperparameter that is not always active is compared where it is active, and
counts α²/β of that, α and β being the shares of the best and of all configurations that have it (Conditional
PED-ANOVA, arXiv 2601.20800).

It is chosen over a forest-based fANOVA because it needs no regression: failed evaluations take part (they are never
among the best), gaps of conditional hyperparameters need no imputation, and it costs milliseconds. What it cannot see
is an interaction without a main effect.

"All of them" must not be what the model picked: where it has already settled on a value, everything looks alike and the
most important hyperparameter would seem the least important. BOHB has an unbiased sample, its random picks, each on the
first budget it got. They are used as soon as there are enough of them, ranked within their budget.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bohb.analysis.axes import Array, Axis, axes, placed, vectors
from bohb.analysis.budgets import observed, telling_budget
from bohb.analysis.correlation import ranks
from bohb.core.history import History
from bohb.core.trial import Origin

Mask = NDArray[np.bool_]
ENOUGH = 10  # results below which nothing is said
_RANDOM_ENOUGH = 30  # random picks from which on nothing else is used
_RANKABLE = 5  # random picks on one budget below which their ranks say little
_STEPS = 50  # grid points of a float
_PRIOR = 1.0  # weight of the uniform prior, in configurations


@dataclass(frozen=True, slots=True)
class Importance:
    """One hyperparameter.

    value: v_j; comparable within one study only.
    share: v_j as a share of the sum over all hyperparameters.
    chance: the share that 95 % of shuffled losses stay below: a smaller one says nothing.
    """

    name: str
    value: float
    share: float
    chance: float


@dataclass(frozen=True, slots=True)
class Importances:
    """All hyperparameters, the most important first.

    budget: of the results it was computed from; None for random picks, each on its first budget.
    n, best: how many results these are, and how many of them count as the best.
    """

    budget: float | None
    n: int
    best: int
    rows: tuple[Importance, ...]


def importance(
    history: History, budget: float | None = None, quantile: float = 0.1, shuffles: int = 40
) -> Importances | None:
    """How much each hyperparameter matters for getting among the best; None with fewer than ten results.

    budget: use all results on this budget. By default random picks are used if there are thirty or more, else all
        results on the largest budget with at least fifty, or on the one with the most.
    quantile: γ', the share that counts as the best; at least five configurations do.
    shuffles: how often the losses are shuffled to see what chance alone gives; 0 leaves that out.
    """
    if history.created is None:
        return None
    numbers, standings = _random_picks(history) if budget is None else ([], [])
    if len(numbers) < _RANDOM_ENOUGH:
        budget = telling_budget(history, enough=50) if budget is None else budget
        seen = None if budget is None else observed(history, budget)
        if seen is None:
            return None
        numbers, standings = [trial.number for trial in seen.trials], seen.losses
    best = _best(np.array(standings, dtype=float), quantile)
    if len(numbers) < ENOUGH or not best.any() or best.all():
        return None
    places = placed(history.space, vectors(history.space, [history.trials[n].config for n in numbers]))
    divergences = [Divergence(axis, places[:, j]) for j, axis in enumerate(axes(history.space))]
    values = np.array([divergence.of(best) for divergence in divergences])
    chance = _chance(divergences, best, shuffles)
    total = float(values.sum())
    rows = [
        Importance(d.axis.name, float(v), float(v) / total if total else 0.0, float(c) / total if total else 0.0)
        for d, v, c in zip(divergences, values, chance, strict=True)
    ]
    return Importances(budget, len(numbers), int(best.sum()), tuple(sorted(rows, key=lambda row: -row.value)))


def _random_picks(history: History) -> tuple[list[int], list[float]]:
    """The trials of random configurations on the first budget they got, and their rank there as a share of all.

    Failed ones have rank +inf. Budgets with fewer than five say too little about ranks.
    """
    by_budget: dict[float, list[int]] = {}
    for number in history.outcomes:
        if history.trials[number].origin is Origin.RANDOM:
            by_budget.setdefault(history.trials[number].budget, []).append(number)
    numbers: list[int] = []
    standings: list[float] = []
    for mine in by_budget.values():
        if len(mine) >= _RANKABLE:
            losses = np.array([history.outcomes[n].ranking_loss for n in mine])
            numbers += mine
            standings += np.where(np.isfinite(losses), (ranks(losses) - 0.5) / len(mine), np.inf).tolist()
    return numbers, standings


def _best(standings: Array, quantile: float) -> Mask:
    """Which ones count as the best: the share γ', at least five, ties included, never a failed one."""
    n = len(standings)
    k = max(math.ceil(quantile * n), min(5, n // 2), 1)
    best: Mask = (standings <= np.partition(standings, k - 1)[k - 1]) & np.isfinite(standings)
    return best


class Divergence:
    """v_j of one hyperparameter, for this or that choice of the best configurations.

    axis: its axis.
    column: (n,) the places of all configurations on it, NaN where it is inactive.
    """

    def __init__(self, axis: Axis, column: Array) -> None:
        self.axis = axis
        self._column = column
        self._active = ~np.isnan(column)
        self._p_all = _density(axis, column[self._active]) if self._active.sum() >= 2 else None

    def of(self, best: Mask) -> float:
        """v_j if these are the best."""
        chosen = self._active & best
        if self._p_all is None or not chosen.any():
            return 0.0
        pearson = float(self._p_all @ (_density(self.axis, self._column[chosen]) / self._p_all - 1) ** 2)
        alpha, beta = chosen.sum() / best.sum(), self._active.mean()
        return float(alpha**2 / beta * pearson * best.mean() ** 2)


def _chance(divergences: list[Divergence], best: Mask, shuffles: int) -> Array:
    """The 95 % quantile of v_j when the losses are shuffled; always the same shuffles, so always the same answer."""
    if not shuffles:
        return np.zeros(len(divergences))
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(best) for _ in range(shuffles)]
    values = [[divergence.of(chosen) for divergence in divergences] for chosen in shuffled]
    return np.asarray(np.quantile(values, 0.95, axis=0), dtype=float)


def _density(axis: Axis, places: Array) -> Array:
    """(grid,) the probability of each grid cell, never zero."""
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
    """One wide Gaussian in the middle of the grid."""
    return _cell_masses(np.array([(cells - 1) / 2]), float(cells), cells).ravel()


def _cell_masses(centres: Array, width: float, cells: int) -> Array:
    """(m, grid) the mass of Gaussians on each grid cell, cut to the grid."""
    edges = np.arange(cells + 1) - 0.5
    below = ndtr((edges - centres[:, None]) / width)
    masses: Array = np.diff(below, axis=1) / (below[:, -1:] - below[:, :1])
    return masses


def _scott(centres: Array, weights: Array) -> float:
    """Scott's rule on the grid, robust against outliers; wide enough that 90 % of a kernel fill one cell."""
    total = weights.sum()
    mean = centres @ weights / total
    sigma = math.sqrt(float((centres - mean) ** 2 @ weights) / max(1.0, total - 1))
    cumulated = np.cumsum(weights)
    first = int(np.searchsorted(cumulated, total // 4, side="left"))
    third = min(len(centres) - 1, int(np.searchsorted(cumulated, total * 3 // 4, side="right")))
    spread = float(centres[third] - centres[first]) / 1.34
    return float(max(1.059 * min(spread, sigma) * float(total) ** -0.2, 0.5 / 1.64))
