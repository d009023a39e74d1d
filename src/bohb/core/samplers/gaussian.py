"""Proposals by the Gaussian process: the candidate with the highest expected improvement on the largest budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.special import erfcx, log_ndtr, ndtr

from bohb.core.history import History
from bohb.core.samplers import targets
from bohb.core.samplers.plateaus import Plateaus, plateau_width
from bohb.core.samplers.process import MOST_BELOW, Embedding, Kernel, Process, fit, prior
from bohb.core.samplers.proposal import Declined, Proposal, Situation, descending, significant
from bohb.core.samplers.search import SCORE_DECIMALS, search
from bohb.core.samplers.targets import LOSS, Quantity, Results, Targets
from bohb.core.space import Array, Space
from bohb.core.trial import Trial

Merit = Callable[[Results, Targets], Array]  # lower is better

POINTS = 200  # observations that the process is conditioned on …
FIT_POINTS = 150  # … and that its hyperparameters are fitted to
STEPS = 12  # of L-BFGS per fit
AFRESH = 8  # every eighth fit starts from the prior instead of the last fit
PARENTS = 10  # the best configurations, which are mutated
_LOSS_DIGITS = 6  # of the losses in a reason


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted process, and what a proposal needs from its data.

    best: the lowest expected loss on the largest budget among observed configurations and running trials; those of
        earlier studies count only while this one has none.
    parents: the vectors of the best observed configurations, best first.
    earlier: the best configurations of earlier studies.
    own: which of the process's points are of this study.
    plateaus: where equal losses are to be expected.
    largest_only: whether it knows this study's results on the largest budget alone.
    """

    process: Process
    embedding: Embedding
    targets: Targets
    best: float
    parents: Array
    earlier: Array
    own: NDArray[np.bool_]
    plateaus: Plateaus
    largest_only: bool = False

    def loss(self, y: float) -> float:
        """Return a standardised loss on the user's scale."""
        return significant(targets.bounded(y * self.targets.spread + self.targets.centre), _LOSS_DIGITS)

    @property
    def noise(self) -> float:
        """σ of single evaluations on the largest budget, on the user's scale."""
        return targets.bounded(math.exp(0.5 * float(self.process.kernel.noises[0])) * self.targets.spread)

    def standardised(self, loss: float) -> float:
        """Return a loss on the scale of the process; the inverse of `loss`."""
        return (loss - self.targets.centre) / self.targets.spread

    def log_improvement(self, X: Array) -> Array:
        """Return log EI of every row of X on the largest budget; on a known plateau, nothing improves."""
        mean, deviation = self.predict(X)
        score = log_expected_improvement((self.best - mean) / deviation) + np.log(deviation)
        return np.asarray(score + self.log_new(X))

    def rise(self, X: Array) -> tuple[Array, Array]:
        """Return log EI of every row of X, and its slopes in the numbers, (n, d), leaving out those of plateaus."""
        points = self.embedding(X)
        similarity = self.process.similarity(points)
        mean, deviation, by_mean, by_deviation = self.process.predict_slopes(points, similarity)
        nearest = np.where(self.own, similarity, 0.0).argmax(axis=1)
        known, by_known = self.process.similarity_slopes(points, nearest)
        bound = self._deviation_given_neighbour(known)
        by_bound = -math.exp(self.process.kernel.variance) * (known / bound)[:, None] * by_known
        by_deviation = np.where((bound < deviation)[:, None], by_bound, by_deviation)
        deviation = np.minimum(deviation, bound)
        z = (self.best - mean) / deviation
        unit = log_expected_improvement(z)
        down = np.exp(log_ndtr(z) - unit) / deviation
        up = np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - unit) / deviation
        slopes = self.embedding.slopes(X, up[:, None] * by_deviation - down[:, None] * by_mean)
        return unit + np.log(deviation) + self.plateaus.log_new(points), slopes

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and deviation of every row of X on the largest budget.

        The deviation is what an evaluation can add: near a known configuration, that is little.
        """
        similarity = self.process.similarity(self.embedding(X))
        mean, deviation = self.process.predict(similarity)
        own = similarity if self.own.all() else similarity[:, self.own]
        deviation = np.minimum(deviation, self._deviation_given_neighbour(own.max(axis=1, initial=0.0)))
        return mean, deviation

    def log_new(self, X: Array) -> Array:
        """Return log P(not on the plateau of a known configuration) for every row of X."""
        return self.plateaus.log_new(self.embedding(X))

    def reason(self, x: Array, score: float, more: Mapping[str, object]) -> dict[str, object]:
        """Return what the process expected of x, (1, d)."""
        mean, deviation = self.process.predict(self.process.similarity(self.embedding(x)))
        if len(self.process.kernel.study_decays):
            agreement = np.exp(-np.exp(self.process.kernel.study_decays))
            more = {**more, "earlier_agreement": [significant(c, 3) for c in agreement.tolist()]}
        if self.largest_only:
            more = {**more, "largest_only": True}
        return {
            "log_improvement": significant(score),
            "expected_loss": self.loss(float(mean[0])),
            "deviation": significant(targets.bounded(float(deviation[0]) * self.targets.spread)),
            "best_expected_loss": self.loss(self.best),
            "model_points": len(self.targets.y),
            **more,
        }

    def _deviation_given_neighbour(self, similarity: Array) -> Array:
        """Return the deviation that would be left if the loss of the most similar configuration were known.

        That configuration can be promoted, so a copy of it is worth no more, however uncertain its loss.
        """
        variance = math.exp(self.process.kernel.variance) * (1 - similarity**2)
        return np.sqrt(np.maximum(variance, 1e-10))


class GaussianSampler:
    """The Gaussian process of one study. It caches its fits; decisions depend on history and generator alone.

    quantity: what the process models; default: the loss.
    largest_only: whether it knows this study's results on the largest budget alone.
    """

    def __init__(self, space: Space, quantity: Quantity = LOSS, largest_only: bool = False) -> None:
        self._space, self._largest_only = space, largest_only
        self._embedding = Embedding(space)
        self._results = Results(space.d, quantity, largest_only)
        self._fits: dict[tuple[int, tuple[float, ...]], Kernel] = {}  # (number of earlier fits, rungs) -> fit

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose the candidate of highest expected improvement that is neither known nor running."""
        surrogate = self.surrogate(situation.history)
        if surrogate is None:
            return Declined("no model yet")
        rise = None if surrogate.plateaus.width else surrogate.rise  # on plateaus, slopes say little about the next one
        return search(rng, surrogate, self.is_new(situation), situation, rise)

    def is_new(self, situation: Situation) -> Callable[[Mapping[str, Any]], bool]:
        """Return a function that tells whether a configuration is allowed, and neither known nor running."""
        history = situation.history
        running = {history.key(trial.config) for trial in history.pending.values()}

        def is_new(config: Mapping[str, Any]) -> bool:
            vector = self._space.encode(config)
            return vector not in self._results and vector.tobytes() not in running and situation.is_new(config)

        return is_new

    def surrogate(self, history: History, merit: Merit | None = None) -> Surrogate | None:
        """Return the process given all results; None if there are too few, all are equal, or it cannot be factorised.

        merit: what to choose results by if there are more than POINTS; default: their losses.
        """
        self._results.catch_up(history)
        rungs, n = history.budgets, len(self._results)
        by = None if merit is None else partial(merit, self._results)
        found = targets.joined(self._results, n, rungs, POINTS, by)
        if found.finite < configurations_needed(self._results.vectors(found.rows)) or not found.y.any():
            return None
        try:
            return self._given(self._kernel(n, rungs), found, history.pending.values(), rungs)
        except LinAlgError:
            return None

    def _given(self, kernel: Kernel, found: Targets, pending: Iterable[Trial], rungs: Sequence[float]) -> Surrogate:
        """Return the process given the targets and the running trials.

        Running trials count as if they had ended with their expected losses ("fantasies"): there is less to learn near
        them, and `best` includes their expected losses.
        """
        X = self._results.vectors(found.rows)
        points, own = self._embedding(X), found.study == 0
        data = found.data(len(kernel.noises), points, self._embedding.owner)
        process = Process(kernel, data)
        mean = process.observed_on_top()
        best = float(mean[own].min() if own.any() else mean.min())
        parents, earlier = (
            X[once[descending(-mean[once], SCORE_DECIMALS)[:PARENTS]]]
            for once in (np.flatnonzero(found.highest), np.flatnonzero(found.highest & ~own))
        )
        uncut = own & (found.y < found.y.max(where=own, initial=-math.inf))  # the highest losses may have been cut
        width = plateau_width(points[uncut], found.below[uncut], found.y[uncut])
        known = points[own & found.highest]
        running = list(pending)
        if running:
            added = self._embedding(np.array([self._space.encode(trial.config) for trial in running]))
            below = targets.rungs_below(np.array([trial.budget for trial in running]), rungs)
            process = Process(
                kernel,
                data._replace(
                    points=np.vstack([points, added]),
                    group=np.concatenate([data.group, below]),
                    y=np.concatenate([data.y, process.mean(added, below)]),
                    counts=np.concatenate([found.counts, np.ones(len(running))]),
                ),
            )
            own = np.concatenate([own, np.full(len(running), True)])
            best = min(best, float(process.mean(added, 0).min()))
            known = np.vstack([known, added])
        plateaus = Plateaus(width, known)
        return Surrogate(process, self._embedding, found, best, parents, earlier, own, plateaus, self._largest_only)

    def _kernel(self, n: int, rungs: tuple[float, ...]) -> Kernel:
        """Return the hyperparameters after n results.

        They are fitted anew whenever this study has 15 % more results, starting from the last fit. After an
        interruption the fits that the current one depends on are made again, so that the study goes on as if there had
        been none.
        """
        n_earlier = self._results.n_earlier
        sizes = [n_earlier + size for size in ([0] if n_earlier else []) + targets.prefixes(n - n_earlier)]
        centre = prior(self._space.d, min(len(rungs), MOST_BELOW + 1), self._results.studies)[0]
        kernel = centre
        last = len(sizes) - 1
        for k in range(last - last % AFRESH, last + 1) if sizes else ():
            known = self._fits.get((k, rungs))
            if known is None:
                known = self._fits[k, rungs] = self._fitted(kernel if k % AFRESH else centre, sizes[k], rungs)
            kernel = known
        return kernel

    def _fitted(self, start: Kernel, n: int, rungs: tuple[float, ...]) -> Kernel:
        """Return the fit to the first n results, or the start if these say nothing."""
        found = targets.joined(self._results, n, rungs, FIT_POINTS)
        if found.finite < 2 or not found.y.any():
            return start
        points = self._embedding(self._results.vectors(found.rows))
        return fit(start, found.data(len(start.noises), points, self._embedding.owner), STEPS)


def configurations_needed(X: Array) -> int:
    """Return how many configurations with a loss the process needs: 3 more than one of X has active hyperparameters."""
    return 3 + int((~np.isnan(X)).sum(axis=1).max(initial=0))


def log_expected_improvement(z: Array) -> Array:
    """Return log (φ(z) + z Φ(z)), the expected improvement in units of the deviation, exact far into the tail."""
    near = z > -1
    low = np.where(near, -1.0, z)
    # φ(z) + z Φ(z) = φ(z) (1 − |z| √(π/2) erfcx(|z|/√2)); far out the bracket approaches 1/z²
    bracket = 1 + low * math.sqrt(math.pi / 2) * erfcx(-low / math.sqrt(2))
    bracket = np.where(low < -1e4, low**-2.0, np.maximum(bracket, 1e-300))
    tail = -0.5 * low**2 - 0.5 * math.log(2 * math.pi) + np.log(bracket)
    high = np.where(near, z, 0.0)
    return np.where(near, np.log(np.exp(-0.5 * high**2) / math.sqrt(2 * math.pi) + high * ndtr(high)), tail)
