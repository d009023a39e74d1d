"""Where evaluations fail, on whatever budget, and what samplers learn from it.

The paper does not say what a failed evaluation teaches. Here it joins the bad observations of Eq. 3. But the model of
the largest budget does not know of failures on smaller ones, and the share ρ of random configurations would never
learn. Therefore

- a candidate's l/g is multiplied by the probability that its evaluation succeeds, as in constrained expected
  improvement;
- a random configuration is drawn again with the probability that it fails, but with at most 90 %. No region is
  excluded, and Hyperband's guarantee holds with at least a tenth of ρ.

While nothing fails, nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bohb.core.samplers import kde
from bohb.core.samplers.kde import Array, Density
from bohb.core.space.coordinates import Coordinates

FLOOR = 0.1  # the least probability with which a random configuration is accepted


@dataclass(frozen=True, slots=True)
class Failures:
    """Densities of succeeded and failed evaluations, weighted by their numbers."""

    ok: Density | None
    failed: Density
    n_ok: int
    n_failed: int

    def log_chance(self, X: Array) -> Array:
        """Return log P(an evaluation at x succeeds) for every row of X.

        One success that is spread evenly over the space is added as a prior.
        """
        choices = self.failed.coordinates.choices
        uniform = 1 / float(np.prod(np.maximum(choices, 1), dtype=float))  # the density of the prior's success
        failed = self.n_failed * np.exp(self.failed.log_density(X))
        ok = 0.0 if self.ok is None else self.n_ok * np.exp(self.ok.log_density(X))
        return np.log((ok + uniform) / (ok + failed + uniform))

    def accept(self, rng: np.random.Generator, vector: Array) -> bool:
        """Decide whether to keep a random configuration."""
        return bool(rng.random() < max(FLOOR, np.exp(self.log_chance(vector[None, :])[0])))


def fit_failures(
    coordinates: Coordinates, ok: Sequence[Array], failed: Sequence[Array], n_ok: int, n_failed: int, n_min: int
) -> Failures | None:
    """Fit the densities to the latest evaluations; None if none failed.

    ok, failed: vectors of the latest evaluations of each kind.
    n_ok, n_failed: how many there were in all.
    n_min: the number of points below which bandwidths are widened.
    """
    if not failed:
        return None

    def density(vectors: Sequence[Array]) -> Density:
        points = np.array(vectors)
        return kde.fit(points, coordinates, kde.scott(points, coordinates, unknown=max(0, n_min - len(points))))

    return Failures(density(ok) if ok else None, density(failed), n_ok, n_failed)
