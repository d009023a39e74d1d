"""How well rungs agree: the correlations of their losses among all configurations, though few are seen on two rungs.

Only promoted configurations have a loss on the next rung, and they were promoted for their loss on the one below.
Among them that loss varies little, so that their plain correlation is too low. But the regression of a loss on those
below it does not suffer from such a choice, whatever it was. So rung after rung is regressed on the two below, and the
covariance of an unselected population is put together from these regressions and the spread of the lowest rung. For
one pair of rungs this is Thorndike's second case; for more it is how monotone missing data are treated (Anderson 1957).

Losses are taken as normal scores of their ranks, since their scale means nothing. The regressions are Bayesian, with a
prior worth a few observations: neighbours correlate by 0.8 and their neighbours by 0.7, which lies between rungs
that are steps of one walk (0.64) and rungs that measure the same thing, each with its own noise (0.8).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bohb.core.space import Array

PRIOR_RHO = 0.8  # of neighbours
PRIOR_TWO_APART = 0.7
PRIOR_WEIGHT = 4.0  # as many observations' worth
CERTAINTY = 0.9  # that of intervals
DRAWS = 400  # from what is likely

Losses = Mapping[bytes, float]  # of one rung, by configuration; +inf for a failed one


@dataclass(frozen=True, slots=True)
class Agreement:
    """What is known of the correlation of two neighbouring rungs, among all configurations.

    low, high: the two budgets.
    shared: how many configurations were seen on both.
    rho: the middle of what is likely, and the interval that holds it nine times in ten.
    to_top: the same of the lower one with the largest budget.
    """

    low: float
    high: float
    shared: int
    rho: float
    interval: tuple[float, float]
    to_top: float


def agreements(steps: Sequence[float], seen: Mapping[float, Losses], draws: Array) -> list[Agreement]:
    """What draws of `correlations` say of each budget and the next."""
    tail = (1 - CERTAINTY) / 2
    found = []
    for i, (low, high) in enumerate(itertools.pairwise(steps)):
        bottom, middle, top = np.quantile(draws[:, i, i + 1], [tail, 0.5, 1 - tail]).tolist()
        shared = len(seen.get(low, {}).keys() & seen.get(high, {}).keys())
        found.append(Agreement(low, high, shared, middle, (bottom, top), float(np.median(draws[:, i, -1]))))
    return found


def correlations(rng: np.random.Generator, steps: Sequence[float], seen: Mapping[float, Losses]) -> Array:
    """Draws of the correlation matrix of all rungs, from what is likely: (draws, rungs, rungs)."""
    scores = [_scores(seen.get(step, {})) for step in steps]
    middle = np.ones((1, 1))  # the covariance in the middle of what is likely, by which the next rung is regressed …
    drawn = np.ones((DRAWS, 1, 1))  # … and as drawn
    for i in range(1, len(steps)):
        below = [i - 1, i - 2][: min(i, 2)]
        regression = _regress(scores[i], [scores[j] for j in below], middle[np.ix_(below, below)])
        slopes, noise = regression.draw(rng)
        middle = _extend(middle[None], below, regression.slope[None], np.array([regression.noise]))[0]
        drawn = _extend(drawn, below, slopes, noise)
    spread = np.sqrt(np.einsum("dii->di", drawn))
    found: Array = drawn / (spread[:, :, None] * spread[:, None, :])
    return found


@dataclass(frozen=True, slots=True)
class _Regression:
    """The posterior of slopes and noise: normal given the noise, whose inverse is gamma."""

    slope: Array
    precision: Array  # of the slopes, in units of the noise
    weight: float
    noise: float

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        noise = self.noise * self.weight / rng.chisquare(self.weight, DRAWS)
        root = np.linalg.cholesky(np.linalg.inv(self.precision))
        normal = rng.standard_normal((DRAWS, len(self.slope)))
        return self.slope + np.sqrt(noise)[:, None] * normal @ root.T, noise


def _regress(above: Losses, below: Sequence[Losses], covariance: Array) -> _Regression:
    """A rung's scores on those of one or two rungs below, whose covariance among all is known."""
    X, y, groups = _shared(above, below, covariance)
    # The prior is in correlations; y has the variance 1 among those that came so far, so among all it has t².
    selected = float(np.mean(X[:, 0] ** 2)) / covariance[0, 0] if len(y) else 1.0
    t = 1 / math.sqrt(1 - PRIOR_RHO**2 + PRIOR_RHO**2 * min(selected, 1.0))
    prior = _prior_slopes(len(below)) * t / np.sqrt(np.diag(covariance))
    weighed = PRIOR_WEIGHT * covariance
    precision = weighed + X.T @ X
    slope = np.asarray(np.linalg.solve(precision, weighed @ prior + X.T @ y), dtype=np.float64)
    weight = PRIOR_WEIGHT + max(0, len(y) - groups)
    squares = PRIOR_WEIGHT * (1 - PRIOR_RHO**2) * t**2 + y @ y + prior @ weighed @ prior - slope @ precision @ slope
    return _Regression(slope, precision, weight, max(float(squares), 1e-3 * weight) / weight)


