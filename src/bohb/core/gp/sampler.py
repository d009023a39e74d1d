"""Proposals by the Gaussian process: the candidate with the highest expected improvement on the largest budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError
from scipy.special import erfcx, ndtr

from bohb.core.gp import targets
from bohb.core.gp.process import MOST_BELOW, Embedding, Kernel, Process, fit, prior
from bohb.core.gp.targets import Results, Targets
from bohb.core.history import History
from bohb.core.proposal import Declined, Proposal, Situation, descending, significant
from bohb.core.space import Array, Space
from bohb.core.trial import Origin, Trial
from bohb.errors import ForbiddenConfiguration

POINTS = 200  # observations that the process is conditioned on …
FIT_POINTS = 150  # … and that its hyperparameters are fitted to
STEPS = 12  # of L-BFGS per fit
AFRESH = 8  # every eighth fit starts from the prior instead of the last fit
UNIFORM, MUTATIONS, LOCAL = 200, 200, 100  # candidates from the prior, near the best, and near the best candidates
PARENTS = 10  # the best configurations, which are mutated
WIDTHS = (0.08, 0.025)  # of the local steps, one round each
ON_PLATEAU = -20.0  # added to log EI where a plateau is known, so that only a whole space of plateaus is searched again
SCORE_DECIMALS = 6  # candidates that differ by less count as equal
_WIDTH_DECIMALS = 12  # of mutations; rounding hides the last bits, in which mathematical libraries differ
_LOSS_DIGITS = 6  # of the losses in a reason


@dataclass(frozen=True, slots=True)
class Surrogate:
    """A fitted process, and what a proposal needs from its data.

    best: the lowest expected loss on the largest budget among observed configurations and running trials; those of
        earlier studies count only while this one has none.
    parents: the vectors of the best observed configurations, best first.
    earlier: the best configurations of earlier studies.
    own: which of the process's points are of this study.
    """

    process: Process
    embedding: Embedding
    targets: Targets
    best: float
    parents: Array
    earlier: Array
    own: NDArray[np.bool_]

    def loss(self, y: float) -> float:
        """Return a standardised loss on the user's scale."""
        return significant(targets.bounded(y * self.targets.spread + self.targets.centre), _LOSS_DIGITS)

    @property
    def noise(self) -> float:
        """σ of single evaluations on the largest budget, on the user's scale."""
        return targets.bounded(math.exp(0.5 * float(self.process.kernel.noises[0])) * self.targets.spread)

    def log_improvement(self, X: Array) -> Array:
        """Return log EI of every row of X on the largest budget."""
        similarity = self.process.similarity(self.embedding(X))
        mean, deviation = self.process.predict(similarity)
        own = similarity if self.own.all() else similarity[:, self.own]
        deviation = np.minimum(deviation, self._deviation_given_neighbour(own.max(axis=1, initial=0.0)))
        score = log_expected_improvement((self.best - mean) / deviation) + np.log(deviation)
        return np.where(self._on_plateau(similarity), score + ON_PLATEAU, score)

    def _on_plateau(self, similarity: Array) -> NDArray[np.bool_]:
        """Return where the two nearest results of a rung of this study have exactly equal losses and are not far away.

        There the loss does not depend on the hyperparameters: another value would give the same loss again. Far away
        is more than twice their distance from each other, where the kernel is about its fourth power.
        """
        found = np.zeros(len(similarity), dtype=np.bool_)
        y, below, own = self.targets.y, self.targets.below, self.targets.study == 0
        highest = y.max(where=own, initial=-math.inf)
        for rung in set(below[own].tolist()):
            here = np.flatnonzero(own & (below == rung) & (y < highest))  # the highest losses may have been cut
            if len(np.unique(y[here])) == len(here):
                continue
            nearest = here[np.argpartition(-similarity[:, here], 1, axis=1)[:, :2]]
            one, two = nearest.T
            near = np.take_along_axis(similarity, nearest, axis=1).max(axis=1)
            found |= (y[one] == y[two]) & (near >= self.process.observed_similarity[one, two] ** 4)
        return found

    def _deviation_given_neighbour(self, similarity: Array) -> Array:
        """Return the deviation that would be left if the loss of the most similar configuration were known.

        That configuration can be promoted, so a copy of it is worth no more, however uncertain its loss.
        """
        variance = math.exp(self.process.kernel.variance) * (1 - similarity**2)
        return np.sqrt(np.maximum(variance, 1e-10))


