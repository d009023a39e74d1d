"""Proposals with several objectives or constraints: one Gaussian process for each of them.

The candidate with the highest expected improvement of the dominated hypervolume is proposed, times the probability that
it keeps the constraints. With one objective this is constrained expected improvement; with more than three, the
hypervolume is replaced by a random augmented Chebyshev scalarisation per proposal. While nothing is likely to be
feasible, the probability counts alone. The processes are independent given the configuration.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp

from bohb.core import order
from bohb.core.events import ObservationAdded
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.samplers import targets
from bohb.core.samplers.gaussian import (
    PARENTS,
    POINTS,
    GaussianSampler,
    Merit,
    Surrogate,
    log_expected_improvement,
)
from bohb.core.samplers.proposal import Declined, Proposal, Situation, first_allowed, significant
from bohb.core.samplers.search import SCORE_DECIMALS, search
from bohb.core.samplers.targets import Quantity, Results, Targets, quantities
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, Outcome

LIKELY = 0.5  # the probability from which an observed configuration counts as feasible
FEWEST = 8  # results that determine the units of objectives
LIKELY_DRAWS = 200  # random configurations among which one that is likely to be feasible is looked for
UNFILTERED = 1 / 3  # of the random configurations are drawn without looking for a feasible one
MOST_FRONT = {2: 30, 3: 10}  # points of the front that the expected hypervolume is computed for
_MARGIN = 0.1  # of the front's range, between its worst losses and the reference point
_SAMPLES = 64  # of the scalarised losses, whose mean and deviation are used
_CONFIGURATIONS = 300  # the last ones, among which the front is looked for, besides those on the observed front
_AUGMENTED = 0.05  # the weight of the sum in the augmented Chebyshev scalarisation


class Bound(NamedTuple):
    """A constraint on a value that a process models, on the process's scale."""

    process: Surrogate
    bound: float
    upper: bool


class Weights(NamedTuple):
    """A random augmented Chebyshev scalarisation, and standard normal numbers to take its moments with."""

    weights: Array  # (m,)
    normal: Array  # (samples, m)

    def scalarised(self, losses: Array) -> Array:
        """Return the scalarisation of losses relative to the ideal point, (…, m)."""
        weighted = losses * self.weights
        return np.asarray(weighted.max(axis=-1) + _AUGMENTED * weighted.sum(axis=-1))


@dataclass(frozen=True, slots=True)
class Surrogates:
    """The processes of a study, and what a proposal needs from their data.

    objectives: the processes of the objectives that differ at all, and `quantities`, what they model.
    bounds: the constraints that values may break.
    front: the expected losses of the best configurations that are likely to be feasible, (k, m); none if k is 0.
    reference: the point up to which hypervolume counts.
    weights: the scalarisation if there are more than three objectives.
    """

    objectives: tuple[Surrogate, ...]
    quantities: tuple[Quantity, ...]
    bounds: tuple[Bound, ...]
    front: Array
    reference: Array
    weights: Weights | None
    parents: Array
    earlier: Array

    def log_improvement(self, X: Array) -> Array:
        """Return log (expected improvement · P(feasible)) of every row of X on the largest budget."""
        score = self.log_chance(X)
        if not len(self.front):
            return score
        mean, deviation = np.stack([process.predict(X) for process in self.objectives], axis=-1)
        if self.weights is not None:
            score = score + self._log_scalarised(self.weights, mean, deviation)
        else:
            lower, upper = order.cells(self.front, self.reference)
            score = score + log_hypervolume_improvement(mean, deviation, lower, upper)
        # A configuration is on a known plateau only if it is so in every objective.
        return np.asarray(score + np.max([process.log_new(X) for process in self.objectives], axis=0))

    def log_chance(self, X: Array) -> Array:
        """Return log P(all constraints are kept, measurement noise included) for every row of X."""
        return log_chance(self.bounds, X)

    def _log_scalarised(self, weights: Weights, mean: Array, deviation: Array) -> Array:
        """Return log EI of the scalarised losses, which are taken as normal with the moments of samples."""
        ideal = self.front.min(axis=0)
        unit = self.reference - ideal
        best = float(weights.scalarised((self.front - ideal) / unit).min())
        drawn = (mean[:, None, :] + deviation[:, None, :] * weights.normal - ideal) / unit
        losses = weights.scalarised(drawn)  # (n, samples)
        centre, spread = losses.mean(axis=1), np.maximum(losses.std(axis=1), 1e-9)
        return np.asarray(log_expected_improvement((best - centre) / spread) + np.log(spread))

    def reason(self, x: Array, score: float, more: Mapping[str, object]) -> dict[str, object]:
        """Return what the processes expected of x, (1, d), in the user's signs."""
        expected, deviations = {}, {}
        for quantity, process in zip(self.quantities, self.objectives, strict=True):
            mean, deviation = process.predict(x)
            losses = [
                quantity.loss(process.loss(float(y))) for y in (mean[0], mean[0] - deviation[0], mean[0] + deviation[0])
            ]
            objective = quantity.objective
            assert objective is not None
            expected[objective.name] = objective.loss(significant(losses[0], 6))
            deviations[objective.name] = significant(targets.bounded((losses[2] - losses[1]) / 2))
        found: dict[str, object] = {"log_improvement": significant(score), "expected": expected}
        found |= {"deviations": deviations, "model_points": len(self.objectives[0].targets.y), "front": len(self.front)}
        if self.bounds:
            found["chance"] = significant(math.exp(float(self.log_chance(x)[0])))
        return {**found, **more}


