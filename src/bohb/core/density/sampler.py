"""Algorithm 2: how BOHB samples a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.core.density import kde
from bohb.core.density.kde import Density, Weighed
from bohb.core.density.observations import Observations
from bohb.core.failures import Failures
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.core.trial import Origin
from bohb.errors import ForbiddenConfiguration

_TRIES = 16  # rounds of candidates before a proposal falls back to the prior
_ENUMERABLE = 20_000  # finite spaces up to this size are searched for what is left of them
Allowed = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration, and why it was chosen."""

    config: dict[str, Any]
    origin: Origin
    reason: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """The two densities of Eq. 2, fitted to the observations of one budget."""

    budget: float
    n: int
    good: Density  # l
    bad: Density  # g

    def log_ratio(self, X: kde.Array) -> kde.Array:
        """log l(x)/g(x), which grows with the expected improvement."""
        return self.good.log_density(X) - self.bad.log_density(X)

    def contenders(self, X: kde.Array) -> tuple[NDArray[np.intp], kde.Array]:
        """The rows of X that may have the highest ratio, and their log ratios: a rough look rules out the others."""
        good, bad = self.good.weigh(X), self.bad.weigh(X)
        (rough_good, good_error), (rough_bad, bad_error) = self.good.roughly(good), self.bad.roughly(bad)
        rough = rough_good - rough_bad
        rows = np.flatnonzero(rough >= rough.max() - 2 * (good_error + bad_error))
        good, bad = (Weighed(x.weights[rows], x.constant[rows]) for x in (good, bad))
        return rows, self.good.exactly(good) - self.bad.exactly(bad)


def min_points(space: Space, settings: Settings) -> int:
    """N_min: d + 1 unless the user says otherwise."""
    return space.d + 1 if settings.min_points is None else settings.min_points


def split(n: int, n_finite: int, n_min: int, settings: Settings) -> tuple[int, int]:
    """How many of n observations are good and how many are bad (Eq. 3).

    The good ones are the N_l best, the bad ones the N_g worst; the two overlap while observations are few. A failed
    evaluation is never good, so there may be fewer good ones than N_min.
    """
    n_good = min(max(n_min, _floor(settings.good_fraction * n)), n_finite)
    if settings.overlap:
        return n_good, max(n_min, n - n_good)
    return n_good, min(n - n_good, max(n_min, _floor((1 - settings.good_fraction) * n)))


def model_budget(observations: Mapping[float, Observations], n_min: int, settings: Settings) -> float | None:
    """The largest budget with N_min + 2 observations, one of them finite (Alg. 2, line 2); None if there is none."""
    needed = n_min + 2 if settings.overlap else 2 * n_min
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
        bandwidths = kde.scott(points, space.kernels, settings.min_bandwidth, unknown)
        return kde.fit(points, space.kernels, bandwidths, settings.boundary)

    return Model(budget, len(d_b), density(0, n_good), density(first_bad, first_bad + n_bad))


def propose(
    rng: np.random.Generator,
    space: Space,
    settings: Settings,
    model: Callable[[], Model | None],
    allowed: Allowed = lambda _: True,
    failures: Callable[[], Failures | None] = lambda: None,
) -> Proposal | None:
    """The next configuration to evaluate (Alg. 2).

    model: gives the current model, or None while there is none; called only if it is needed.
    allowed: says no to configurations that must not be proposed; None is returned if nothing else was found.
    failures: says where evaluations fail, or None while none did; called only if it is needed.
    """
    if rng.random() < settings.random_fraction:
        return propose_random(rng, space, allowed, failures(), "random fraction")
    return propose_by_density(rng, space, settings, model, allowed, failures)


def propose_by_density(
    rng: np.random.Generator,
    space: Space,
    settings: Settings,
    model: Callable[[], Model | None],
    allowed: Allowed,
    failures: Callable[[], Failures | None],
) -> Proposal | None:
    """The best of N_s candidates by l/g (Alg. 2, lines 2 to 6); a random configuration while there is no model."""
    current = model()
    if current is None:
        return propose_random(rng, space, allowed, failures(), "no model yet")
    for _ in range(_TRIES):
        candidates = space.snap(
            current.good.sample(rng, settings.num_samples, settings.bandwidth_factor, settings.widen_categorical)
        )
        proposal = _best(space, current, candidates, allowed, failures())
        if proposal is not None:
            return proposal
    return propose_random(rng, space, allowed, failures(), "no candidate allowed")


def propose_random(
    rng: np.random.Generator, space: Space, allowed: Allowed, failures: Failures | None, why: str
) -> Proposal | None:
    """A draw from the space's prior (Alg. 2, lines 1 and 3), drawn again where it is likely to fail."""
    for _ in range(_TRIES * 64):
        config = space.sample(rng)
        if allowed(config) and (failures is None or failures.accept(rng, space.encode(config))):
            return Proposal(config, Origin.RANDOM, {"why": why})
    left = [config for config in space.enumerate(_ENUMERABLE) if allowed(config)]
    return Proposal(left[rng.integers(len(left))], Origin.RANDOM, {"why": "few left"}) if left else None


def _best(
    space: Space, model: Model, candidates: kde.Array, allowed: Allowed, failures: Failures | None
) -> Proposal | None:
    """The allowed candidate with the highest l/g (Alg. 2, line 6), or None."""
    for index, log_ratio in _ranked(model, candidates, failures):
        try:
            config = space.decode(candidates[index])
        except ForbiddenConfiguration:
            continue
        if allowed(config):
            reason = {
                "log_ratio": log_ratio,
                "model_budget": model.budget,
                "model_points": model.n,
                "good_points": len(model.good.points),
            }
            return Proposal(config, Origin.MODEL, reason)
    return None


def _ranked(model: Model, candidates: kde.Array, failures: Failures | None) -> Iterator[tuple[int, float]]:
    """The candidates and their log l/g, best first.

    The best is nearly always taken, so the contenders for it are ranked first, and all only if none of them will do.
    """
    if failures is None:
        rows, log_ratio = model.contenders(candidates)
        for i in _descending(log_ratio):
            yield int(rows[i]), round(float(log_ratio[i]), 9)
    log_ratio = model.log_ratio(candidates)
    for i in _descending(log_ratio if failures is None else log_ratio + failures.log_chance(candidates)):
        yield int(i), round(float(log_ratio[i]), 9)


def _descending(score: kde.Array) -> NDArray[np.intp]:
    """Ties but for rounding are broken by the order of the candidates, so that another machine decides alike."""
    return np.argsort(-np.round(score, 9), kind="stable")


def _floor(x: float) -> int:
    """⌊x⌋ that forgives the rounding of a product: 0.15·20 is 3."""
    return math.floor(x + 1e-9)