class GaussianSampler:
    """The Gaussian process of one study. It caches its fits; decisions depend on history and generator alone."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._embedding = Embedding(space)
        self._results = Results(space.d)
        self._fits: dict[tuple[int, tuple[float, ...]], Kernel] = {}  # (number of earlier fits, rungs) -> fit

    def propose(self, rng: np.random.Generator, situation: Situation) -> Proposal | Declined:
        """Propose the candidate of highest expected improvement that is neither known nor running."""
        history = situation.history
        try:
            surrogate = self.surrogate(history)
        except LinAlgError:
            return Declined("no fit")
        if surrogate is None:
            return Declined("no model yet")
        running = {history.key(trial.config) for trial in history.pending.values()}

        def is_new(config: Mapping[str, Any]) -> bool:
            vector = self._space.encode(config)
            return vector not in self._results and vector.tobytes() not in running and situation.is_new(config)

        return self._search(rng, surrogate, is_new, situation)

    def surrogate(self, history: History) -> Surrogate | None:
        """Return the process given all results; None while there are too few, or if all losses are equal."""
        self._results.catch_up(history)
        rungs, n = targets.rungs(history), len(self._results)
        found = targets.joined(self._results, n, rungs, POINTS)
        if found.finite < self._space.d + 3 or not found.y.any():
            return None
        return self._given(self._kernel(n, rungs), found, history.pending.values(), rungs)

    def _given(self, kernel: Kernel, found: Targets, pending: Iterable[Trial], rungs: Sequence[float]) -> Surrogate:
        """Return the process given the targets and the running trials.

        Running trials count as if they had ended with their expected losses ("fantasies"): there is less to learn near
        them, and `best` includes their expected losses.
        """
        X = self._results.vectors(found.rows)
        owner, points = self._embedding.owner, self._embedding(X)
        group, own = found.group(len(kernel.noises)), found.study == 0
        process = Process(kernel, owner, points, group, found.y)
        mean = process.observed_on_top()
        best = float(mean[own].min() if own.any() else mean.min())
        parents, earlier = (
            X[once[descending(-mean[once], SCORE_DECIMALS)[:PARENTS]]]
            for once in (np.flatnonzero(found.highest), np.flatnonzero(found.highest & ~own))
        )
        running = list(pending)
        if running:
            added = self._embedding(np.array([self._space.encode(trial.config) for trial in running]))
            below = targets.rungs_below(np.array([trial.budget for trial in running]), rungs)
            y = np.concatenate([found.y, process.mean(added, below)])
            process = Process(kernel, owner, np.vstack([points, added]), np.concatenate([group, below]), y)
            own = np.concatenate([own, np.full(len(running), True)])
            best = min(best, float(process.mean(added, 0).min()))
        return Surrogate(process, self._embedding, found, best, parents, earlier, own)

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
        return fit(start, self._embedding.owner, points, found.group(len(start.noises)), found.y, STEPS)

    def _search(
        self,
        rng: np.random.Generator,
        surrogate: Surrogate,
        is_new: Callable[[Mapping[str, Any]], bool],
        situation: Situation,
    ) -> Proposal | Declined:
        """Score random candidates, mutations of the best configurations and two rounds of local steps."""

        def scores(X: Array) -> Array:
            score = surrogate.log_improvement(X)
            if space.has_prior:
                score = score + log_prior(space, X, situation.prior_weight)
            return np.round(score + situation.log_chance(X), SCORE_DECIMALS)

        space = self._space
        drawn = space.draw(rng, UNIFORM)
        if space.has_prior:
            n_uniform = round((1 - situation.prior_weight) * UNIFORM)
            drawn[:n_uniform] = space.draw(rng, n_uniform, uniform=True)
        X = np.vstack([drawn, mutations(rng, space, surrogate.parents, MUTATIONS), surrogate.earlier])
        score = scores(X)
        for width in WIDTHS:
            steps = mutations(rng, space, X[descending(score, SCORE_DECIMALS)[:5]], LOCAL, width)
            X = np.vstack([X, steps])
            score = np.concatenate([score, scores(steps)])
        for i in descending(score, SCORE_DECIMALS):
            try:
                config = space.decode(X[i])
            except ForbiddenConfiguration:
                continue
            if is_new(config):
                weight = situation.prior_weight if space.has_prior else None
                return Proposal(config, Origin.MODEL, self._reason(surrogate, X[i : i + 1], float(score[i]), weight))
        return Declined("no candidate allowed")

    def _reason(self, surrogate: Surrogate, x: Array, score: float, weight: float | None) -> dict[str, object]:
        mean, deviation = surrogate.process.predict(surrogate.process.similarity(self._embedding(x)))
        more: dict[str, object] = {}
        if weight is not None:
            by_prior = float(log_prior(self._space, x, weight)[0])
            score -= by_prior
            more |= {"log_prior": significant(by_prior), "prior_weight": significant(weight)}
        if len(surrogate.process.kernel.study_decays):
            agreement = np.exp(-np.exp(surrogate.process.kernel.study_decays))
            more["earlier_agreement"] = [significant(c, 3) for c in agreement.tolist()]
        return {
            "model": "gp",
            "log_improvement": significant(score),
            "expected_loss": surrogate.loss(float(mean[0])),
            "deviation": significant(targets.bounded(float(deviation[0]) * surrogate.targets.spread)),
            "best_expected_loss": surrogate.loss(surrogate.best),
            "model_points": len(surrogate.targets.y),
            **more,
        }


def log_prior(space: Space, X: Array, weight: float) -> Array:
    """Return what the prior adds to log EI: weight · log(weight · π(x) + 1 − weight), with π relative to uniform.

    This is the density of random configurations with a decaying exponent (Hvarfner et al. 2022). The uniform part
    bounds what a prior can subtract, so that it does not exclude the optimum.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(weight * np.logaddexp(np.log(weight) + space.log_prior(X), np.log1p(-weight)))


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
