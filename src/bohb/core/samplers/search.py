"""The search for the configuration with the highest acquisition.

The best random candidates, mutations of the best configurations, and candidates very near to these follow the gradient
together, so that each step costs one batch; on the way, the worst are dropped. Then single hyperparameters of the best
points are changed, and the best of all points follow the gradient once more.

What is proposed must not depend on the last bits of linear algebra. So the coordinates of a step are rounded relative
to its length, and a step is taken only if the rounded score rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bohb.core.samplers.proposal import Declined, Proposal, Situation, descending, first_allowed, significant
from bohb.core.space import Array, Space
from bohb.core.space.scales import Categorical
from bohb.core.trial import Origin

Score = Callable[[Array], Array]
Rise = Callable[[Array], tuple[Array, Array]]  # the scores of vectors, and their slopes in the numbers

UNIFORM, MUTATIONS, NEAR = 200, 200, 40  # candidates from the prior, near the best, and very near the best
NEAR_WIDTH = 0.03  # of the last
STARTS = (20, 8, 8)  # candidates of each kind that follow the gradient
LEFT = (36, 36, 24, 16, 8, 8)  # how many are left in each step
AGAIN, LEFT_AGAIN = 8, (8, 8, 4, 4, 4)  # points that follow it once more, and how many are left in each step
CHANGED, CHANGES, VALUES = 3, 60, 2  # points with changes, most changes of each, and random values of a number
APART, SAME = 0.1, 0.01  # the least distance between starts and between points on their way, in some hyperparameter
FIRST_STEPS = 0.004, 0.1  # the shortest and the longest first step
STEP = 0.2  # the longest step after one that improved the score
PARTS = 32  # of a step, to which its coordinates are rounded
LOCAL, WIDTHS = 100, (0.08, 0.025)  # candidates of each round of local steps without a gradient, and their widths
SCORE_DECIMALS = 6  # candidates that differ by less count as equal
_WIDTH_DECIMALS = 12  # of mutations; rounding hides the last bits, in which mathematical libraries differ
_BLOCK = 128  # candidates that are scored at a time, so that they stay in the processor's cache
_LEAST = 1e-300  # instead of 0 where it would be divided by


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
    rise: Rise | None = None,
) -> Proposal | Declined:
    """Return the best allowed configuration that is found.

    rise: the acquisition with its slopes; without it, random local steps take the place of the gradient.
    """
    space = situation.space
    score_of = scorer(acquisition, situation)
    drawn = space.draw(rng, UNIFORM)
    if space.has_prior:
        n_uniform = round((1 - situation.prior_weight) * UNIFORM)
        drawn[:n_uniform] = space.draw(rng, n_uniform, uniform=True)
    X = np.vstack([drawn, mutations(rng, space, acquisition.parents, MUTATIONS), acquisition.earlier])
    if rise is not None:
        X = np.vstack([X, mutations(rng, space, acquisition.parents, NEAR, NEAR_WIDTH)])
        X, score = _followed(rng, acquisition.parents, situation, score_of, rise, X)
    else:
        X, score = _scattered(rng, space, score_of, X)
    found = first_allowed(space, X, score, SCORE_DECIMALS, is_new)
    if found is None:
        return Declined("no candidate allowed")
    i, config = found
    x, by_prior, more = X[i : i + 1], 0.0, {}
    if space.has_prior:
        by_prior = float(log_prior(space, x, situation.prior_weight)[0])
        more = {"log_prior": significant(by_prior), "prior_weight": significant(situation.prior_weight)}
    return Proposal(config, Origin.MODEL, acquisition.reason(x, float(score[i]) - by_prior, more), "process")


def scorer(acquisition: Acquisition, situation: Situation) -> Score:
    """Return the function that a proposal maximises, rounded so that machines agree."""

    def score(X: Array) -> Array:
        blocks = (X[i : i + _BLOCK] for i in range(0, len(X), _BLOCK))
        return _scored(np.concatenate([acquisition.log_improvement(block) for block in blocks]), X, situation)

    return score


def _scored(log_improvement: Array, X: Array, situation: Situation) -> Array:
    """Return what a proposal maximises, given the acquisition of every row of X."""
    prior = log_prior(situation.space, X, situation.prior_weight) if situation.space.has_prior else 0.0
    return np.round(log_improvement + prior + situation.log_chance(X), SCORE_DECIMALS)


def _scattered(rng: np.random.Generator, space: Space, score_of: Score, X: Array) -> tuple[Array, Array]:
    """Return the candidates X, rounds of random local steps from the best, and all scores."""
    score = score_of(X)
    for width in WIDTHS:
        steps = mutations(rng, space, X[descending(score, SCORE_DECIMALS)[:5]], LOCAL, width)
        X, score = np.vstack([X, steps]), np.concatenate([score, score_of(steps)])
    return X, score


def _followed(
    rng: np.random.Generator, parents: Array, situation: Situation, score_of: Score, rise: Rise, X: Array
) -> tuple[Array, Array]:
    """Return the candidates X, the points that are reached from them, and all scores."""
    space, score = situation.space, score_of(X)

    def scored_rise(X: Array) -> tuple[Array, Array]:
        log_improvement, slopes = rise(X)
        return _scored(log_improvement, X, situation), slopes

    ends = (0, UNIFORM, len(X) - NEAR, len(X))
    starts = [
        low + i
        for low, high, most in zip(ends, ends[1:], STARTS, strict=False)
        for i in apart(X[low:high], score[low:high], APART, most)
    ]
    for left in (LEFT, LEFT_AGAIN):
        reached, its_score = climb(scored_rise, space, X[starts], left, _first_steps(X[starts], parents))
        changed = changes(rng, space, reached[:CHANGED])
        X = np.vstack([reached, X, changed])
        score = np.concatenate([its_score, score, score_of(changed)])
        starts = apart(X, score, APART, AGAIN)
    return X, score


def apart(X: Array, score: Array, distance: float, most: int) -> list[int]:
    """Return the rows of X with the highest scores that differ by more than a distance in some hyperparameter."""
    order = np.array(descending(score, SCORE_DECIMALS)[: 3 * most])
    farthest = np.zeros((len(order), len(order)))
    for column in X[order].T:
        np.fmax(farthest, np.abs(column[:, None] - column), out=farthest)
    kept: list[int] = []
    left = np.ones(len(order), dtype=bool)
    for i in range(len(order)):
        if left[i]:
            kept.append(i)
            left &= farthest[i] > distance
    return [int(i) for i in order[kept[:most]]]


def _first_steps(X: Array, parents: Array) -> Array:
    """Return the length of the first step from every row of X: half the distance to the nearest of the parents."""
    nearest = np.fmax.reduce(np.abs(X[:, None] - parents), axis=2).min(axis=1)
    return np.asarray(np.clip(nearest / 2, *FIRST_STEPS))


def climb(rise: Rise, space: Space, X: Array, left: tuple[int, ...], reach: Array) -> tuple[Array, Array]:
    """Follow the gradient from every row of X by steps of BFGS; return the points, best first, and their scores.

    left: the number of points in each step.
    reach: the longest first step of each.
    """
    score, slopes = rise(X)
    curvature, fresh = np.tile(np.eye(space.d), (len(X), 1, 1)), np.ones(len(X), dtype=bool)
    for n in left:
        if n < len(X):
            best = apart(X, score, SAME, n)
            X, score, slopes, curvature, fresh, reach = (
                part[best] for part in (X, score, slopes, curvature, fresh, reach)
            )
        step = _step(X, slopes, curvature, reach, fresh)
        at = _filled(space, X)
        tried = space.snap(np.where(space.choices > 0, at, np.clip(at + step, 0, 1)))
        then, its_slopes = rise(tried)
        _learn(curvature, fresh, np.nan_to_num(tried - X), slopes - its_slopes)
        better = then > score
        reach = np.where(better, STEP, np.abs(step).max(axis=1) / 4)
        X, slopes = np.where(better[:, None], tried, X), np.where(better[:, None], its_slopes, slopes)
        score = np.maximum(score, then)
    best = descending(score, SCORE_DECIMALS)
    return X[best], score[best]


def _step(X: Array, slopes: Array, curvature: Array, reach: Array, fresh: NDArray[np.bool_]) -> Array:
    """Return the next step from every row of X; the first of each is as long as `reach`, others are at most so."""
    stuck = ((X <= 0) & (slopes < 0)) | ((X >= 1) & (slopes > 0))
    step = np.einsum("ijk,ik->ij", curvature, np.where(stuck, 0.0, slopes))
    step = np.where(stuck, 0.0, step)
    longest = np.maximum(np.abs(step).max(axis=1), _LEAST)
    length = np.where(fresh, reach, np.minimum(reach, np.maximum(longest, 1e-9)))
    length = 2.0 ** np.round(np.log2(np.maximum(length, 1e-9)))
    return np.asarray(np.round(step * (PARTS / longest)[:, None]) * (length / PARTS)[:, None])


def _learn(curvature: Array, fresh: NDArray[np.bool_], steps: Array, bends: Array) -> None:
    """Update the inverse curvatures, (n, d, d), by what the steps did to the slopes (BFGS)."""
    products = (steps * bends).sum(axis=1)
    rows = np.flatnonzero(products > 1e-10)
    s, y, rho = steps[rows], bends[rows], 1 / products[rows]
    scale = np.where(fresh[rows], products[rows] / np.maximum((y**2).sum(axis=1), _LEAST), 1.0)
    H = curvature[rows] * scale[:, None, None]
    Hy = np.einsum("ijk,ik->ij", H, y)
    half = s[:, :, None] * (0.5 * (rho + rho**2 * (y * Hy).sum(axis=1))[:, None] * s - rho[:, None] * Hy)[:, None, :]
    curvature[rows] = H + half + half.transpose(0, 2, 1)
    fresh[rows] = False


def changes(rng: np.random.Generator, space: Space, X: Array) -> Array:
    """Return the rows of X with one hyperparameter changed: to a choice, an end of its range, or a random value."""
    values = [
        scale.possible if isinstance(scale, Categorical) else np.concatenate([[0.0, 1.0], rng.random(VALUES)])
        for scale in space.dimensions
    ]
    owner, value = np.repeat(np.arange(space.d), list(map(len, values))), np.concatenate(values)
    some = rng.permutation(len(owner))[:CHANGES]
    changed = np.repeat(_filled(space, X), len(some), axis=0)
    changed[np.arange(len(changed)), np.tile(owner[some], len(X))] = np.tile(value[some], len(X))
    return space.snap(changed)


def _filled(space: Space, X: Array) -> Array:
    """Return X with a value for every inactive hyperparameter, which may become active."""
    return np.where(np.isnan(X), np.where(space.choices > 0, 0.0, 0.5), X) if space.conditional else X


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
