"""What a bracket is expected to gain: how far below the mean its best configuration ends on the largest budget.

If a lower rung misleads, brackets that start higher gain more; if it agrees well with the largest budget, those that
start on it do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bohb.core.schedule.brackets import Bracket
from bohb.core.space import Array

GAIN_DECIMALS = 4
_CANDIDATES = 30_000  # configurations drawn to estimate the gain of one bracket
_BEST_OF_TWO = 1 / math.sqrt(math.pi)  # the expectation of the larger of two standard normal numbers


def bracket_gains(rng: np.random.Generator, brackets: Sequence[Bracket], correlation: Array) -> list[float]:
    """Return the gain of each bracket of a round at equal cost; `expected_gain` says what that is.

    correlation: of the losses on all budgets of the round, ascending.
    """
    dearest = max(bracket.cost for bracket in brackets)
    gains = []
    for start, bracket in enumerate(brackets):
        sizes = [rung.size for rung in bracket.rungs]
        mean, deviation = expected_gain(rng, sizes, correlation[start:, start:])
        # A bracket of half the cost can run twice, which yields the better of two results.
        gains.append(mean + deviation * _BEST_OF_TWO * math.log2(dearest / bracket.cost))
    return gains


def expected_gain(rng: np.random.Generator, sizes: Sequence[int], correlation: Array) -> tuple[float, float]:
    """Return how far below the mean the best configuration of a bracket ends at the top, and the deviation of that.

    Both are in standard deviations of the losses. Losses are simulated as normal with the given correlations; each rung
    promotes its best.
    """
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation)))
    repeats = max(8, _CANDIDATES // sizes[0])
    parts: list[Array] = []  # per rung, the independent part of the losses of the configurations that are left
    losses = np.empty((repeats, sizes[0]))
    for rung, size in enumerate(sizes):
        if size < losses.shape[1]:
            best = np.argpartition(losses, size - 1, axis=1)[:, :size]
            parts = [np.take_along_axis(part, best, axis=1) for part in parts]
            losses = losses[:, :size]
        parts.append(rng.standard_normal(losses.shape))
        losses = sum((root[rung, j] * part for j, part in enumerate(parts)), np.zeros(losses.shape))
    best_losses = losses.min(axis=1)
    return float(-best_losses.mean()), float(best_losses.std())
