"""The interface of all samplers: `propose(rng, situation)` returns a `Proposal`, or `Declined` with the reason.

`Samplers` draws the share ρ of random configurations, and falls back to the prior where a sampler declines.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from bohb.core.history import History
from bohb.core.samplers import kde
from bohb.core.samplers.kde import Array, Density
from bohb.core.settings import Settings
from bohb.core.space import Space
from bohb.core.space.scales import Coordinates
from bohb.core.streams import spread_point
from bohb.core.trial import Explains, Origin
from bohb.errors import ForbiddenConfiguration

TRIES = 16  # rounds of candidates before a sampler declines
PRIOR_RESULTS = 10  # after which the user's prior counts half in a study with the Gaussian process
SPREAD = 64  # first trials of a study with the Gaussian process, whose random configurations are spread evenly
_RANDOM_TRIES = 1024  # random configurations that may be known or likely to fail
_ENUMERABLE = 20_000  # finite spaces up to this size are searched for what is left of them
_FLOOR = 0.1  # the least probability with which a random configuration is accepted


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration, and why it was chosen.

    explains: what explains it; None if it was drawn at random or given by the user.
    reason: the numbers behind it.
    """

    config: dict[str, Any]
    origin: Origin
    reason: dict[str, Any] = field(default_factory=dict)
    explains: Explains | None = None


@dataclass(frozen=True, slots=True)
class Declined:
    """A sampler has nothing to propose; `why` is stored with the random configuration that takes its place."""

    why: str


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
        return bool(rng.random() < max(_FLOOR, np.exp(self.log_chance(vector[None, :])[0])))


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


@dataclass(frozen=True, slots=True)
class Situation:
    """What a sampler decides from; read-only.

    history: the whole study; the properties and methods below are what most samplers need from it.
    budget: the budget that the configuration will be evaluated on first.
    is_new: whether a configuration may be proposed; in a finite space none is evaluated twice on one budget.
    failures: where evaluations fail, or None while none did.
    spread: the place of a random configuration in the study's Sobol sequence; None if it is drawn by itself.
    """

    history: History
    budget: float
    is_new: Callable[[Mapping[str, Any]], bool]
    failures: Failures | None
    spread: int | None = None

    @property
    def space(self) -> Space:
        """The search space; it turns configurations into vectors and back."""
        return self.history.space

    @property
    def settings(self) -> Settings:
        """The study's settings."""
        return self.history.settings

    @property
    def budgets(self) -> tuple[float, ...]:
        """The study's budgets, ascending."""
        return self.history.budgets

    @property
    def prior_weight(self) -> float:
        """How much the user's prior counts, from 1 at first towards 0; always 1 without the Gaussian process.

        With a process, it is the share of random configurations that are drawn from the prior instead of uniformly,
        and the exponent of the prior in the process's score. A wrong prior then loses its influence.
        """
        if not self.space.has_prior or self.settings.explains != "process":
            return 1.0
        return PRIOR_RESULTS / (PRIOR_RESULTS + len(self.history.outcomes))

    @property
    def pending(self) -> Array:
        """The vectors of the trials that have not finished, (n, d)."""
        vectors = [self.space.encode(trial.config) for trial in self.history.pending.values()]
        return np.array(vectors).reshape(-1, self.space.d)

    def observations(self, budget: float) -> tuple[Array, Array]:
        """Return vectors (n, d) and losses (n,) on a budget, best first; a failed evaluation has the loss +inf.

        A coordinate lies in [0, 1], is the index of a choice, or is NaN where the hyperparameter is inactive.
        """
        d_b = self.history.evidence.observations.get(budget)
        if d_b is None:
            return np.empty((0, self.space.d)), np.empty(0)
        return d_b.ranked(0, len(d_b)), d_b.losses.copy()

    def largest_budget(self, n: int) -> float | None:
        """Return the largest budget of the study on which at least n evaluations have a loss, or None."""
        known = self.history.evidence.observations
        enough = (b for b, d_b in known.items() if d_b.n_finite >= n and b <= self.budgets[-1])
        return max(enough, default=None)

    def log_chance(self, X: Array) -> Array:
        """Return log P(an evaluation succeeds) for every row of X; 0 while none failed."""
        return np.zeros(len(X)) if self.failures is None else self.failures.log_chance(X)


class Proposer(Protocol):
    """A sampler: the density, a Gaussian process, or a user's function."""

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose a configuration."""
        ...


def propose_random(rng: np.random.Generator, situation: Situation, why: str) -> Proposal | None:
    """Draw from the space's prior (Alg. 2, lines 1 and 3), again where evaluations are likely to fail.

    The share 1 − `prior_weight` is drawn uniformly. With a process, the first draws are spread evenly, each by itself
    as random as the others. Return None if a finite space has nothing new left.
    """
    space, failures = situation.space, situation.failures
    weight = situation.prior_weight if space.has_prior else 1.0
    for attempt in range(_RANDOM_TRIES):
        uniform = weight < 1 and rng.random() >= weight
        try:
            if attempt or situation.spread is None:
                config = space.sample(rng, uniform)
            else:
                point = spread_point(situation.history.study.seed, situation.spread, space.d)
                config = space.decode(space.at_quantiles(point, uniform)[0])
        except ForbiddenConfiguration:
            continue
        if situation.is_new(config) and (failures is None or failures.accept(rng, space.encode(config))):
            return Proposal(config, Origin.RANDOM, {"why": why, "uniform": True} if uniform else {"why": why})
    left = [config for config in space.enumerate(_ENUMERABLE) if situation.is_new(config)]
    return Proposal(left[rng.integers(len(left))], Origin.RANDOM, {"why": "few left"}) if left else None


def first_allowed(
    space: Space, X: Array, score: Array, decimals: int, is_new: Callable[[Mapping[str, Any]], bool]
) -> tuple[int, dict[str, Any]] | None:
    """Return the row of X with the highest score that is neither forbidden nor known, and its configuration."""
    for i in descending(score, decimals):
        try:
            config = space.decode(X[i])
        except ForbiddenConfiguration:
            continue
        if is_new(config):
            return i, config
    return None


def descending(score: Array, decimals: int) -> list[int]:
    """Return the indices of scores, highest first.

    Scores are rounded before they are compared, and ties are broken by the order of the candidates: linear algebra
    rounds differently on other machines, which must not decide.
    """
    order: list[int] = np.argsort(-np.round(score, decimals), kind="stable").tolist()
    return order


def significant(x: float, digits: int = 4) -> float:
    """Round a number of a reason to significant digits, so that it is the same on other machines."""
    return float(f"{x:.{digits}g}")
