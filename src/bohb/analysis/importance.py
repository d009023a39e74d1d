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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bohb.analysis.axes import Array, Axis, axes, placed, vectors
from bohb.analysis.budgets import observed, telling_budget
from bohb.core.history import History

ENOUGH = 10  # results below which nothing is said
_STEPS = 50  # grid points of a float
_SHUFFLES = 40  # how often losses are shuffled to see what chance alone gives
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

    budget: of the results it was computed from; `n` of them, `best` of which counted as the best.
    """

    budget: float
    n: int
    best: int
    rows: tuple[Importance, ...]


def importance(history: History, budget: float | None = None, quantile: float = 0.1) -> Importances | None:
    """How much each hyperparameter matters for getting among the best; None with fewer than ten results.

    budget: whose results to use; by default the largest with at least fifty, else the one with the most.
    quantile: γ', the share that counts as the best; at least five configurations do.
    """
    if budget is None:
        budget = telling_budget(history, enough=50)
    seen = None if budget is None else observed(history, budget)
    if seen is None or len(seen.trials) < ENOUGH:
        return None
    losses = np.array(seen.losses, dtype=float)
    n = len(losses)
    k = max(math.ceil(quantile * n), min(5, n // 2))
    best = losses <= np.partition(losses, k - 1)[k - 1]
    best &= np.isfinite(losses)
    if not best.any() or best.all():
        return None
    places = placed(history.space, vectors(history.space, [trial.config for trial in seen.trials]))
    columns = [(axis, places[:, j]) for j, axis in enumerate(axes(history.space))]
    values = np.array([divergence(axis, column, best) for axis, column in columns])
    chance = _chance(columns, best)
    total = float(values.sum())
    rows = [
        Importance(axis.name, float(v), float(v) / total if total else 0.0, float(c) / total if total else 0.0)
        for (axis, _), v, c in zip(columns, values, chance, strict=True)
    ]
    return Importances(seen.budget, n, int(best.sum()), tuple(sorted(rows, key=lambda row: -row.value)))


def divergence(axis: Axis, column: Array, best: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> float:
    """v_j of one hyperparameter: (n,) its places on the axis, NaN where inactive, and (n,) which ones are best."""
    active = ~np.isnan(column)
    chosen = active & best
    if active.sum() < 2 or not chosen.any():
        return 0.0
    p_all, p_best = _density(axis, column[active]), _density(axis, column[chosen])
    pearson = float(p_all @ (p_best / p_all - 1) ** 2)
    alpha, beta = chosen.sum() / best.sum(), active.mean()
    return float(alpha**2 / beta * pearson * best.mean() ** 2)


def _chance(columns: list[tuple[Axis, Array]], best: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Array:
    """The 95 % quantile of v_j when the losses are shuffled; always the same shuffles, so always the same answer."""
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(best) for _ in range(_SHUFFLES)]
    values = [[divergence(axis, column, chosen) for axis, column in columns] for chosen in shuffled]
    return np.asarray(np.quantile(values, 0.95, axis=0), dtype=float)


def _density(axis: Axis, places: Array) -> Array:
    """(grid,) the probability of each grid cell, never zero."""
    cells = min(axis.cells or _STEPS, _STEPS)
    if axis.kind == "categorical":
        counts = np.bincount((places * cells).astype(np.intp), minlength=cells)
        share: Array = np.asarray((counts + _PRIOR / cells) / (len(places) + _PRIOR), dtype=float)
        return share
    at = np.floor(places * cells) if axis.cells else np.ceil(places * (cells - 1) - 0.5)
    counts = np.bincount(np.clip(at, 0, cells - 1).astype(np.intp), minlength=cells)
    centres = np.flatnonzero(counts).astype(float)
    weights = counts[counts > 0].astype(float)
    width = _scott(centres, weights)
    masses = (
        weights @ _cell_masses(centres, width, cells)
        + _PRIOR * _cell_masses(np.array([(cells - 1) / 2]), float(cells), cells)[0]
    )
    density: Array = masses / (weights.sum() + _PRIOR) + 1e-12
    return density


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