class SeveralSampler:
    """The Gaussian processes of a study with several objectives or constraints."""

    def __init__(self, space: Space, goals: Goals) -> None:
        self._space, self._goals = space, goals
        self._quantities: Sequence[Quantity] = ()  # until there are results that determine their units
        self._samplers: list[GaussianSampler] = []

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose the candidate of highest acquisition that is neither known nor running."""
        found = self.surrogates(rng, situation.history)
        if found is None:
            return Declined("no model yet")
        return search(rng, found, self._samplers[0].is_new(situation), situation)

    def propose_likely(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Draw from the prior until a configuration is likely to keep the constraints, for some of the random draws.

        If none of LIKELY_DRAWS is likely, the one with the highest probability is returned.
        """
        if not self._goals.constraints or rng.random() < UNFILTERED:
            return Declined("no filter")
        found = self.surrogates(rng, situation.history)
        if found is None or not found.bounds:
            return Declined("no model yet")
        X = situation.space.draw(rng, LIKELY_DRAWS)
        chance = np.exp(found.log_chance(X))
        is_new = self._samplers[0].is_new(situation)
        likely = first_allowed(situation.space, X, np.minimum(chance, LIKELY), SCORE_DECIMALS, is_new)
        if likely is not None:
            reason = {"why": "random fraction", "chance": significant(float(chance[likely[0]]))}
            return Proposal(likely[1], Origin.RANDOM, reason)
        return Declined("no candidate allowed")

    def surrogates(self, rng: np.random.Generator, history: History) -> Surrogates | None:
        """Return the processes given all results; None while there are too few, or if all first losses are equal."""
        if not self._samplers:
            self._begin(history)
        merit = self._merit(history) if len(history.outcomes) > POINTS else None
        processes = (sampler.surrogate(history, merit) for sampler in self._samplers)
        known = list(zip(self._quantities, processes, strict=True))
        if not known or known[0][1] is None:
            return None
        modelled = [(quantity, process) for quantity, process in known if process is not None]
        named = [(quantity, process) for quantity, process in modelled if quantity.objective]
        objectives = tuple(process for _, process in named)
        bounds = tuple(
            Bound(process, process.standardised(bound), upper)
            for quantity, process in modelled
            for bound, upper in quantity.bounds
        )
        X = self._configurations(history)
        losses = np.stack([np.round(p.process.mean(p.embedding(X), 0), SCORE_DECIMALS) for p in objectives], axis=1)
        chance = np.exp(log_chance(bounds, X))
        unlikely = np.where(chance >= LIKELY, 0.0, np.round(1 - chance, SCORE_DECIMALS))
        best_first = order.ranked(np.column_stack([unlikely, losses]))
        front, m = _front(losses[unlikely == 0]), len(objectives)
        weights = None
        if m > max(MOST_FRONT):
            weights = Weights(np.round(rng.dirichlet(np.ones(m)), 9), rng.standard_normal((_SAMPLES, m)))
        return Surrogates(
            objectives,
            tuple(quantity for quantity, _ in named),
            bounds,
            front,
            _reference(front, losses),
            weights,
            X[best_first[:PARENTS]],
            objectives[0].earlier,
        )

    def _begin(self, history: History) -> None:
        """Make the processes, once the results are known that determine the units of what they model."""
        every: list[Outcome | ObservationAdded] = [*history.observed, *history.outcomes.values()]
        results = [result for result in every if result.loss is not None]
        if len(results) >= FEWEST:
            self._quantities = quantities(self._goals, results[:FEWEST])
            self._samplers = [GaussianSampler(self._space, quantity) for quantity in self._quantities]

    def _merit(self, history: History) -> Merit:
        """Return how to choose the results that the processes are given: all of them the same, the best levels first.

        If each process were given its own lowest losses, none would know about the other end of the front.
        """
        numbers: dict[float, list[int]] = {}
        for number in history.outcomes:
            numbers.setdefault(history.trials[number].budget, []).append(number)
        rungs = history.budgets
        found: dict[tuple[bytes, int], float] = {}
        for budget, those in numbers.items():
            below = int(targets.rungs_below(np.array([budget]), rungs)[0])
            for number, level in history.order.levels(those).items():
                found[self._space.encode(history.trials[number].config).tobytes(), below] = level

        def merit(results: Results, own: Targets) -> Array:
            keys = (vector.tobytes() for vector in results.vectors(own.rows))
            return np.array([found.get(key, math.inf) for key in zip(keys, own.below.tolist(), strict=True)])

        return merit

    def _configurations(self, history: History) -> Array:
        """Return the vectors of the configurations that were evaluated or are running, each once."""
        rows = dict.fromkeys(trial.config_id for trial in history.trials.values())
        recent = list(rows)[-_CONFIGURATIONS:]
        leading = sorted(history.leading - set(recent))
        return np.array([self._space.encode(history.trials[n].config) for n in [*leading, *recent]])


