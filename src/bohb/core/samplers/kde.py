"""The kernel density estimator of Appendix D: one multivariate product kernel for mixed spaces.

A density is the mean over its points y_i of ∏_j K_j(x_j, y_ij). The kernel K_j is

- for a numeric or ordinal coordinate a Gaussian of bandwidth h_j, divided by its mass on [0, 1];
- for a categorical coordinate that of Aitchison and Aitken: 1 − λ_j if x_j = y_ij, and λ_j/(c_j − 1) otherwise.

Appendix D imputes an inactive coordinate (NaN) of a point by a uniform draw. Here its kernel is the uniform density
itself, 1 or 1/c_j. A coordinate that is inactive in x is integrated out. The density integrates to one in both cases.

log ∏_j K_j(x_j, y_ij) is a sum of products of a number that depends on x and one that depends on y_i. The log-kernels
of all candidates and points are therefore one matrix product, which is much faster than a loop over coordinates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bohb.core.space.scales import Coordinates

Array = NDArray[np.float64]
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_BANDWIDTH_DECIMALS = 12  # rounding hides the last bits, in which mathematical libraries differ
_BLOCK = 1024  # points whose log-kernels are computed at a time, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Density:
    """A fitted density.

    points: (n, d) vectors; NaN is inactive.
    coordinates: the kinds of the coordinates.
    bandwidths: (d,) h_j of numeric, λ_j of categorical coordinates.
    features: (F, n) the factors of the log-kernels that depend on the points.
    """

    points: Array
    coordinates: Coordinates
    bandwidths: Array
    features: Array

    def log_density(self, X: Array) -> Array:
        """Return log p(x) for every row of X; it is finite everywhere."""
        weights = _weights(X, self.coordinates, self.bandwidths)
        blocks = []
        for start in range(0, len(self.points), _BLOCK):
            log_kernels = weights @ self.features[:, start : start + _BLOCK]  # (m, n)
            peak = log_kernels.max(axis=1)
            log_kernels -= peak[:, None]
            np.exp(log_kernels, out=log_kernels)
            blocks.append(peak + np.log(log_kernels.sum(axis=1)))
        total: Array = np.logaddexp.reduce(blocks)
        return total - math.log(len(self.points))

    def sample(self, rng: np.random.Generator, n: int, widen: float = 1.0, widen_categorical: bool = True) -> Array:
        """Draw n vectors from this density with all bandwidths multiplied by `widen` (l′ of Alg. 2, line 5)."""
        centres = self.points.take(rng.integers(len(self.points), size=n), axis=0)
        u = rng.random(centres.shape)
        drawn = np.empty_like(u)
        choices = self.coordinates.choices
        numeric, categorical = np.flatnonzero(choices == 0), np.flatnonzero(choices)
        drawn[:, numeric] = _truncated_normal(u[:, numeric], centres[:, numeric], widen * self.bandwidths[numeric])
        if len(categorical):
            c = choices[categorical]
            switch = np.minimum((widen if widen_categorical else 1.0) * self.bandwidths[categorical], (c - 1) / c)
            drawn[:, categorical] = _other_choice(u[:, categorical], centres[:, categorical], switch, c)
        if self.coordinates.optional.any():
            inactive = np.isnan(centres)
            uniform = np.where(choices == 0, u, np.floor(u * choices))
            drawn[inactive] = uniform[inactive]
        return drawn


def fit(points: Array, coordinates: Coordinates, bandwidths: Array, boundary: bool = True) -> Density:
    """Return the density of these points.

    bandwidths: one per coordinate; `scott` gives the paper's.
    boundary: whether kernels are normalised on [0, 1].
    """
    return Density(points, coordinates, bandwidths, _features(points, coordinates, bandwidths, boundary))


def scott(points: Array, coordinates: Coordinates, min_bandwidth: float = 1e-3, unknown: int = 0) -> Array:
    """Scott's rule, 1.06·σ_j·n^(−1/(4+d)), at least `min_bandwidth` and at most (c−1)/c for c choices.

    σ of a categorical coordinate is √((1 − Σ p_k²)/2), p_k being the share of choice k. For two choices this is the
    standard deviation of the index; for more it does not depend on the order in which the choices are declared.

    unknown: number of missing points; they widen the bandwidths as points drawn uniformly would.
    """
    n, d = points.shape
    total = n + unknown
    choices = coordinates.choices
    y, active = _zero_if_inactive(points) if coordinates.optional.any() else (points, None)
    imputed = np.full(d, float(unknown)) if active is None else unknown + n - active.sum(axis=0)  # in units of points
    # Sums over rows, not products of matrices: the latter round differently on other processors.
    mean = (np.einsum("ij->j", y) + imputed / 2) / total
    variance = np.maximum((np.einsum("ij,ij->j", y, y) + imputed / 3) / total - mean**2, 0.0)
    for j in np.flatnonzero((choices > 2) | ((choices > 0) & (imputed > 0))):
        column = points[:, j]
        count = np.bincount(column[column == column].astype(np.intp), minlength=choices[j])
        share = (count + imputed[j] / choices[j]) / total
        variance[j] = (1 - (share * share).sum()) / 2
    bandwidths = np.round(1.06 * np.sqrt(variance) * total ** (-1 / (4 + d)), _BANDWIDTH_DECIMALS)
    largest = np.where(choices > 0, (choices - 1) / np.maximum(choices, 1), np.inf)
    bounded: Array = np.minimum(np.maximum(bandwidths, min_bandwidth), largest)
    return bounded


def _features(points: Array, coordinates: Coordinates, h: Array, boundary: bool) -> Array:
    """Return (F, n) what each point contributes to its log-kernels, in the order of `_weights`.

    Coordinates are centred on 0, so that the terms in y² and x·y cancel with a smaller error.
    """
    numeric, owner = coordinates.numeric, coordinates.owner
    always = ~coordinates.optional[numeric]
    columns = points.T
    width = h[numeric, None]
    y, active = _zero_if_inactive(columns[numeric] - 0.5)
    own = -0.5 * (y / width) ** 2
    if boundary:
        own -= np.log(_mass(y, width))
    own *= active
    rows = [y, own[always].sum(axis=0)[None], np.ones((1, len(points))), own[~always], active[~always]]
    rows.append(columns[owner] == coordinates.choice[:, None])
    rows.append(np.isnan(columns[_optional(coordinates)]))
    return np.concatenate(rows)


def _weights(X: Array, coordinates: Coordinates, h: Array) -> Array:
    """Return (m, F) what each x contributes to its log-kernels, in the order of `_features`."""
    numeric, owner, choices = coordinates.numeric, coordinates.owner, coordinates.choices
    always = ~coordinates.optional[numeric]
    width = h[numeric]
    x, active = _zero_if_inactive(X[:, numeric] - 0.5)
    own = active * (-0.5 * (x / width) ** 2 - np.log(width) - _LOG_SQRT_2PI)
    ones, constant = np.ones((len(X), 1)), own[:, always].sum(axis=1)[:, None]
    columns = [x / width**2, ones, constant, active[:, ~always], own[:, ~always]]
    same, other = np.log1p(-h[owner]), np.log(h[owner] / (choices[owner] - 1))
    x = X[:, owner]
    columns.append(np.where(x == coordinates.choice, same, other) * ~np.isnan(x))
    optional = _optional(coordinates)
    columns.append(-np.log(choices[optional]) * ~np.isnan(X[:, optional]))
    return np.concatenate(columns, axis=1)


def _optional(coordinates: Coordinates) -> NDArray[np.intp]:
    """Return the categorical coordinates that can be inactive."""
    return coordinates.categorical[coordinates.optional[coordinates.categorical]]


def _zero_if_inactive(x: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return coordinates with 0 for inactive ones, and which are active."""
    active = ~np.isnan(x)
    return np.where(active, x, 0.0), active


def _mass(y: Array, h: Array) -> Array:
    """Return the mass on [−½, ½] of Gaussians centred at y in it: 1 − Φ((y−½)/h) − Φ((−½−y)/h)."""
    return np.asarray(1 - ndtr((y - 0.5) / h) - ndtr((-0.5 - y) / h))


def _truncated_normal(u: Array, centre: Array, scale: Array) -> Array:
    """Return the quantiles u of normal distributions cut to [0, 1]; centres lie inside, so the tails stay accurate."""
    low, high = ndtr(-centre / scale), ndtr((1 - centre) / scale)
    return np.clip(centre + scale * ndtri(low + u * (high - low)), 0.0, 1.0)


def _other_choice(u: Array, centre: Array, switch: Array, c: NDArray[np.int64]) -> Array:
    """Return the centre's choice with probability 1 − switch, otherwise one of the other c − 1 with equal chances."""
    stay = u < 1 - switch
    other = np.minimum(np.floor((u - (1 - switch)) / switch * (c - 1)), c - 2)
    return np.where(stay, centre, other + (other >= centre))
