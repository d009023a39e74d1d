"""A Gaussian process over configurations and rungs, conditioned on every result of every rung.

    y_r(x) = m_r + f_r(x) + ε,   cov(f_r(x), f_r′(x′)) = s² · c_r · c_r′ · exp(−Σ λ) · Matérn-5/2(|φ(x) − φ(x′)|)

m_r is the level of a rung, c_r the scale of its differences (1 on the largest budget), λ the disagreement of two
neighbouring rungs, summed over the steps from r to r′, and ε has the variance σ_r². φ maps a configuration to Euclidean
space, where every hyperparameter has its own length. s², the lengths, c, λ and σ² have log-normal priors and are fitted
to the maximum of the posterior; m_r ~ N(0, 1).

A configuration that was promoted has a result on each of its rungs. These pairs show how well rungs agree: a rung that
misleads gets a large λ and is ignored. Since the process knows the losses by which configurations were promoted, the
selection does not bias it.

Results of an earlier study t (`warm_start`) have levels of their own, the scale c_t, and the factor exp(−μ_t) in their
covariance with all other studies. μ_t, their disagreement, is fitted like λ: the results of an earlier study that says
nothing about this one are ignored.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from bohb.core.space import Array, Space

MOST_BELOW = 15  # rungs below the largest budget that are told apart
LEVEL = 1.0  # the variance of m_r
_ARC = math.pi / 3  # the angle of a range, so that its ends are as far apart as a value and none
_ROWS = 32  # rows that are computed at a time, so that they stay in the processor's cache
_JITTERS = (1e-8, 1e-6, 1e-4, 1e-2)  # added to the diagonal, one after the other, until it can be factorised
_THETA_DECIMALS = 6  # of fitted hyperparameters; a fit on another machine differs by about 1e-10


class Embedding:
    """φ: numbers as they are, choices at the corners of a simplex; two different choices are 1 apart.

    A number that can be inactive lies on an arc of radius 1 around the place where it is inactive. Having a value or
    not is then as different as the two ends of the range. A choice that can be inactive has one more corner.
    """

    def __init__(self, space: Space) -> None:
        self._choices = space.choices.tolist()
        self._optional = space.coordinates.optional.tolist()
        self._arc = [optional and not c for c, optional in zip(self._choices, self._optional, strict=True)]
        widths = [(c or 1) + optional for c, optional in zip(self._choices, self._optional, strict=True)]
        self.owner: NDArray[np.intp] = np.repeat(np.arange(space.d), widths)  # column -> hyperparameter
        self._plain = [j for j in range(space.d) if not self._choices[j] and not self._arc[j]]
        starts = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(int)
        self._starts = starts.tolist()
        self._plain_columns = starts[self._plain]

    def __call__(self, X: Array) -> Array:
        """Return the points of vectors, (n, columns)."""
        points = np.zeros((len(X), len(self.owner)))
        points[:, self._plain_columns] = X[:, self._plain]
        for j, start in enumerate(self._starts):
            column = X[:, j]
            if self._choices[j]:
                code = np.where(np.isnan(column), self._choices[j], column)  # inactive is one more choice
                points[np.arange(len(X)), start + code.astype(np.intp)] = math.sqrt(0.5)
            elif self._arc[j]:
                active = np.flatnonzero(~np.isnan(column))
                points[active, start] = np.cos(_ARC * column[active])
                points[active, start + 1] = np.sin(_ARC * column[active])
        return points

    def slopes(self, X: Array, by_column: Array) -> Array:
        """Return the slopes of a function in the numbers of vectors, (n, d), from those in the columns of points."""
        slopes = np.zeros(X.shape)
        slopes[:, self._plain] = by_column[:, self._plain_columns]
        for j in np.flatnonzero(self._arc).tolist():
            angle, start = _ARC * X[:, j], self._starts[j]
            along = np.cos(angle) * by_column[:, start + 1] - np.sin(angle) * by_column[:, start]
            slopes[:, j] = np.where(np.isnan(angle), 0.0, _ARC * along)
        return slopes


@dataclass(frozen=True, slots=True)
class Kernel:
    """The hyperparameters of the kernel, as logarithms. Rungs are counted down from the largest budget.

    lengths: one per hyperparameter of the space.
    variance: s².
    decays: λ between each rung and the one below it.
    scales: c_r of each rung but the first.
    noises: σ_r² of each rung.
    study_decays: μ_t of each earlier study.
    study_scales: c_t of each earlier study.
    """

    lengths: Array
    variance: float
    decays: Array
    scales: Array
    noises: Array
    study_decays: Array
    study_scales: Array

    @property
    def studies(self) -> int:
        """The number of studies, this one included."""
        return 1 + len(self.study_decays)

    def vector(self) -> Array:
        """Return all of them in one vector."""
        below = (self.decays, self.scales, self.noises)
        return np.concatenate([self.lengths, [self.variance], *below, self.study_decays, self.study_scales])

    @classmethod
    def of(cls, theta: Array, rungs: int, studies: int = 1) -> Kernel:
        """Return the kernel of such a vector."""
        earlier = studies - 1
        d = len(theta) - 3 * rungs + 1 - 2 * earlier
        parts = np.split(theta, np.cumsum([d, 1, rungs - 1, rungs - 1, rungs, earlier]))
        return cls(parts[0], float(parts[1][0]), *parts[2:])

    def groups(self) -> Array:
        """Return the covariance of f for every pair of groups at one x; group t · rungs + r is rung r of study t."""
        scale = np.exp(np.concatenate([[0.0], self.study_scales]))
        towards = np.exp(-np.concatenate([[0.0], np.exp(self.study_decays)]))
        studies = np.outer(towards, towards)
        np.fill_diagonal(studies, 1.0)
        return np.asarray(np.kron(studies * np.outer(scale, scale), self.rungs()))

    def group_noises(self) -> Array:
        """Return σ_r² of every group."""
        return np.tile(np.exp(self.noises), self.studies)

    def rungs(self) -> Array:
        """Return s² · c_r · c_r′ · exp(−Σ λ) for every pair of rungs."""
        place = np.concatenate([[0.0], np.cumsum(np.exp(self.decays))])
        scale = np.exp(np.concatenate([[0.0], self.scales]))
        return np.asarray(np.exp(self.variance - np.abs(place[:, None] - place)) * np.outer(scale, scale))


def prior(d: int, rungs: int, studies: int = 1) -> tuple[Kernel, Array]:
    """Return the centre of the log-normal priors and their widths.

    Lengths grow with the dimension, since distances do. Many objectives repeat themselves exactly on the largest budget
    and others do not, so the prior of the noise there is wide. Below, noise doubles with every rung. Earlier studies
    have the same noise; with them it is larger, because it also stands for how their scales differ from this one's.
    """
    earlier = studies - 1
    lengths = np.full(d, math.log(0.5 * math.sqrt(max(1.0, d / 4))))
    noises = math.log(0.02) + math.log(2) * np.arange(rungs, dtype=np.float64)
    if not earlier:
        noises[0] = math.log(0.0003)
    decays, study_decays = np.full(rungs - 1, math.log(0.15)), np.full(earlier, math.log(0.15))
    centre = Kernel(lengths, 0.0, decays, np.zeros(rungs - 1), noises, study_decays, np.zeros(earlier))
    sizes = [d, 1, rungs - 1, rungs - 1, 1, rungs - 1, earlier, earlier]
    top_noise = 1.2 if earlier else 2.5
    return centre, np.repeat([0.8, 0.4, 1.0, 0.5, top_noise, 1.5, 1.5, 1.0], sizes)


def matern(A: Array, B: Array) -> Array:
    """Return Matérn-5/2 of the distance of every pair, (1 + √5 r + 5/3 r²) e^(−√5 r)."""
    out = np.empty((len(A), len(B)))
    buffer = np.empty((_ROWS, len(B)))
    A_squared, B_squared, transposed = (A**2).sum(1)[:, None], (B**2).sum(1), -2 * B.T
    for start in range(0, len(A), _ROWS):
        rows = slice(start, start + _ROWS)
        k = np.matmul(A[rows], transposed, out=out[rows])
        k += A_squared[rows]
        k += B_squared
        np.maximum(k, 0, out=k)  # |a − b|²
        r = np.multiply(k, 5, out=buffer[: len(k)])
        np.sqrt(r, out=r)  # √5 |a − b|
        k *= 5 / 3
        k += r
        k += 1
        k *= np.exp(np.negative(r, out=r), out=r)
    return out


def matern_slope(squares: Array) -> Array:
    """Return −2 dk/d(r²) of Matérn-5/2 at squared distances: 5/3 (1 + √5 r) e^(−√5 r)."""
    r = np.sqrt(5 * squares)
    return np.asarray((5 / 3) * (1 + r) * np.exp(-r))


def squared_distances(A: Array, B: Array) -> Array:
    """Return |a − b|² of every pair of rows."""
    squares = (A**2).sum(axis=1)[:, None] + (B**2).sum(axis=1) - 2 * (A @ B.T)
    return np.asarray(np.maximum(squares, 0.0))


class Data(NamedTuple):
    """The results that a process is given.

    owner: the hyperparameter of each column of the points, see `Embedding`.
    points: φ(x) of the results, (n, columns).
    group: their rungs and studies, see `Kernel.groups`; in this study the rung, counted down from the largest budget.
    y: their standardised losses.
    counts: how many evaluations each of them is the mean of.
    squares: the sums of the squared deviations of these; they show the noise alone.
    """

    owner: NDArray[np.intp]
    points: Array
    group: NDArray[np.intp]
    y: Array
    counts: Array | float = 1.0
    squares: Array | float = 0.0


class Process:
    """The posterior process given results."""

    def __init__(self, kernel: Kernel, data: Data) -> None:
        self.kernel = kernel
        self._scale = np.exp(-kernel.lengths)[data.owner]
        self._points, self._group = data.points * self._scale, data.group
        self._groups = kernel.groups()
        self.observed_similarity = matern(self._points, self._points)
        covariance = self._covariance(self.observed_similarity, data.group)
        noises = kernel.group_noises()[data.group] / data.counts
        covariance[np.diag_indices_from(covariance)] += noises
        self._factor = cholesky(covariance)
        self._weights = cho_solve((self._factor, True), data.y, check_finite=False)
        self.residuals = np.sqrt(noises) * self._weights  # the expected noise of each result, in its deviations

    def _covariance(self, similarity: Array, group: NDArray[np.intp] | int) -> Array:
        """Return the covariance of points in groups and the observed ones, from their similarity, (n, observations)."""
        group = np.atleast_1d(group)
        covariance = similarity * self._groups[group].take(self._group, axis=1)
        covariance += LEVEL * (group[:, None] == self._group)
        return np.asarray(covariance)

    def observed_on_top(self) -> Array:
        """Return the expected loss of the observed configurations on the largest budget."""
        return np.asarray(self._covariance(self.observed_similarity, 0) @ self._weights)

    def mean(self, points: Array, below: NDArray[np.intp] | int) -> Array:
        """Return the expected loss of points on rungs."""
        return np.asarray(self._covariance(self.similarity(points), below) @ self._weights)

    def similarity(self, points: Array) -> Array:
        """Return the similarity of points and observed ones, between 0 and 1: the kernel without s² and rungs."""
        return matern(points * self._scale, self._points)

    def rung_covariance(self, points: Array) -> Array:
        """Return the posterior covariance of a configuration's losses on all rungs, averaged over points.

        Rungs are counted down from the largest budget. The noise of results is not included.
        """
        n = len(self.kernel.noises)
        similarity = self.similarity(points)
        total = len(points) * (self._groups[:n, :n] + LEVEL * np.eye(n))
        for row in similarity:
            covariance = self._covariance(np.tile(row, (n, 1)), np.arange(n))
            explained = solve_triangular(self._factor, covariance.T, lower=True, check_finite=False)
            total -= explained.T @ explained
        return np.asarray(total / len(points))

    def predict(self, similarity: Array) -> tuple[Array, Array]:
        """Return mean and deviation of the noiseless loss on the largest budget, from the points' similarities."""
        covariance = self._covariance(similarity, 0)
        explained = dtrtrs(self._factor, covariance.T, lower=1)[0]
        variance = self._groups[0, 0] + LEVEL - np.einsum("ij,ij->j", explained, explained)
        return covariance @ self._weights, np.sqrt(np.maximum(variance, 1e-10))

    def predict_slopes(self, points: Array, similarity: Array) -> tuple[Array, Array, Array, Array]:
        """Return what `predict` returns, and the slopes of both in the columns of the points."""
        covariance = self._covariance(similarity, 0)
        explained = dtrtrs(self._factor, covariance.T, lower=1)[0]
        shares = dtrtrs(self._factor, explained, lower=1, trans=1)[0].T
        variance = self._groups[0, 0] + LEVEL - np.einsum("ij,ij->j", explained, explained)
        deviation = np.sqrt(np.maximum(variance, 1e-10))
        scaled = points * self._scale
        steep = matern_slope(squared_distances(scaled, self._points)) * self._groups[0].take(self._group)

        def pull(weights: Array) -> Array:  # Σ weight · dk/dx over the observed points
            return np.asarray((weights @ self._points - weights.sum(axis=1)[:, None] * scaled) * self._scale)

        by_deviation = -pull(steep * shares) / deviation[:, None]
        return covariance @ self._weights, deviation, pull(steep * self._weights), by_deviation

    def similarity_slopes(self, points: Array, observed: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the similarity of each point and one observed point, and its slopes in the columns of the point."""
        apart = self._points[observed] - points * self._scale
        squares = (apart**2).sum(axis=1)
        r = np.sqrt(5 * squares)
        similarity = (1 + r + r**2 / 3) * np.exp(-r)
        return similarity, matern_slope(squares)[:, None] * apart * self._scale


def cholesky(K: Array) -> Array:
    """Return the lower factor of a covariance matrix, whose diagonal is raised in place as little as necessary."""
    diagonal = np.diag(K).copy()
    for jitter in _JITTERS:
        np.fill_diagonal(K, diagonal + jitter * diagonal.mean())
        factor, failed = dpotrf(K, lower=1, clean=1)
        if not failed:
            return np.asarray(factor)
    raise LinAlgError("the covariance matrix is not positive definite")


def fit(start: Kernel, data: Data, steps: int) -> Kernel:
    """Return the hyperparameters of highest posterior probability that `steps` of L-BFGS find from `start`."""
    from scipy.optimize import minimize  # slow to import, and not every study needs it

    rungs, studies = len(start.noises), start.studies
    centre, widths = prior(len(start.lengths), rungs, studies)
    middle = centre.vector()

    def negative(theta: Array) -> tuple[float, Array]:
        value, gradient = negative_log_likelihood(Kernel.of(theta, rungs, studies), data)
        z = (theta - middle) / widths
        return value + 0.5 * float(z @ z), gradient + z / widths

    low, high = middle - 4 * widths, middle + 4 * widths
    found = minimize(
        negative,
        np.clip(start.vector(), low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low.tolist(), high.tolist(), strict=True)),
        options={"maxiter": steps, "maxcor": 10},
    )
    return Kernel.of(np.round(found.x, _THETA_DECIMALS), rungs, studies)


def negative_log_likelihood(kernel: Kernel, data: Data) -> tuple[float, Array]:
    """Return −log p(y | x, r, t) without its constant, and its gradient with respect to `kernel.vector()`.

    The mean of k evaluations has the variance σ²/k; their squared deviations from it, divided by σ², are χ² with k − 1
    degrees of freedom.
    """
    owner, points, group, y, counts, squares = data
    scaled = points * np.exp(-kernel.lengths)[owner]
    noises, n_rungs = kernel.group_noises(), len(kernel.noises)
    groups = kernel.groups()[group].take(group, axis=1)
    signal = matern(scaled, scaled) * groups
    factor = cholesky(signal + LEVEL * (group[:, None] == group) + np.diag(noises[group] / counts))
    weights = cho_solve((factor, True), y, check_finite=False)
    value = 0.5 * float(y @ weights) + float(np.log(np.diag(factor)).sum())
    freedom, excess = np.broadcast_to(counts - 1.0, len(y)), squares / noises[group]
    value += 0.5 * float((freedom * np.log(noises[group]) + excess).sum())

    inverse, _ = dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    W = inverse - np.outer(weights, weights)  # 2 d(value)/dK
    by_length = W * groups * matern_slope(squared_distances(scaled, scaled))
    # Σ_ab by_length_ab (φ_ac − φ_bc)² for every column c, without a matrix per column
    columns = 2 * (by_length.sum(1) @ scaled**2 - np.einsum("ij,ij->j", by_length @ scaled, scaled))
    member = (group[:, None] == np.arange(len(noises))).astype(float)
    by_groups = member.T @ (W * signal) @ member  # summed over all results of two groups
    paired = by_groups.reshape(kernel.studies, n_rungs, kernel.studies, n_rungs)
    by_rungs, by_studies = paired.sum((0, 2)), paired.sum((1, 3))
    across = [by_rungs[: r + 1, r + 1 :].sum() for r in range(n_rungs - 1)]  # pairs with this step between them
    others = by_studies.sum(1) - np.diag(by_studies)  # pairs of results of which one is another study's
    by_noise = noises * np.bincount(group, np.diag(W) / counts, len(noises))
    by_noise += np.bincount(group, freedom - excess, len(noises))
    gradient = np.concatenate(
        [
            0.5 * np.bincount(owner, columns, len(kernel.lengths)),
            [0.5 * by_rungs.sum()],
            -np.exp(kernel.decays) * across,
            by_rungs.sum(1)[1:],
            0.5 * by_noise.reshape(kernel.studies, n_rungs).sum(0),
            -np.exp(kernel.study_decays) * others[1:],
            by_studies.sum(1)[1:],
        ]
    )
    return value, gradient
