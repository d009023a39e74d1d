"""Proposals by the Gaussian process: the candidate with the highest expected improvement on the largest budget.

Whatever happens, there is a proposal: where the process has too few results or cannot be fitted, the density is asked
in its place (Algorithm 2), and where that cannot answer either, the prior.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.special import erfcx, log_ndtr, ndtr

from bohb.core.density.sampler import Allowed, Proposal
from bohb.core.failures import Failures
from bohb.core.gp import targets
from bohb.core.gp.process import Embedding, Kernel, Process, fit, prior
from bohb.core.gp.targets import Results, Targets
from bohb.core.history import History
from bohb.core.settings import Settings
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, Trial
from bohb.errors import ForbiddenConfiguration

POINTS = 200  # observations that the process is conditioned on …
FIT_POINTS = 150  # … and that its hyperparameters are fitted to
STEPS = 12  # of L-BFGS per fit
AFRESH = 8  # every so many fits the search starts from the prior again, not from the fit before
UNIFORM, MUTATIONS, LOCAL = 200, 200, 100  # candidates from the prior, near the best, and near the best candidates
PARENTS = 10  # the best configurations that are mutated
WIDTHS = (0.08, 0.025)  # of the local steps, one round each
ON_PLATEAU = 1e6  # taken off the score of a candidate whose loss is known already
SCORE_DIGITS = 6  # candidates that differ by less count as equal, so that another machine decides alike


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted process, and what a proposal needs of the data behind it.

    best: the lowest expected loss on the largest budget among the configurations seen so far, or imagined.
    parents: their vectors, the most promising first.
    plateaus: per configuration, how alike it a candidate must be to share its loss; 1 for those on no plateau.
    """

    process: Process
    embedding: Embedding
    targets: Targets
    best: float
    parents: Array
    plateaus: Array
    penalised: Array  # points of running trials, where they are penalised

    def loss(self, y: float) -> float:
        """A standardised loss as the user knows it, of the largest budget."""
        return _rounded(y * self.targets.spread + self.targets.centre)

    def log_improvement(self, X: Array) -> Array:
        """log EI of every row of X on the largest budget, less near running trials if that is how they count."""
        points = self.embedding(X)
        alike = self.process.alike(points)
        mean, deviation = self.process.predict(alike)
        deviation = np.minimum(deviation, self._deviation_of_a_neighbour(alike.max(axis=1)))
        score = log_expected_improvement((self.best - mean) / deviation) + np.log(deviation)
        if (self.plateaus < 1).any():
            score[(alike[:, : len(self.plateaus)] > self.plateaus).any(1)] -= ON_PLATEAU
        if len(self.penalised):
            score = score + self._penalty(points)
        return score

    def _deviation_of_a_neighbour(self, alike: Array) -> Array:
        """What would be left to learn at a candidate if the loss of the configuration most like it were known.

        That one can be promoted; a copy of it, however uncertain its loss may be, is worth no more.
        """
        variance = math.exp(self.process.kernel.variance) * (1 - alike**2)
        return np.sqrt(np.maximum(variance, 1e-10))

    def _penalty(self, points: Array) -> Array:
        """González et al. (2016): log P(x is outside the ball in which each running trial makes others pointless).

        The ball reaches as far as the loss can fall from what is expected at its centre to the best, by the steepest
        slope that the kernel's lengths make likely.
        """
        mean, deviation = self.process.predict(self.process.alike(self.penalised))
        steepest = 1 / float(np.exp(self.process.kernel.lengths).min())
        apart = np.sqrt(((points[:, None, :] - self.penalised) ** 2).sum(2))  # (n, running)
        z = (steepest * apart - (mean - self.best)) / deviation
        return np.asarray(log_ndtr(z).sum(1))


