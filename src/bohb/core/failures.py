"""Where evaluations fail, on whatever budget: what the sampler learns from it.

The paper leaves open what a failed evaluation teaches. It joins the bad ones of Eq. 3; but the model of the largest
budget does not know of failures on smaller ones, and the share ρ of random configurations would go on failing for ever.
Therefore

- a candidate's l/g is multiplied by the probability that its evaluation succeeds, as constrained EI does;
- a random configuration is drawn again with the probability that it fails, though never with more than 90 %: no region
  is shut out, and Hyperband's guarantee holds with a tenth of ρ at worst.

While nothing fails, nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bohb.core.density import kde
from bohb.core.density.kde import Array, Density, Kernels

FLOOR = 0.1  # the least probability with which a random configuration is accepted


@dataclass(frozen=True, slots=True)
class Failures:
    """Densities of succeeded and failed evaluations, weighted by how many there were."""

    ok: Density | None
    failed: Density
    n_ok: int
    n_failed: int

    def log_chance(self, X: Array) -> Array:
        """log P(an evaluation at x succeeds) for every row of X, with one success spread over the space beforehand."""
        choices = self.failed.kernels.choices
        uniform = 1 / float(np.prod(np.maximum(choices, 1), dtype=float))  # the density of that one success
        failed = self.n_failed * np.exp(self.failed.log_density(X))
        ok = 0.0 if self.ok is None else self.n_ok * np.exp(self.ok.log_density(X))
        return np.log((ok + uniform) / (ok + failed + uniform))

    def accept(self, rng: np.random.Generator, vector: Array) -> bool:
        """Whether to keep a random configuration."""
        return bool(rng.random() < max(FLOOR, np.exp(self.log_chance(vector[None, :])[0])))


def fit_failures(
    kernels: Kernels, ok: Sequence[Array], failed: Sequence[Array], n_ok: int, n_failed: int, n_min: int
) -> Failures | None:
    """What the latest evaluations say about failing; None if none failed."""
    if not failed:
        return None

    def density(vectors: Sequence[Array]) -> Density:
        points = np.array(vectors)
        return kde.fit(points, kernels, kde.scott(points, kernels, unknown=max(0, n_min - len(points))))

    return Failures(density(ok) if ok else None, density(failed), n_ok, n_failed)
