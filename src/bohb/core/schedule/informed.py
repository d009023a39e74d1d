"""Whether lower rungs still pay: when a bracket of an informed study starts on the largest budget.

The Gaussian process knows how much a result on each rung would tell about the most promising configurations: the
posterior correlation of that result with one on the largest budget. It is low where small budgets mislead or are noisy.
It also becomes low late in a study, when promising configurations differ by less than the noise of the lower rungs. If
a bracket on the largest budget alone then has the largest expected gain at equal cost, the next bracket is that one.
Otherwise it is Hyperband's next.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bohb.core.history import History
from bohb.core.samplers import targets
from bohb.core.samplers.gaussian import GaussianSampler, Surrogate
from bohb.core.samplers.proposal import descending
from bohb.core.samplers.search import MUTATIONS, SCORE_DECIMALS, UNIFORM, mutations
from bohb.core.schedule.gains import GAIN_DECIMALS, bracket_gains
from bohb.core.space import Array

PROMISING = 20  # candidates of highest expected improvement, of which the correlations are averaged
PRIOR_PAIRS = 4.0  # pairs of results without shared noise that the prior is worth
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
