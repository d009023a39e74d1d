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
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from bohb.core.density.normal import upper_tail

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_LOG2E = math.log2(math.e)
_BLOCK = 1024  # points per block of the log-kernel matrix, so that it stays in the processor's cache
_CACHED = 16_384  # numbers that stay there with their intermediate results


@dataclass(frozen=True, slots=True)
class Kernels:
    """Which kernel each coordinate has, and where its numbers stand in the log-kernel product.

    choices: (d,) the declared number of choices, 0 for a numeric coordinate.
    optional: (d,) whether a coordinate can be inactive.
    """

    choices: NDArray[np.int64]
    optional: NDArray[np.bool_]
    numeric: Indices = field(init=False)  # numeric coordinates that are always active …
    numeric_optional: Indices = field(init=False)  # … and those that are not
    categorical: Indices = field(init=False)  # one entry per choice but the first of an always active coordinate
    choice: Array = field(init=False)  # that choice
    categorical_optional: Indices = field(init=False)  # one entry per choice of an optional coordinate
    choice_optional: Array = field(init=False)  # that choice

    def __post_init__(self) -> None:
        """Lay out the product."""
        is_numeric = self.choices == 0
        always = [(j, k) for j in np.flatnonzero(~is_numeric & ~self.optional) for k in range(1, self.choices[j])]
        maybe = [(j, k) for j in np.flatnonzero(~is_numeric & self.optional) for k in range(self.choices[j])]
        for name, value in {
            "numeric": np.flatnonzero(is_numeric & ~self.optional),
            "numeric_optional": np.flatnonzero(is_numeric & self.optional),
            "categorical": np.array([j for j, _ in always], dtype=np.intp),
            "choice": np.array([k for _, k in always], dtype=float),
            "categorical_optional": np.array([j for j, _ in maybe], dtype=np.intp),
            "choice_optional": np.array([k for _, k in maybe], dtype=float),
        }.items():
            object.__setattr__(self, name, value)


class Weighed(NamedTuple):
    """What candidates contribute to the log-kernel matrix: (m, F) weights of the features, (m,) their own constants."""

    weights: Array
    constant: Array


@dataclass(frozen=True, slots=True)
class Density:
    """A fitted density.

    points: (n, d) vectors; NaN is inactive.
    kernels: what kind of kernel each coordinate has.
    bandwidths: (d,) h_j of numeric, λ_j of categorical coordinates.
    features: (F, n) the numbers that depend on the points; `weigh` gives those that depend on x.
    rough_features: the same in single precision.
    """

    points: Array
    kernels: Kernels
    bandwidths: Array
    features: Array
    rough_features: NDArray[np.float32]

    def log_density(self, X: Array) -> Array:
        """log p(x) for every row of X, finite everywhere."""
        return self.exactly(self.weigh(X))

    def weigh(self, X: Array) -> Weighed:
        """All of `log_density` that does not grow with the number of points."""
        weights, constant = _weights(X, self.kernels, self.bandwidths)
        return Weighed(weights, constant - math.log(len(self.points)))

    def exactly(self, x: Weighed) -> Array:
        """log p(x)."""
        return _log_sum_exp(x.weights, self.features) + x.constant

    def roughly(self, x: Weighed) -> tuple[Array, float]:
        """log p(x) in single precision, several times as fast, and a bound of its error.

        The bound is that of a sum of F rounded products (Higham 2002, §3.5), and a little for what follows it.
        """
        largest = np.abs(x.weights) @ np.abs(self.rough_features).max(axis=1)
        error = (len(self.features) + 2) * 2.0**-24 * float(largest.max()) + 1e-5
        return _log_sum_exp(x.weights.astype(np.float32), self.rough_features) + x.constant, error

    def sample(self, rng: np.random.Generator, n: int, widen: float = 1.0, widen_categorical: bool = True) -> Array:
        """n draws from this density with all bandwidths multiplied by `widen` (the paper's l′)."""
        centres = self.points.take(rng.integers(len(self.points), size=n), axis=0)
        u = rng.random(centres.shape)
        drawn = np.empty_like(u)
        choices = self.kernels.choices
        numeric = np.flatnonzero(choices == 0)
        drawn[:, numeric] = _truncated_normal(u[:, numeric], centres[:, numeric], widen * self.bandwidths[numeric])
        categorical = np.flatnonzero(choices)
        if len(categorical):
            c = choices[categorical]
            switch = np.minimum((widen if widen_categorical else 1.0) * self.bandwidths[categorical], (c - 1) / c)
            drawn[:, categorical] = _other_choice(u[:, categorical], centres[:, categorical], switch, c)
        if self.kernels.optional.any():
            inactive = np.isnan(centres)
            uniform = np.where(choices == 0, u, np.floor(u * choices))
            drawn[inactive] = uniform[inactive]
        return drawn