def log_chance(bounds: Sequence[Bound], X: Array) -> Array:
    """Return log P(all bounds are kept, measurement noise included) for every row of X."""
    total = np.zeros(len(X))
    for surrogate, bound, upper in bounds:
        process = surrogate.process
        mean, deviation = process.predict(process.similarity(surrogate.embedding(X)))
        z = (bound - mean) / np.sqrt(deviation**2 + math.exp(process.kernel.noises[0]))
        total += log_ndtr(z if upper else -z)
    return total


def _front(losses: Array) -> Array:
    """Return the distinct losses that no others dominate; so few that their hypervolume is computed quickly."""
    front = np.unique(losses[order.first_front(losses)], axis=0)
    most = MOST_FRONT.get(losses.shape[1], 100)
    return front[order.epsilon_net(front)[:most]]


def _reference(front: Array, losses: Array) -> Array:
    """Return the reference point: a tenth of its range beyond the front, and no better than the median of all results.

    The ends of a front that is still short can then be improved by results far from it.
    """
    if not len(front):
        return np.asarray(np.median(losses, axis=0))
    low, high = front.min(axis=0), front.max(axis=0)
    beyond = high + _MARGIN * np.where(high > low, high - low, 1.0)
    return np.asarray(np.maximum(beyond, np.median(losses, axis=0)))


def log_hypervolume_improvement(mean: Array, deviation: Array, lower: Array, upper: Array) -> Array:
    """Return the logarithm of the expected improvement of the hypervolume.

    The dominated part of a box between `lower` and `upper` has the volume Π (u − max(l, y))⁺, whose expectation is a
    product of differences of one-dimensional expected improvements, as losses are independent.

    mean, deviation: of the losses of each candidate, (n, m).
    lower, upper: the corners of the boxes that the front does not dominate, (b, m).
    """
    total = np.zeros((len(mean), len(lower)))
    for j in range(mean.shape[1]):
        levels, place = np.unique(np.concatenate([lower[:, j], upper[:, j]]), return_inverse=True)
        finite = np.isfinite(levels)
        log_ei = np.full((len(mean), len(levels)), -np.inf)
        z = (levels[finite] - mean[:, j : j + 1]) / deviation[:, j : j + 1]
        log_ei[:, finite] = log_expected_improvement(z) + np.log(deviation[:, j : j + 1])
        low, high = log_ei[:, place[: len(lower)]], log_ei[:, place[len(lower) :]]
        with np.errstate(divide="ignore"):
            total += high + np.log1p(-np.exp(np.minimum(low - high, 0.0)))
    return np.asarray(np.maximum(logsumexp(total, axis=1), -1e6))
