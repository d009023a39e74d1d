"""Algorithm 2: how BOHB samples a configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bohb.core.history import History
from bohb.core.samplers import kde
from bohb.core.samplers.kde import Array, Density
from bohb.core.samplers.observations import Observations
from bohb.core.samplers.proposal import TRIES, Declined, Proposal, Situation, first_allowed, significant
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.core.trial import Origin

_SCORE_DECIMALS = 9  # of log l/g; candidates that differ by less count as equal


@dataclass(frozen=True, slots=True)
class Model:
    """The two densities of Eq. 2, fitted to the observations of one budget."""

    budget: float
    n: int
    good: Density  # l
    bad: Density  # g

    def log_ratio(self, X: Array) -> Array:
        """Return log l(x)/g(x), which grows with the expected improvement."""
        return self.good.log_density(X) - self.bad.log_density(X)


def min_points(space: Space, settings: Settings) -> int:
    """Return N_min: d + 1 by default."""
    return space.d + 1 if settings.min_points is None else settings.min_points


def points_needed(space: Space, settings: Settings) -> int:
    """Return how many observations on one budget the first model needs (Alg. 2, line 3)."""
    n_min = min_points(space, settings)
    return n_min + 2 if settings.overlap else 2 * n_min


def split(n: int, n_finite: int, n_min: int, settings: Settings) -> tuple[int, int]:
    """Return how many of n observations are good and how many are bad (Eq. 3).

    The good ones are the N_l best, the bad ones the N_g worst; the two overlap while observations are few. A failed
    evaluation is never good, so there may be fewer good ones than N_min.
    """
    n_good = min(max(n_min, _floor(settings.good_fraction * n)), n_finite)
    if settings.overlap:
        return n_good, max(n_min, n - n_good)
    return n_good, min(n - n_good, max(n_min, _floor((1 - settings.good_fraction) * n)))


def model_budget(observations: Mapping[float, Observations], needed: int) -> float | None:
    """Return the largest budget with enough observations, one of them finite (Alg. 2, line 2), or None.

    needed: as `points_needed` says.
    """
    enough = (b for b, d_b in observations.items() if len(d_b) >= needed and d_b.n_finite > 0)
    return max(enough, default=None)


def fit_model(space: Space, budget: float, d_b: Observations, settings: Settings) -> Model:
    """Fit both densities (Alg. 2, line 4)."""
    n_min = min_points(space, settings)
    n_good, n_bad = split(len(d_b), d_b.n_finite, n_min, settings)
    first_bad = len(d_b) - n_bad if settings.overlap else n_good

    def density(start: int, stop: int) -> Density:
        points = d_b.ranked(start, stop)
        unknown = max(0, n_min - len(points))
        bandwidths = kde.scott(points, space.coordinates, settings.min_bandwidth, unknown)
        return kde.fit(points, space.coordinates, bandwidths, settings.boundary)

    return Model(budget, len(d_b), density(0, n_good), density(first_bad, first_bad + n_bad))


class DensitySampler:
    """The sampler of Algorithm 2. It remembers the last model that it fitted."""

    def __init__(self) -> None:
        self._model: Model | None = None

    def model(self, history: History) -> Model | None:
        """Return the densities that the next proposal would use; None while there are too few results."""
        # Larger budgets than the study's come from an earlier study; this one never adds to them.
        observations = {b: d_b for b, d_b in history.evidence.observations.items() if b <= history.budgets[-1]}
        budget = model_budget(observations, points_needed(history.space, history.settings))
        if budget is None:
            return None
        d_b = observations[budget]
        if self._model is None or (self._model.budget, self._model.n) != (budget, len(d_b)):
            self._model = fit_model(history.space, budget, d_b, history.settings)
        return self._model

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose the best of N_s candidates by l/g (Alg. 2, lines 2 to 6)."""
        model = self.model(situation.history)
        if model is None:
            return Declined("no model yet")
        return propose_by(model, rng, situation)


def propose_by(model: Model, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
    """Propose the allowed candidate with the highest l/g (Alg. 2, lines 5 and 6)."""
    space, settings = situation.space, situation.settings
    for _ in range(TRIES):
        candidates = space.snap(
            model.good.sample(rng, settings.num_samples, settings.bandwidth_factor, settings.widen_categorical)
        )
        log_ratio = model.log_ratio(candidates)
        score = log_ratio + situation.log_chance(candidates)
        found = first_allowed(space, candidates, score, _SCORE_DECIMALS, situation.is_new)
        if found is not None:
            reason = {
                "log_ratio": significant(float(log_ratio[found[0]])),
                "model_budget": model.budget,
                "model_points": model.n,
                "good_points": len(model.good.points),
            }
            return Proposal(found[1], Origin.MODEL, reason, "density")
    return Declined("no candidate allowed")


def _floor(x: float) -> int:
    """Return ⌊x⌋, forgiving the rounding of a product: 0.15·20 is 3."""
    return math.floor(x + 1e-9)