def fit(points: Array, kernels: Kernels, bandwidths: Array, boundary: bool = True) -> Density:
    """The density of these points.

    bandwidths: one per coordinate; `scott` gives the paper's.
    boundary: whether kernels are normalised on [0, 1].
    """
    features = _features(points, kernels, bandwidths, boundary)
    return Density(points, kernels, bandwidths, features, features.astype(np.float32))


def scott(points: Array, kernels: Kernels, min_bandwidth: float = 1e-3, unknown: int = 0) -> Array:
    """Scott's rule, 1.06·σ_j·n^(−1/(4+d)), at least `min_bandwidth` and at most (c−1)/c for c choices.

    σ of a categorical coordinate is √((1 − Σ p_k²)/2), p_k being the share of choice k: for two choices this is the
    standard deviation of the index, and for more it does not depend on the order in which the choices are declared.

    unknown: how many further points are missing; they widen the bandwidths as points drawn uniformly would.
    """
    n, d = points.shape
    total = n + unknown
    choices = kernels.choices
    imputed = np.full(d, float(unknown))  # uniform mass, in units of points
    y = points
    if kernels.optional.any():
        missing = np.isnan(points)
        imputed += missing.sum(axis=0)
        y = np.where(missing, 0.0, points)
    ones = np.ones(n)
    mean = (ones @ y + imputed / 2) / total
    variance = np.maximum((np.einsum("ij,ij->j", y, y) + imputed / 3) / total - mean**2, 0.0)
    for j in np.flatnonzero((choices > 2) | ((choices > 0) & (imputed > 0))):
        column = points[:, j]
        count = np.bincount(column[column == column].astype(np.intp), minlength=choices[j])
        share = (count + imputed[j] / choices[j]) / total
        variance[j] = (1 - share @ share) / 2
    bandwidths: Array = 1.06 * np.sqrt(variance) * total ** (-1 / (4 + d))
    most = np.where(choices > 0, (choices - 1) / np.maximum(choices, 1), np.inf)
    return np.minimum(np.maximum(bandwidths, min_bandwidth), most)


def _features(points: Array, kernels: Kernels, h: Array, boundary: bool) -> Array:
    """(F, n): what each point contributes to the log-kernel matrix; the first row has weight 1 for every x.

    Coordinates are centred on 0: the terms in y² and x·y then cancel with a smaller error.
    """
    columns = points.T
    y = columns[kernels.numeric] - 0.5
    offset = -(0.5 / h[kernels.numeric] ** 2) @ y**2
    if boundary:
        offset -= _log_mass(y, h[kernels.numeric])
    rows = [offset[None], y]
    if len(kernels.numeric_optional):
        y = columns[kernels.numeric_optional] - 0.5
        active = ~np.isnan(y)
        y = np.where(active, y, 0.0)
        width = h[kernels.numeric_optional, None]
        alone = -0.5 * (y / width) ** 2
        if boundary:
            alone -= np.log(_mass(y, width))
        rows += [y, active, np.where(active, alone, 0.0)]
    rows.append(columns[kernels.categorical] == kernels.choice[:, None])
    if len(kernels.categorical_optional):
        column = columns[kernels.categorical_optional]
        rows += [column == kernels.choice_optional[:, None], np.isnan(column)]
    return np.concatenate(rows)