def _prior_slopes(n: int) -> Array:
    """The slopes that the prior's correlations amount to, on one or two standardised rungs below."""
    if n == 1:
        return np.array([PRIOR_RHO])
    first = PRIOR_RHO * (1 - PRIOR_TWO_APART) / (1 - PRIOR_RHO**2)
    second = (PRIOR_TWO_APART - PRIOR_RHO**2) / (1 - PRIOR_RHO**2)
    return np.array([first, second])


def _shared(above: Losses, below: Sequence[Losses], covariance: Array) -> tuple[Array, Array, int]:
    """The scores of configurations seen on both rungs, each kind about its mean, and how many kinds there are.

    Those that began on the upper one of two rungs below have no score on the other: it is put where the first says,
    so that it adds nothing.
    """
    first, second = below[0], (below[1] if len(below) > 1 else {})
    X: list[Array] = []
    y: list[Array] = []
    for whole in (True, False):
        keys = [key for key in above if key in first and (key in second) == whole]
        values = np.array([above[key] for key in keys])
        if len(keys) < 2 or np.ptp(values) == 0:  # where all are equal, nothing can be seen
            continue
        x = np.array([first[key] for key in keys])
        x -= x.mean()
        columns = [x]
        if len(below) > 1:
            other = np.array([second[key] for key in keys]) if whole else x * covariance[0, 1] / covariance[0, 0]
            columns.append(other - other.mean())
        X.append(np.column_stack(columns))
        y.append(values - values.mean())
    if not y:
        return np.empty((0, len(below))), np.empty(0), 0
    return np.concatenate(X), np.concatenate(y), len(y)


def _extend(known: Array, below: Sequence[int], slopes: Array, noise: Array) -> Array:
    """Covariances with one more variable, which follows from some of the others by slopes and noise."""
    n = known.shape[1]
    across = np.einsum("db,dbj->dj", slopes, known[:, below, :])
    found = np.empty((len(known), n + 1, n + 1))
    found[:, :n, :n] = known
    found[:, n, :n] = found[:, :n, n] = across
    found[:, n, n] = np.einsum("db,db->d", slopes, across[:, below]) + noise
    return found


def _scores(losses: Losses) -> dict[bytes, float]:
    return dict(zip(losses, normal_scores(np.array(list(losses.values()))).tolist(), strict=True))


def normal_scores(losses: Array) -> Array:
    """The quantiles of the normal distribution that stand at the losses' ranks; equal losses share theirs."""
    _, place, count = np.unique(losses, return_inverse=True, return_counts=True)
    middle_rank = np.cumsum(count) - (count - 1) / 2
    scores: Array = ndtri((middle_rank[place] - 0.5) / max(1, len(losses)))
    return scores
