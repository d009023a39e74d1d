"""Rank correlation of losses between budgets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.core.history import History

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation between the losses on two budgets.

    n: configurations with a loss on both.
    rho: None for fewer than three configurations, or if all losses on one budget are equal.
    interval: about 95 % (Fisher's z with the variance of Fieller et al., 1957); None for fewer than four.
    """

    low: float
    high: float
    n: int
    rho: float | None
    interval: tuple[float, float] | None


def correlations(history: History) -> list[Correlation]:
    """Return one row per pair of budgets, the smaller budget first."""
    losses = {
        budget: {key: loss for key, loss in here.items() if math.isfinite(loss)}
        for budget, here in losses_by_budget(history).items()
    }
    rows = []
    for low, high in itertools.combinations(sorted(budget for budget in losses if losses[budget]), 2):
        both = [key for key in losses[high] if key in losses[low]]
        rho = spearman([losses[low][key] for key in both], [losses[high][key] for key in both])
        rows.append(Correlation(low, high, len(both), rho, _interval(rho, len(both))))
    return rows


def losses_by_budget(history: History) -> dict[float, dict[bytes, float]]:
    """Return the losses on each budget by configuration; +inf for a failed trial."""
    losses: dict[float, dict[bytes, float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        # In a finite space a configuration can be chosen again under another id.
        key = history.key(trial.config) if history.space.finite else str(trial.config_id).encode()
        losses.setdefault(trial.budget, {})[key] = outcome.ranking_loss
    return losses


def spearman(x: Sequence[float] | Array, y: Sequence[float] | Array) -> float | None:
    """Return Spearman's ρ; None for fewer than three pairs or a constant. Equal values share their mean rank."""
    if len(x) < 3:
        return None
    a, b = ranks(np.asarray(x, dtype=float)), ranks(np.asarray(y, dtype=float))
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(a @ b / scale, -1, 1)) if scale > 0 else None


def ranks(x: Array) -> Array:
    """Return ranks from 1; equal values share their mean rank."""
    _, position, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: Array = last - (counts - 1) / 2
    return mean[position]


def _interval(rho: float | None, n: int) -> tuple[float, float] | None:
    if rho is None or n < 4:
        return None
    z, width = math.atanh(max(min(rho, 1 - 1e-12), 1e-12 - 1)), 1.96 * math.sqrt(1.06 / (n - 3))
    return min(rho, math.tanh(z - width)), max(rho, math.tanh(z + width))
