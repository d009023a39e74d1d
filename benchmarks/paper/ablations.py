"""The combination of Bertrand et al. (2017) that Appendix B discusses, as an ablation of our own code.

Hyperband's brackets and the share of random configurations are BOHB's; in the place of the densities stands one
Gaussian process with a squared exponential kernel over the hyperparameters and the budget, which is modelled like any
other dimension (by its logarithm, as Hyperband's budgets are a factor apart). A configuration is proposed for its
expected improvement on the largest budget. The other combination, Wang et al. (2018), is in `benchmarks.methods`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize
from scipy.stats import norm

from benchmarks.methods import Ours
from benchmarks.problem import Problem
from bohb.core.samplers.proposal import Situation
from bohb.core.space import Space

Array = NDArray[np.float64]
POINTS = 300  # observations that the process is conditioned on
FIT_POINTS = 150  # and those its hyperparameters are fitted to
REFIT = 1.2  # they are fitted again when there are this many times as many observations
CANDIDATES = 256  # drawn at random, and as many near the best
JITTER = 1e-6


class GaussianProcessOverBudgets(Ours):
    """The method "gp-budget"."""

    def __init__(self, problem: Problem, seed: int) -> None:
        super().__init__(problem, seed, {"preset": "paper", "sampler": BudgetProcess()})


class BudgetProcess:
    """A sampler for `bohb.BOHB`; it remembers the hyperparameters of its kernel between proposals."""

    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._fitted_to = 0

    def __call__(self, rng: np.random.Generator, situation: Situation) -> Array | None:
        """The candidate with the highest expected improvement on the largest budget."""
        X, rungs, losses = observations(rng, situation)
        if len(losses) < situation.space.d + 2:
            return None  # the prior decides
        features = np.column_stack([one_hot(situation.space, X), rungs])
        y = standardised(losses)
        if self._kernel is None or len(losses) > REFIT * self._fitted_to:
            subset = rng.permutation(len(y))[:FIT_POINTS]
            self._kernel = fit(features[subset], y[subset], self._kernel)
            self._fitted_to = len(losses)
        process = Process(self._kernel, features, y)
        top = np.where(np.arange(features.shape[1]) == features.shape[1] - 1, 1.0, features)  # all on the last rung
        best, _ = process.predict(top)
        candidates = draw(rng, situation.space, X[np.argsort(best)[:10]])
        on_top = np.column_stack([one_hot(situation.space, candidates), np.ones(len(candidates))])
        score = log_improvement(*process.predict(on_top), float(best.min())) + situation.log_chance(candidates)
        return np.asarray(candidates[np.argmax(score)])


def observations(rng: np.random.Generator, situation: Situation) -> tuple[Array, Array, Array]:
    """Vectors, rungs in [0, 1] and losses of what did not fail: the larger budgets first, at most POINTS in all."""
    budgets = situation.budgets
    parts: list[tuple[Array, Array, Array]] = []
    left = POINTS
    for rung, budget in reversed(list(enumerate(budgets))):
        X, losses = situation.observations(budget)
        kept = rng.permutation(np.flatnonzero(np.isfinite(losses)))[:left]
        parts.append((X[kept], np.full(len(kept), rung / max(1, len(budgets) - 1)), losses[kept]))
        left -= len(kept)
    X, rungs, losses = (np.concatenate(column) for column in zip(*parts, strict=True))
    return X, rungs, losses


def standardised(losses: Array) -> Array:
    """Losses with mean 0 and deviation 1; those far above the median are cut, or they would be all that is modelled."""
    middle, best = float(np.median(losses)), float(losses.min())
    cut = np.minimum(losses, middle + 5 * (middle - best)) if middle > best else losses
    return np.asarray((cut - cut.mean()) / (cut.std() or 1.0))


def one_hot(space: Space, X: Array) -> Array:
    """Vectors with one coordinate per choice; an inactive hyperparameter is in the middle, or none of its choices."""
    columns = []
    for j, choices in enumerate(space.choices.tolist()):
        if choices:
            columns.append((X[:, j, None] == np.arange(choices)) / np.sqrt(2))  # two choices are 1 apart
        else:
            columns.append(np.nan_to_num(X[:, j, None], nan=0.5))
    return np.hstack(columns)


def draw(rng: np.random.Generator, space: Space, good: Array) -> Array:
    """Random vectors, and good ones with some coordinates changed."""
    choices = space.choices
    uniform = rng.random((2 * CANDIDATES, space.d))
    uniform = np.where(choices > 0, np.floor(uniform * np.maximum(choices, 1)), uniform)
    parents = good[rng.integers(len(good), size=CANDIDATES)]
    parents = np.where(np.isnan(parents), uniform[CANDIDATES:], parents)
    moved = np.where(choices > 0, uniform[CANDIDATES:], np.clip(parents + rng.normal(0, 0.1, parents.shape), 0, 1))
    change = rng.random(parents.shape) < max(0.3, 1 / space.d)
    return space.snap(np.vstack([uniform[:CANDIDATES], np.where(change, moved, parents)]))


@dataclass(frozen=True, slots=True)
class Kernel:
    """A squared exponential kernel with a length per dimension; all in logarithms."""

    lengths: Array
    variance: float
    noise: float

    def between(self, A: Array, B: Array) -> Array:
        """The covariances, without noise."""
        a, b = A / np.exp(self.lengths), B / np.exp(self.lengths)
        squared = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
        return np.asarray(np.exp(self.variance - 0.5 * np.maximum(squared, 0)))


class Process:
    """A Gaussian process conditioned on observations."""

    def __init__(self, kernel: Kernel, X: Array, y: Array) -> None:
        self._kernel, self._X = kernel, X
        noisy = kernel.between(X, X) + (np.exp(kernel.noise) + JITTER) * np.eye(len(X))
        self._factor = cho_factor(noisy, lower=True)
        self._weights = cho_solve(self._factor, y)

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the noise-free loss."""
        K = self._kernel.between(X, self._X)
        explained = (solve_triangular(self._factor[0], K.T, lower=True) ** 2).sum(0)
        return K @ self._weights, np.sqrt(np.maximum(np.exp(self._kernel.variance) - explained, 1e-12))