class GaussianSampler:
    """The sampler of one study. It remembers its fits; all it decides follows from the history and the generator."""

    def __init__(self, space: Space, settings: Settings) -> None:
        self._space, self._settings = space, settings
        self._embedding = Embedding(space, settings.inactive)
        self._results = Results(space.d)
        self._fits: dict[tuple[int, float], Kernel] = {}  # (how many fits came before, largest budget) -> fit

    def propose(
        self, rng: np.random.Generator, history: History, allowed: Allowed, failures: Failures | None
    ) -> Proposal | None:
        """A configuration, or None if the process has nothing to say."""
        try:
            surrogate = self.surrogate(history)
        except LinAlgError:
            return None
        if surrogate is None:
            return None
        running = {history.key(trial.config) for trial in history.pending.values()}
        return self._search(rng, surrogate, lambda config: self._is_new(config, running) and allowed(config), failures)

    def _is_new(self, config: Mapping[str, Any], running: Container[bytes]) -> bool:
        vector = self._space.encode(config)
        return vector not in self._results and vector.tobytes() not in running

    def reach(self, history: History) -> float:
        """How much the process can know of the largest budget: the share of rungs up to the highest with losses."""
        known, budgets = history.observations, history.budgets
        seen = [i for i, b in enumerate(budgets, 1) if b in known and known[b].n_finite >= targets.FEWEST_SHARED]
        return max(seen, default=1) / len(budgets)

    def surrogate(self, history: History) -> Surrogate | None:
        """The process given all results; None while there are too few, or if nothing tells them apart."""
        self._results.catch_up(history)
        assert history.created is not None
        top, eta = history.budgets[-1], float(history.created.eta)
        n = len(self._results)
        rows, losses = self._results.table(n, top, eta)
        found = targets.targets(rows, losses)
        if found.finite < self._space.d + 3 or not found.y.any():
            return None
        kernel = self._kernel(n, top, eta)
        found = targets.best_first(found, POINTS)
        return self._given(kernel, found, losses[np.searchsorted(rows, found.rows)], history.pending.values(), top, eta)

    def _given(
        self, kernel: Kernel, found: Targets, losses: Array, pending: Iterable[Trial], top: float, eta: float
    ) -> Surrogate:
        """The process given the targets, and what is running."""
        X = self._results.vectors(found.rows)
        owner, points = self._embedding.owner, self._embedding(X)
        process = Process(kernel, owner, points, found.below, found.y)
        mean = process.observed_on_top()
        order = np.argsort(np.round(mean, SCORE_DIGITS), kind="stable")
        parents, best = X[order[:PARENTS]], float(mean.min())
        plateaus = targets.plateaus(process.observed_alike, losses)
        running = list(pending) if self._settings.pending != "ignore" else []
        penalised = np.empty((0, len(owner)))
        if running:
            vectors = np.array([self._space.encode(trial.config) for trial in running])
            their_points = self._embedding(vectors)
            their_below = targets.rungs_below(np.array([trial.budget for trial in running]), top, eta)
            if self._settings.pending == "penalty":
                penalised = their_points
            else:  # as if each had ended as expected: there is less to learn near it
                expected = process.mean(their_points, their_below)
                process = Process(
                    kernel,
                    owner,
                    np.vstack([points, their_points]),
                    np.concatenate([found.below, their_below]),
                    np.concatenate([found.y, expected]),
                )
                on_top = np.zeros(len(running), dtype=np.intp)
                best = min(best, float(process.mean(their_points, on_top).min()))  # what they promise is no improvement
        return Surrogate(process, self._embedding, found, best, parents, plateaus, penalised)

    def _kernel(self, n: int, top: float, eta: float) -> Kernel:
        """The hyperparameters in force after n results.

        They are fitted anew whenever there are 15 % more results, starting from the fit before; so that a study that
        was interrupted goes on as if it had not been, the fits it needs are done again.
        """
        sizes = targets.prefixes(n)
        centre = prior(self._space.d)[0]
        kernel = centre
        last = len(sizes) - 1
        for k in range(last - last % AFRESH, last + 1) if sizes else ():
            known = self._fits.get((k, top))
            if known is None:
                known = self._fitted(kernel if k % AFRESH else centre, sizes[k], top, eta)
                self._fits[k, top] = known
            kernel = known
        return kernel

    def _fitted(self, start: Kernel, n: int, top: float, eta: float) -> Kernel:
        """A fit to the first n results; the start itself if they say nothing."""
        found = targets.best_first(targets.targets(*self._results.table(n, top, eta)), FIT_POINTS)
        if found.finite < 2 or not found.y.any():
            return start
        points = self._embedding(self._results.vectors(found.rows))
        return fit(start, self._embedding.owner, points, found.below, found.y, STEPS)

    def _search(
        self, rng: np.random.Generator, surrogate: Surrogate, allowed: Allowed, failures: Failures | None
    ) -> Proposal | None:
        """The best of random candidates, of mutations of the best configurations, and of two rounds of local steps."""
        space = self._space
        X = np.vstack([space.draw(rng, UNIFORM), mutations(rng, space, surrogate.parents, MUTATIONS)])
        score = self._score(surrogate, X, failures)
        for width in WIDTHS:
            around = X[_descending(score)[:5]]
            steps = mutations(rng, space, around, LOCAL, width)
            X = np.vstack([X, steps])
            score = np.concatenate([score, self._score(surrogate, steps, failures)])
        for i in _descending(score):
            try:
                config = space.decode(X[i])
            except ForbiddenConfiguration:
                continue
            if allowed(config):
                return Proposal(config, Origin.MODEL, self._reason(surrogate, X[i : i + 1], float(score[i])))
        return None

    def _score(self, surrogate: Surrogate, X: Array, failures: Failures | None) -> Array:
        score = surrogate.log_improvement(X)
        return np.round(score if failures is None else score + failures.log_chance(X), SCORE_DIGITS)

    def _reason(self, surrogate: Surrogate, x: Array, score: float) -> dict[str, object]:
        mean, deviation = surrogate.process.predict(surrogate.process.alike(self._embedding(x)))
        return {
            "model": "gp",
            "log_improvement": score,
            "expected_loss": surrogate.loss(float(mean[0])),
            "deviation": _rounded(float(deviation[0]) * surrogate.targets.spread),
            "best_expected_loss": surrogate.loss(surrogate.best),
            "model_points": len(surrogate.targets.y),
        }


