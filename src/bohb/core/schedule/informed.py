"""Whether lower rungs still pay: when a bracket of an informed study starts on the largest budget.

The Gaussian process knows how much a result on each rung would tell about the most promising configurations: the
posterior correlation of that result with one on the largest budget. It is low where small budgets mislead or are noisy.
It also becomes low late in a study, when promising configurations differ by less than the noise of the lower rungs. If
a bracket on the largest budget alone then has the largest expected gain at equal cost, the next bracket is that one.
Otherwise it is Hyperband's next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bohb.core.history import History
from bohb.core.samplers import targets
from bohb.core.samplers.gaussian import GaussianSampler, Surrogate
from bohb.core.samplers.proposal import descending
from bohb.core.samplers.search import MUTATIONS, SCORE_DECIMALS, UNIFORM, mutations
from bohb.core.schedule.brackets import Bracket
from bohb.core.space import Array

GAIN_DECIMALS = 4
PROMISING = 20  # candidates of highest expected improvement, of which the correlations are averaged
PRIOR_PAIRS = 4.0  # pairs of results without shared noise that the prior is worth
_CANDIDATES = 30_000  # configurations drawn to estimate the gain of one bracket
_BEST_OF_TWO = 1 / math.sqrt(math.pi)  # the expectation of the larger of two standard normal numbers
_CORRELATION_DECIMALS = 4  # rounding hides the last bits, in which mathematical libraries differ
_LARGEST_CORRELATION = 0.999  # so that rounded correlations can be factorised


def lower_rungs_pay(
    rng: np.random.Generator, history: History, process: GaussianSampler
) -> tuple[bool, dict[str, Any]]:
    """Return whether rungs below the largest budget pay, and the numbers behind it.

    They do not pay if a bracket on the largest budget alone has the largest expected gain. While there is no process,
    lower rungs pay, and there are no numbers.
    """
    surrogate = process.surrogate(history)
    if surrogate is None:
        return True, {}
    correlation = rung_correlation(rng, history, surrogate)
    gains = [round(gain, GAIN_DECIMALS) for gain in bracket_gains(rng, history.schedule.round, correlation)]
    reason = {"starts": list(history.budgets), "gains": gains, "to_top": correlation[:-1, -1].tolist()}
    return gains[-1] <= max(gains[:-1]), reason


def rung_correlation(rng: np.random.Generator, history: History, surrogate: Surrogate) -> Array:
    """Return the posterior correlation of results on every pair of budgets, ascending, for promising configurations."""
    space = history.space
    X = np.vstack([space.draw(rng, UNIFORM), mutations(rng, space, surrogate.parents, MUTATIONS)])
    promising = X[descending(surrogate.log_improvement(X), SCORE_DECIMALS)[:PROMISING]]
    below = targets.rungs_below(np.array(history.budgets, dtype=float), history.budgets)
    process = surrogate.process
    covariance = process.rung_covariance(surrogate.embedding(promising))
    noise, rung = np.exp(0.5 * process.kernel.noises), np.arange(len(covariance))
    covariance += np.outer(noise, noise) * shared_noise(surrogate) ** np.abs(rung[:, None] - rung)
    covariance = covariance[np.ix_(below, below)]
    deviation = np.sqrt(np.diag(covariance))
    correlation = np.round(_LARGEST_CORRELATION * covariance / np.outer(deviation, deviation), _CORRELATION_DECIMALS)
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def shared_noise(surrogate: Surrogate) -> float:
    """Return how well the noise of a configuration's results on neighbouring rungs agrees, from 0 to 1.

    What the process cannot predict counts as noise. If it is a property of the configuration, as in a rough function,
    results on a lower rung show it, although the process learns nothing from them.
    """
    found = surrogate.targets
    own = np.flatnonzero(found.study == 0)
    table = np.full((int(found.rows.max()) + 1, int(found.below.max()) + 2), np.nan)
    table[found.rows[own], found.below[own]] = surrogate.process.residuals[own]
    above, lower = table[:, :-1], table[:, 1:]
    both = ~np.isnan(above) & ~np.isnan(lower)
    a, b = above[both], lower[both]
    agreement = float(a @ b) / (math.sqrt(float(a @ a) * float(b @ b)) or 1.0)
    return min(max(agreement * len(a) / (len(a) + PRIOR_PAIRS), 0.0), _LARGEST_CORRELATION)


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