def fit(X: Array, y: Array, start: Kernel | None) -> Kernel:
    """The kernel of the highest marginal likelihood, times wide priors that keep it from running away."""
    d = X.shape[1]
    centre = np.concatenate([np.full(d, np.log(0.5)), [0.0, np.log(1e-2)]])
    width = np.concatenate([np.full(d, 1.5), [1.0, 2.0]])
    first = centre if start is None else np.concatenate([start.lengths, [start.variance, start.noise]])

    def negative(theta: Array) -> tuple[float, Array]:
        value, gradient = negative_log_likelihood(kernel_of(theta), X, y)
        z = (theta - centre) / width
        return value + 0.5 * float(z @ z), gradient + z / width

    bounds = [*[(-4.0, 4.0)] * d, (-4.0, 4.0), (-12.0, 1.0)]
    found = minimize(negative, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40})
    return kernel_of(np.asarray(found.x))


def kernel_of(theta: Array) -> Kernel:
    return Kernel(theta[:-2], float(theta[-2]), float(theta[-1]))


def negative_log_likelihood(kernel: Kernel, X: Array, y: Array) -> tuple[float, Array]:
    """−log p(y | X) but for a constant, and its gradient."""
    signal = kernel.between(X, X)
    noise = float(np.exp(kernel.noise))
    factor = cho_factor(signal + (noise + JITTER) * np.eye(len(X)), lower=True)
    weights = cho_solve(factor, y)
    value = 0.5 * float(y @ weights) + float(np.log(np.diag(factor[0])).sum())
    W = cho_solve(factor, np.eye(len(X))) - np.outer(weights, weights)
    M = W * signal
    # Σ_ab M_ab (x_aj − x_bj)², without a matrix per dimension
    spread = 2 * (M.sum(1) @ X**2 - ((M @ X) * X).sum(0))
    lengths = 0.5 * spread / np.exp(2 * kernel.lengths)
    return value, np.concatenate([lengths, [0.5 * float(M.sum()), 0.5 * noise * float(np.trace(W))]])


def log_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """The logarithm of the expected improvement on `best`."""
    z = (best - mean) / deviation
    return np.asarray(np.log(deviation * (z * norm.cdf(z) + norm.pdf(z)) + 1e-300))
