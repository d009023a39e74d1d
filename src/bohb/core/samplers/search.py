"""The search for the candidate with the highest acquisition: random candidates, mutations and local steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from bohb.core.samplers.proposal import Declined, Proposal, Situation, descending, first_allowed, significant
from bohb.core.space import Array, Space
from bohb.core.trial import Origin

UNIFORM, MUTATIONS, LOCAL = 200, 200, 100  # candidates from the prior, near the best, and near the best candidates
WIDTHS = (0.08, 0.025)  # of the local steps, one round each
SCORE_DECIMALS = 6  # candidates that differ by less count as equal
_WIDTH_DECIMALS = 12  # of mutations; rounding hides the last bits, in which mathematical libraries differ


class Acquisition(Protocol):
    """What a proposal maximises: the logarithm of an expected improvement."""

    @property
    def parents(self) -> Array:
        """The vectors of the best observed configurations, best first, which are mutated."""
        ...

    @property
    def earlier(self) -> Array:
        """The best configurations of earlier studies, which are candidates themselves."""
        ...

    def log_improvement(self, X: Array) -> Array:
        """Return the score of every row of X."""
        ...

    def reason(self, x: Array, score: float, more: Mapping[str, object]) -> dict[str, object]:
        """Return the numbers behind the choice of x, (1, d), to be stored with it."""
        ...


def search(
    rng: np.random.Generator,
    acquisition: Acquisition,
    is_new: Callable[[Mapping[str, Any]], bool],
    situation: Situation,
) -> Proposal | Declined:
    """Score random candidates, mutations of the best configurations and two rounds of local steps."""
    space = situation.space
    score_of = scorer(acquisition, situation)
    drawn = space.draw(rng, UNIFORM)
    if space.has_prior:
        n_uniform = round((1 - situation.prior_weight) * UNIFORM)
        drawn[:n_uniform] = space.draw(rng, n_uniform, uniform=True)
    X = np.vstack([drawn, mutations(rng, space, acquisition.parents, MUTATIONS), acquisition.earlier])
    score = score_of(X)
    for width in WIDTHS:
        steps = mutations(rng, space, X[descending(score, SCORE_DECIMALS)[:5]], LOCAL, width)
        X, score = np.vstack([X, steps]), np.concatenate([score, score_of(steps)])
    found = first_allowed(space, X, score, SCORE_DECIMALS, is_new)
    if found is None:
        return Declined("no candidate allowed")
    i, config = found
    x, by_prior, more = X[i : i + 1], 0.0, {}
    if space.has_prior:
        by_prior = float(log_prior(space, x, situation.prior_weight)[0])
        more = {"log_prior": significant(by_prior), "prior_weight": significant(situation.prior_weight)}
    return Proposal(config, Origin.MODEL, acquisition.reason(x, float(score[i]) - by_prior, more), "process")


def scorer(acquisition: Acquisition, situation: Situation) -> Callable[[Array], Array]:
    """Return the function that a proposal maximises, rounded so that machines agree."""
    space = situation.space

    def score(X: Array) -> Array:
        prior = log_prior(space, X, situation.prior_weight) if space.has_prior else 0.0
        return np.round(acquisition.log_improvement(X) + prior + situation.log_chance(X), SCORE_DECIMALS)

    return score


def log_prior(space: Space, X: Array, weight: float) -> Array:
    """Return what the prior adds to log EI: weight · log(weight · π(x) + 1 − weight), with π relative to uniform.

    This is the density of random configurations with a decaying exponent (Hvarfner et al. 2022). The uniform part
    bounds what a prior can subtract, so that it does not exclude the optimum.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(weight * np.logaddexp(np.log(weight) + space.log_prior(X), np.log1p(-weight)))


def mutations(rng: np.random.Generator, space: Space, parents: Array, n: int, width: float | None = None) -> Array:
    """Return n legal vectors, each a parent with some coordinates changed: numbers by a normal step, choices anew.

    width: of the steps; None draws it between 0.02 and 0.5 for each vector.
    """
    d = space.d
    fresh = space.draw(rng, n, snapped=False)
    chosen = parents[rng.integers(len(parents), size=n)]
    chosen = np.where(np.isnan(chosen), fresh, chosen)  # an inactive coordinate may become active
    change = rng.random((n, d)) < max(0.3, 1 / d) if width is None else rng.random((n, d)) < max(0.5, 1 / d)
    change[np.arange(n), rng.integers(d, size=n)] = True
    if width is None:
        widths = np.round(np.exp(rng.uniform(math.log(0.02), math.log(0.5), (n, 1))), _WIDTH_DECIMALS)
    else:
        widths = np.full((n, 1), width)
    moved = np.clip(chosen + widths * rng.standard_normal((n, d)), 0, 1)
    if width is not None:  # small steps change few choices
        change &= (space.choices == 0) | (rng.random((n, d)) < 0.3)
    return space.snap(np.where(change, np.where(space.choices > 0, fresh, moved), chosen))
