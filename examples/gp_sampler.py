"""A Gaussian process in place of the paper's model: a sampler is one function."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.stats import norm

import bohb

Array = np.ndarray


def kernel(A: Array, B: Array, scale: float) -> Array:
    """Matérn 5/2."""
    r = np.sqrt(5) * np.linalg.norm(A[:, None] - B[None], axis=2) / scale
    matern: Array = (1 + r + r**2 / 3) * np.exp(-r)
    return matern


def fit(X: Array, y: Array) -> tuple[float, tuple[Array, bool], Array]:
    """Return the length scale with the highest marginal likelihood, its Cholesky factor and its weights."""

    def fitted(scale: float) -> tuple[float, float, tuple[Array, bool], Array]:
        factor = cho_factor(kernel(X, X, scale) + 1e-4 * np.eye(len(X)))
        weights = cho_solve(factor, y)
        return -0.5 * float(y @ weights) - float(np.log(np.diag(factor[0])).sum()), scale, factor, weights

    return max((fitted(scale) for scale in (0.1, 0.2, 0.4, 0.8, 1.6)), key=lambda found: found[0])[1:]


def gaussian_process(rng: np.random.Generator, situation: bohb.Situation) -> Array | None:
    """Return the candidate with the highest expected improvement, by the largest budget with enough results."""
    space = situation.space
    budget = situation.largest_budget(space.d + 1)
    if budget is None:
        return None  # the prior decides
    X, losses = situation.observations(budget)
    X, losses = X[np.isfinite(losses)][:300], losses[np.isfinite(losses)][:300]  # best first
    X, y = np.nan_to_num(X, nan=0.5), (losses - losses.mean()) / (losses.std() or 1.0)
    pending = np.nan_to_num(situation.pending, nan=0.5)  # as if their losses were average
    X, y = np.vstack([X, pending]), np.concatenate([y, np.zeros(len(pending))])
    scale, factor, weights = fit(X, y)
    near = np.clip(X[rng.integers(5, size=200) % len(X)] + rng.normal(0, 0.05, (200, space.d)), 0, 1)
    candidates = np.vstack([rng.random((300, space.d)), near])  # numbers only: choices would need one-hot coordinates
    K = kernel(candidates, X, scale)
    deviation = np.sqrt(np.maximum(1 - np.einsum("ij,ji->i", K, cho_solve(factor, K.T)), 1e-12))
    z = (y.min() - K @ weights) / deviation
    improvement = np.log(deviation * (z * norm.cdf(z) + norm.pdf(z)) + 1e-300) + situation.log_chance(candidates)
    return np.asarray(candidates[np.argmax(improvement)])


if __name__ == "__main__":
    bowl = lambda trial: (trial.config["x"] - 0.2) ** 2 + (trial.config["y"] - 0.7) ** 2 + 0.1 / trial.budget  # noqa: E731
    space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    study = bohb.minimize(bowl, space, min_budget=1, max_budget=9, seed=1, max_brackets=6, sampler=gaussian_process)
    print(study.incumbent.config)  # type: ignore[union-attr]
