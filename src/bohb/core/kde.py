"""The kernel density estimator (Appendix D): one multivariate product kernel for mixed spaces.

A density is the mean over its points of ∏_j K_j(x_j, y_j). K_j is

- numeric and ordinal: a Gaussian of bandwidth h_j, divided by its mass on [0, 1];
- categorical: Aitchison and Aitken's, 1 − λ_j on the point's own choice and λ_j/(c_j − 1) on each of the others.

A coordinate that is inactive (NaN) in a point is imputed by the uniform distribution, not by a draw: its kernel is 1,
or 1/c for c choices. One that is inactive in x is integrated out. Either way the density integrates to one.

log ∏_j K_j(x_j, y_ij) is bilinear in a few numbers that depend on x alone and a few that depend on y_i alone, so the
log-kernel matrix of all candidates and all points is a single matrix product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LOG2E = math.log2(math.e)
_BLOCK = 2048  # points per block of the log-kernel matrix, so that it stays in the processor's cache


@dataclass(frozen=True, slots=True)
class Density:
    """A fitted density.

    points: (n, d) vectors; NaN is inactive.
    bandwidths: (d,) h_j of numeric, λ_j of categorical coordinates.
    choices: (d,) the declared number of choices, 0 for a numeric coordinate.
    boundary: whether kernels are normalised on [0, 1].
    features: (F, n) the numbers that depend on the points; `_weights` has those that depend on x.
    optional: (d,) whether a coordinate can be inactive.
    """

    points: Array
    bandwidths: Array
    choices: NDArray[np.int64]
    boundary: bool
    features: Array
    optional: NDArray[np.bool_]

    def log_density(self, X: Array) -> Array:
        """log p(x) for every row of X, finite everywhere."""
        weights, constant = _weights(self, X)  # (m, F), (m,)
        blocks = [
            _log2_sum_exp2(weights @ self.features[:, start : start + _BLOCK])
            for start in range(0, len(self.points), _BLOCK)
        ]
        total: Array = np.logaddexp2.reduce(blocks) / _LOG2E
        return total + (constant - math.log(len(self.points)))

    def sample(self, rng: np.random.Generator, n: int, widen: float = 1.0, widen_categorical: bool = True) -> Array:
        """n draws from this density with all bandwidths multiplied by `widen` (the paper's l′)."""
        centres = self.points[rng.integers(len(self.points), size=n)]
        u = rng.random(centres.shape)
        drawn = np.empty_like(u)
        numeric = self.choices == 0
        drawn[:, numeric] = _truncated_normal(u[:, numeric], centres[:, numeric], widen * self.bandwidths[numeric])
        if not numeric.all():
            c = self.choices[~numeric]
            factor = widen if widen_categorical else 1.0
            switch = np.minimum(factor * self.bandwidths[~numeric], (c - 1) / c)
            drawn[:, ~numeric] = _other_choice(u[:, ~numeric], centres[:, ~numeric], switch, c)
        inactive = np.isnan(centres)
        if inactive.any():
            uniform = np.where(numeric, u, np.floor(u * self.choices))
            drawn[inactive] = uniform[inactive]
        return drawn


def fit(
    points: Array,
    choices: NDArray[np.int64],
    bandwidths: Array,
    boundary: bool = True,
    optional: NDArray[np.bool_] | None = None,
) -> Density:
    """The density of these points.

    bandwidths: one per coordinate; `scott` gives the paper's.
    optional: which coordinates can be inactive; by default those that are so in some point.
    """
    can_miss = np.asarray(np.isnan(points).any(axis=0)) if optional is None else optional
    features = _features(points, bandwidths, choices, boundary, can_miss)
    return Density(points, bandwidths, choices, boundary, features, can_miss)


def scott(points: Array, choices: NDArray[np.int64], min_bandwidth: float = 1e-3, unknown: int = 0) -> Array:
    """Scott's rule, 1.06·σ_j·n^(−1/(4+d)), at least `min_bandwidth` and at most (c−1)/c for c choices.

    σ of a categorical coordinate is √((1 − Σ p_k²)/2), p_k being the share of choice k: for two choices this is the
    standard deviation of the index, and for more it does not depend on the order in which the choices are declared.

    unknown: how many further points are missing; they widen the bandwidths as points drawn uniformly would.
    """
    n, d = points.shape
    total = n + unknown
    missing = np.isnan(points)
    imputed = missing.sum(axis=0) + unknown  # (d,) uniform mass in units of points
    y = np.where(missing, 0.0, points) if missing.any() else points
    mean = (y.sum(axis=0) + imputed / 2) / total
    square = (np.einsum("ij,ij->j", y, y) + imputed / 3) / total
    variance = np.maximum(square - mean**2, 0.0)
    for j in np.flatnonzero((choices > 2) | ((choices > 0) & (imputed > 0))):
        column = points[~missing[:, j], j].astype(np.intp)
        share = (np.bincount(column, minlength=choices[j]) + imputed[j] / choices[j]) / total
        variance[j] = (1 - share @ share) / 2
    bandwidths: Array = 1.06 * np.sqrt(variance) * total ** (-1 / (4 + d))
    most = np.where(choices > 0, (choices - 1) / np.maximum(choices, 1), np.inf)
    return np.minimum(np.maximum(bandwidths, min_bandwidth), most)


def _features(
    points: Array, bandwidths: Array, choices: NDArray[np.int64], boundary: bool, optional: NDArray[np.bool_]
) -> Array:
    """(F, n): what each point contributes to the log-kernel matrix; the first row has weight 1 for every x.

    Numeric, always active: y. Numeric, optional: y, whether it is active, and log K's part in y alone.
    Categorical: one indicator per choice but the first; optional: one per choice, and whether it is inactive.
    """
    offset = np.zeros(len(points))
    rows = [offset]
    numeric = choices == 0
    always = numeric & ~optional
    y = points[:, always].T - 0.5  # centred: the terms in y² and x·y then cancel with a smaller error
    rows.extend(y)
    offset += _alone(y, bandwidths[always, None], boundary).sum(axis=0)
    for j in np.flatnonzero(numeric & optional):
        active = ~np.isnan(points[:, j])
        yj = np.where(active, points[:, j] - 0.5, 0.0)
        rows += [yj, active.astype(float), np.where(active, _alone(yj, bandwidths[j], boundary), 0.0)]
    for j in np.flatnonzero(~numeric):
        first = 0 if optional[j] else 1
        rows += [(points[:, j] == k).astype(float) for k in range(first, choices[j])]
        if optional[j]:
            rows.append(np.isnan(points[:, j]).astype(float))
    return np.array(rows) * _LOG2E


def _weights(density: Density, X: Array) -> tuple[Array, Array]:
    """(m, F): what each x contributes to the log-kernel matrix, and (m,): its own constant. Order as in `_features`."""
    m = len(X)
    h, optional = density.bandwidths, density.optional
    columns = [np.ones(m)]
    constant = np.zeros(m)
    numeric = density.choices == 0
    always = numeric & ~optional
    x = X[:, always] - 0.5
    columns.extend((x / h[always] ** 2).T)
    constant -= (x**2) @ (0.5 / h[always] ** 2) + (np.log(h[always]) + _LOG_SQRT_2PI).sum()
    for j in np.flatnonzero(numeric & optional):
        active = ~np.isnan(X[:, j])
        xj = np.where(active, X[:, j] - 0.5, 0.0)
        alone = -0.5 * (xj / h[j]) ** 2 - math.log(h[j]) - _LOG_SQRT_2PI
        columns += [xj / h[j] ** 2, np.where(active, alone, 0.0), active.astype(float)]
    for j in np.flatnonzero(~numeric):
        c = int(density.choices[j])
        same, other = math.log1p(-h[j]), math.log(h[j] / (c - 1))
        kernel = np.where(X[:, j, None] == np.arange(c), same, other)  # (m, c)
        if optional[j]:
            active = ~np.isnan(X[:, j])
            columns.extend(np.where(active[:, None], kernel, 0.0).T)
            columns.append(np.where(active, -math.log(c), 0.0))
        else:
            constant += kernel[:, 0]
            columns.extend((kernel[:, 1:] - kernel[:, :1]).T)
    return np.array(columns).T, constant


def _alone(y: Array, h: Array | float, boundary: bool) -> Array:
    """−y²/2h² − log(mass on [0, 1]): the part of a Gaussian log-kernel that depends on the (centred) point alone."""
    part: Array = -0.5 * (y / h) ** 2
    if boundary:
        part -= np.log(ndtr((0.5 - y) / h) - ndtr((-0.5 - y) / h))
    return part


def _log2_sum_exp2(M: Array) -> Array:
    """log2 Σ 2^M over the columns, without overflow; M is used up."""
    peak = M.max(axis=1)
    M -= peak[:, None]
    np.exp2(M, out=M)
    total: Array = peak + np.log2(M.sum(axis=1))
    return total


def _truncated_normal(u: Array, centre: Array, scale: Array) -> Array:
    """The quantiles u of normal distributions cut to [0, 1]; their centres lie inside, so no tail is ever deep."""
    low, high = ndtr(-centre / scale), ndtr((1 - centre) / scale)
    return np.clip(centre + scale * ndtri(low + u * (high - low)), 0.0, 1.0)


def _other_choice(u: Array, centre: Array, switch: Array, c: NDArray[np.int64]) -> Array:
    """The centre's choice with probability 1 − switch, otherwise one of the other c − 1, all alike."""
    stay = u < 1 - switch
    other = np.minimum(np.floor((u - (1 - switch)) / switch * (c - 1)), c - 2)
    return np.where(stay, centre, other + (other >= centre))