def _weights(X: Array, kernels: Kernels, h: Array) -> tuple[Array, Array]:
    """(m, F): what each x contributes to the log-kernel matrix, and (m,): its own constant. Order as in `_features`."""
    width = h[kernels.numeric]
    x = X[:, kernels.numeric] - 0.5
    columns = [np.ones((len(X), 1)), x / width**2]
    constant = -(x**2) @ (0.5 / width**2) - (np.log(width) + _LOG_SQRT_2PI).sum()
    if len(kernels.numeric_optional):
        width = h[kernels.numeric_optional]
        x = X[:, kernels.numeric_optional] - 0.5
        active = ~np.isnan(x)
        x = np.where(active, x, 0.0)
        alone = -0.5 * (x / width) ** 2 - np.log(width) - _LOG_SQRT_2PI
        columns += [x / width**2, np.where(active, alone, 0.0), active]
    # K(x, y) = λ/(c−1)·exp(gain·[x = y]); a point on the first choice has no feature, so x = 0 is paid by the others.
    other, gain = _aitchison_aitken(kernels, h)
    x = X[:, kernels.categorical]
    columns.append(gain[kernels.categorical] * ((x == kernels.choice) * 1.0 - (x == 0)))
    first = np.flatnonzero((kernels.choices > 0) & ~kernels.optional)
    constant += other[first].sum() + (X[:, first] == 0) @ gain[first]
    if len(kernels.categorical_optional):
        j = kernels.categorical_optional
        x = X[:, j]
        active = ~np.isnan(x)
        columns.append(active * other[j] + (x == kernels.choice_optional) * gain[j])
        # One feature per choice says that the coordinate is inactive: each pays its share of log 1/c.
        columns.append(active * (-np.log(kernels.choices[j]) / kernels.choices[j]))
    return np.concatenate(columns, axis=1), constant


def _aitchison_aitken(kernels: Kernels, h: Array) -> tuple[Array, Array]:
    """(d,) log λ/(c−1), and (d,) how much more log 1−λ is; zero for numeric coordinates."""
    categorical = kernels.choices > 0
    c = np.where(categorical, kernels.choices, 2)
    lam = np.where(categorical, h, 0.5)
    other = np.log(lam / (c - 1))
    return np.where(categorical, other, 0.0), np.where(categorical, np.log1p(-lam) - other, 0.0)


def _mass(y: Array, h: Array) -> Array:
    """The mass on [−½, ½] of Gaussians centred at y in it: 1 − Q((½−y)/h) − Q((½+y)/h)."""
    inverse = 1 / h
    mass: Array = 1 - upper_tail((0.5 - y) * inverse) - upper_tail((0.5 + y) * inverse)
    return mass


def _log_mass(y: Array, h: Array) -> Array:
    """(n,) Σ_j log of the mass of coordinate j, a few coordinates at a time to keep intermediate results small."""
    d, n = y.shape
    total = np.zeros(n)
    step = min(256, max(1, _CACHED // n))  # no mass is below 0.4: the product of 256 does not underflow
    for start in range(0, d, step):
        rows = slice(start, start + step)
        total += np.log(_mass(y[rows], h[rows, None]).prod(axis=0))
    return total


def _log_sum_exp(weights: NDArray[np.floating], features: NDArray[np.floating]) -> Array:
    """(m,) log Σ_i exp (weights @ features)_·i without overflow, in the precision of the arguments, block by block."""
    # In double precision the C library's exp2 is quicker than exp, in single precision numpy's own exp is quickest.
    power, unit = (np.exp2, _LOG2E) if weights.dtype == np.float64 else (np.exp, 1.0)
    weights = weights * weights.dtype.type(unit)
    blocks = []
    for start in range(0, features.shape[1], _BLOCK):
        M = weights @ features[:, start : start + _BLOCK]
        peak = M.max(axis=1)
        M -= peak[:, None]
        power(M, out=M)
        blocks.append(peak / unit + np.log(M.sum(axis=1), dtype=float))
    total: Array = np.logaddexp.reduce(blocks)
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