def log_expected_improvement(z: Array) -> Array:
    """log (φ(z) + z Φ(z)): the expected improvement in units of the deviation, exact far into the tail."""
    near = z > -1
    low = np.where(near, -1.0, z)
    # φ(z) + z Φ(z) = φ(z) (1 − |z| √(π/2) erfcx(|z|/√2)); far out the bracket approaches 1/z²
    bracket = 1 + low * math.sqrt(math.pi / 2) * erfcx(-low / math.sqrt(2))
    bracket = np.where(low < -1e4, low**-2.0, np.maximum(bracket, 1e-300))
    tail = -0.5 * low**2 - 0.5 * math.log(2 * math.pi) + np.log(bracket)
    high = np.where(near, z, 0.0)
    return np.where(near, np.log(np.exp(-0.5 * high**2) / math.sqrt(2 * math.pi) + high * ndtr(high)), tail)


def mutations(rng: np.random.Generator, space: Space, parents: Array, n: int, width: float | None = None) -> Array:
    """n legal vectors, each a parent with some coordinates changed: numbers by a normal step, choices drawn anew.

    width: of the steps; drawn between 0.02 and 0.5 for each vector unless told otherwise.
    """
    d = space.d
    fresh = space.draw(rng, n, snapped=False)
    chosen = parents[rng.integers(len(parents), size=n)]
    chosen = np.where(np.isnan(chosen), fresh, chosen)  # it may become active
    change = rng.random((n, d)) < max(0.3, 1 / d) if width is None else rng.random((n, d)) < max(0.5, 1 / d)
    change[np.arange(n), rng.integers(d, size=n)] = True
    widths = np.exp(rng.uniform(math.log(0.02), math.log(0.5), (n, 1))) if width is None else np.full((n, 1), width)
    moved = np.clip(chosen + widths * rng.standard_normal((n, d)), 0, 1)
    if width is not None:  # small steps change few choices
        change &= (space.choices == 0) | (rng.random((n, d)) < 0.3)
    return space.snap(np.where(change, np.where(space.choices > 0, fresh, moved), chosen))


def _descending(score: Array) -> NDArray[np.intp]:
    return np.argsort(-score, kind="stable")


def _rounded(x: float) -> float:
    """For people: enough digits to tell losses apart."""
    return float(f"{x:.6g}")
