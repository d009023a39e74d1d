"""How long trials take, learnt from those that have finished.

A trial that brings a configuration from budget p (0 if it is new) to budget b is expected to take

    (b − p)^(1 + β) · (1 − p/b)^γ · exp(δ · b_min/(b − p) + e) seconds,

with e the effect of its configuration. With β = γ = δ = 0 the time is in proportion to what a trial adds to the budget,
and this is assumed while little is known. β tells how much slower a unit is on larger budgets; γ, whether promoted
trials go on or begin again (γ = −1); and δ, whether every trial begins with something that takes the same time on all
budgets.

All three come from one ridge regression of the logarithm of the seconds per unit. It compares trials of the same
configuration with each other more than with those of others, because promoted configurations may well be slow ones.
Outliers count little (Huber's weights). The effect of a configuration is the median of what the regression leaves of
its trials, moved towards the typical effect while they are few; one that has not run yet counts as typical.

Before a trial, a worker may have to start. What was waited on average is added to every trial.

This imports nothing but the standard library, so that `bohb status` starts quickly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median
from typing import TypeVar

from bohb.core.history import History
from bohb.core.trial import Trial

RECENT = 300  # finished trials that the model learns from
INTERVAL = 0.8  # the share of durations that an interval covers
_FOR_GROWTH = 120  # of them, that determine how durations grow with the budget
_FOR_WAITS = 20  # and the last waits, from which start-ups of workers are learnt
_ROUNDS = 4  # of finding outliers
_PRIOR = 0.2  # standard deviation of β, γ and δ
_TYPICAL_SPREAD, _TYPICAL_NOISE = 0.5, 0.2  # of log seconds: between configurations, and between trials of one
_FEW = 5  # values before which those of a typical study count, too
_UNSEEN = 0.2  # added spread where no trial has gone from this budget to that
_LEAST_SPREAD = 0.02
_OVERDUE = 0.1  # of a duration: how much longer a trial takes at least
_SMALLEST = 1e-6  # seconds
_Z = NormalDist().inv_cdf((1 + INTERVAL) / 2)

Level = tuple[float | None, float]  # the budget that a trial continued from, and its own
T = TypeVar("T")
Row = tuple[float, ...]  # the factors of β, γ and δ, and what they explain


@dataclass(frozen=True, slots=True)
class Duration:
    """The predicted duration of a trial in seconds: its median, its mean, and the spread of its logarithm."""

    median: float
    mean: float
    spread: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.median * math.exp(-_Z * self.spread)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.median * math.exp(_Z * self.spread)

    def left(self, since: float) -> float:
        """Return the seconds that a trial is expected to take after `since`: a while longer if it is overdue."""
        return max(self.mean - since, _OVERDUE * max(since, self.mean))

    def drawn(self, share: float, since: float = 0.0) -> float:
        """Return the seconds that a trial has left after `since`; a share of such trials end earlier.

        Over all shares, the mean of whole trials is `mean`.
        """
        spread = min(self.spread, 1.0)
        median = self.mean * math.exp(-(spread**2) / 2)
        passed = NormalDist(sigma=spread).cdf(math.log(since / median)) if since > 0 else 0.0
        rank = min(max(passed + (1 - passed) * share, 0.01), 0.999)
        return max(median * math.exp(NormalDist(sigma=spread).inv_cdf(rank)) - since, 0.05 * since)

    def chance(self, seconds: float) -> float:
        """Return the probability that the trial takes at most so many seconds."""
        if seconds <= 0:
            return 0.0
        return NormalDist().cdf(math.log(seconds / self.median) / self.spread)


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished trial: what it was asked for, and how long it took."""

    config_id: int
    budget: float
    previous: float | None
    seconds: float

    @property
    def level(self) -> Level:
        """Where training began and ended."""
        return self.previous, self.budget


@dataclass(frozen=True, slots=True)
class Growth:
    """How durations depend on budgets: b_min, and β, γ and δ of the formula."""

    smallest: float = 1.0
    exponents: tuple[float, ...] = (0.0, 0.0, 0.0)

    def factors(self, level: Level) -> tuple[float, float, float]:
        """Return what β, γ and δ are multiplied by in the logarithm."""
        previous, budget = level
        added = budget - (previous or 0.0)
        return math.log(added), math.log(added / budget), self.smallest / added

    def log_seconds(self, level: Level) -> float:
        """Return the logarithm of the seconds of a trial whose configuration has the effect 0."""
        previous, budget = level
        return math.log(budget - (previous or 0.0)) + _dot(self.exponents, self.factors(level))

    def effect(self, sample: Sample) -> float:
        """Return what a sample's configuration adds to the logarithm."""
        return math.log(sample.seconds) - self.log_seconds(sample.level)


@dataclass(frozen=True, slots=True)
class DurationModel:
    """Predicts how long trials take.

    n: number of trials that it was fitted to.
    growth: how durations depend on budgets.
    levels: the levels of these trials; a single one does not tell how durations grow.
    known: the effects of configurations that have run, by config_id.
    new, promoted: the typical effect of new configurations, and of promoted ones.
    spread: the standard deviation of the effects of new configurations.
    noise: the standard deviation of log seconds of a configuration whose effect is known.
    start_up: the seconds that workers need before a trial, on average.
    """

    n: int
    growth: Growth
    levels: frozenset[Level]
    known: Mapping[int, float]
    new: float
    promoted: float
    spread: float
    noise: float
    start_up: float

    @property
    def error(self) -> float:
        """How far all predictions together may be off: the deviation of the logarithm."""
        return self.spread / math.sqrt(max(1, len(self.known))) + _LEAST_SPREAD

    def duration(self, trial: Trial) -> Duration:
        """Return how long a trial takes; one whose configuration has not run yet counts as typical."""
        return self._duration(trial, (trial.previous_budget, trial.budget))

    def promotion(self, trial: Trial, budget: float) -> Duration:
        """Return how long it takes to continue a trial's configuration on a larger budget."""
        return self._duration(trial, (trial.budget, budget))

    def typical(self, budget: float, previous: float | None = None) -> Duration:
        """Return how long a trial of an unknown configuration takes."""
        effect = self.new if previous is None else self.promoted
        return self._expected((previous, budget), effect, math.hypot(self.spread, self.noise))

    def _duration(self, trial: Trial, level: Level) -> Duration:
        effect = self.known.get(trial.config_id)
        previous, budget = level
        return self.typical(budget, previous) if effect is None else self._expected(level, effect, self.noise)

    def _expected(self, level: Level, effect: float, spread: float) -> Duration:
        spread = spread if level in self.levels else math.hypot(spread, _UNSEEN)
        middle = max(math.exp(min(effect + self.growth.log_seconds(level), 50.0)), _SMALLEST)
        mean = middle * math.exp(min(spread, 1.0) ** 2 / 2)
        whole = self.start_up + middle
        return Duration(whole, self.start_up + mean, max(spread * middle / whole, _LEAST_SPREAD))


class DurationLearner:
    """Keeps the model of a study that goes on: fitted again to a tenth more results, and to the first on a budget."""

    def __init__(self) -> None:
        self._model: DurationModel | None = None
        self._n = self._budgets = 0  # results that it was fitted to, and their budgets

    def model(self, history: History) -> DurationModel | None:
        """Return the model; None while no trial has succeeded."""
        n, budgets = len(history.outcomes), len(history.best)
        if n and (self._model is None or n >= 1.1 * self._n or budgets > self._budgets):
            self._model, self._n, self._budgets = learnt(history), n, budgets
        return self._model


def learnt(history: History) -> DurationModel | None:
    """Return the model of a study; None if no trial has succeeded."""
    return fit_durations(samples(history), start_up(history))


def samples(history: History) -> list[Sample]:
    """Return the last successful trials of a study whose durations are known, oldest first."""
    found: list[Sample] = []
    for number, outcome in reversed(history.outcomes.items()):
        if len(found) == RECENT:
            break
        trial = history.trials[number]
        if outcome.ok and outcome.seconds is not None and trial.reuses is None:
            seconds = max(outcome.seconds, _SMALLEST)
            found.append(Sample(trial.config_id, trial.budget, trial.previous_budget, seconds))
    return found[::-1]


def start_up(history: History) -> float:
    """Return the seconds that workers need before a trial, on average over the last trials of this session.

    Every worker starts before its first trial; these do not count, since it is usually kept for those that follow. Nor
    does the longest wait, for which something else may have been to blame.
    """
    waits: list[float] = []
    seen: set[str | None] = set()
    for number, outcome in itertools.islice(history.outcomes.items(), history.n_before_session, None):
        if outcome.worker in seen and number in history.waits:
            waits.append(history.waits[number])
        seen.add(outcome.worker)
    counted = sorted(waits[-_FOR_WAITS:])[:-1]
    return fmean(counted) if counted else 0.0


def fit_durations(trials: Sequence[Sample], start_up: float = 0.0) -> DurationModel | None:
    """Return the model of these trials, oldest first; None if there are none.

    start_up: the seconds that workers need before a trial.
    """
    if not trials:
        return None
    levels = frozenset(sample.level for sample in trials)
    growth = _growth(trials[-_FOR_GROWTH:]) if len(levels) > 1 else Growth()
    effects = _by_config(trials, [growth.effect(sample) for sample in trials])
    centres = {config_id: median(group) for config_id, group in effects.items()}
    centre = median(centres.values())
    spread = _spread([c - centre for c in centres.values()], _TYPICAL_SPREAD)
    noise = _noise(((e - centres[c], len(group)) for c, group in effects.items() for e in group), spread / 3)
    worth = (noise / spread) ** 2  # of the typical effect, in trials of a configuration
    known = {c: centre + (centres[c] - centre) * len(g) / (len(g) + worth) for c, g in effects.items()}
    new = _latest(known[s.config_id] for s in trials if s.previous is None) or list(known.values())
    promoted = _latest(known[s.config_id] for s in trials if s.previous is not None)
    typical = median(new)
    more = (median(promoted) - typical) * len(promoted) / (len(promoted) + _FEW) if promoted else 0.0
    spread = _spread([effect - typical for effect in new], _TYPICAL_SPREAD)
    return DurationModel(len(trials), growth, levels, known, typical, typical + more, spread, noise, start_up)


def _growth(trials: Sequence[Sample]) -> Growth:
    """Return β, γ and δ by a ridge regression with Huber's weights."""
    smallest = min(sample.budget for sample in trials)
    proportional = Growth(smallest)
    rows: list[Row] = [(*proportional.factors(s.level), proportional.effect(s)) for s in trials]
    groups = _by_config(trials, range(len(trials)))
    weights, noise = [1.0] * len(trials), _TYPICAL_NOISE
    exponents = proportional.exponents
    for _ in range(_ROUNDS):
        compared = _compared(rows, list(groups.values()), weights)
        exponents = _ridge(compared, weights, (noise / _PRIOR) ** 2)
        residuals = [row[-1] - _dot(exponents, row[:-1]) for row in compared]
        noise = _noise(((residuals[i], len(group)) for group in groups.values() for i in group), _TYPICAL_NOISE)
        weights = [1.5 * noise / max(abs(residual), 1.5 * noise) for residual in residuals]
    return Growth(smallest, exponents)


def _by_config(trials: Sequence[Sample], values: Iterable[T]) -> dict[int, list[T]]:
    """Return the values of the trials of each configuration."""
    groups: dict[int, list[T]] = {}
    for sample, value in zip(trials, values, strict=True):
        groups.setdefault(sample.config_id, []).append(value)
    return groups


def _compared(rows: Sequence[Row], groups: Sequence[Sequence[int]], weights: Sequence[float]) -> list[Row]:
    """Return the rows less the mean of all, and less most of what the trials of a configuration have in common.

    Between configurations that have a spread of their own, the rest is what least squares use.
    """
    means = [_mean([rows[i] for i in group], [weights[i] for i in group]) for group in groups]
    centre = _mean(means, [1.0] * len(means))
    compared = list(rows)
    for group, mean in zip(groups, means, strict=True):
        kept = _TYPICAL_NOISE / math.hypot(_TYPICAL_NOISE, math.sqrt(len(group)) * _TYPICAL_SPREAD)
        for i in group:
            compared[i] = tuple(x - m + kept * (m - c) for x, m, c in zip(rows[i], mean, centre, strict=True))
    return compared


def _dot(left: Iterable[float], right: Iterable[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _mean(rows: Sequence[Row], weights: Sequence[float]) -> Row:
    """Return the weighted mean of every column."""
    total = sum(weights)
    return tuple(_dot(weights, column) / total for column in zip(*rows, strict=True))


def _ridge(rows: Sequence[Row], weights: Sequence[float], penalty: float) -> tuple[float, ...]:
    """Return the coefficients of all columns but the last, which they explain."""
    *factors, explained = zip(*rows, strict=True)
    weighted = [[w * x for w, x in zip(weights, column, strict=True)] for column in factors]
    equations = [[_dot(column, other) for other in (*factors, explained)] for column in weighted]
    for i, equation in enumerate(equations):
        equation[i] += penalty
    return _solution(equations)


def _solution(equations: list[list[float]]) -> tuple[float, ...]:
    """Solve linear equations with a positive definite matrix by elimination; the last column is the right side."""
    for i, pivot in enumerate(equations):
        equations[i] = pivot = [x / pivot[i] for x in pivot]
        for j, other in enumerate(equations):
            if j != i:
                equations[j] = [x - other[i] * p for x, p in zip(other, pivot, strict=True)]
    return tuple(equation[-1] for equation in equations)


def _noise(deviations: Iterable[tuple[float, int]], usual: float) -> float:
    """Return the spread between trials of a configuration, from deviations from its centre, and its number of trials.

    A configuration with a single trial tells nothing.
    """
    return _spread([deviation * math.sqrt(n / (n - 1)) for deviation, n in deviations if n > 1], usual)


def _latest(effects: Iterable[float]) -> list[float]:
    """Return the last third of the effects, 20 at least: what a sampler proposes changes with what it has learnt."""
    every = list(effects)
    return every[-max(20, len(every) // 3) :]


def _spread(deviations: Sequence[float], usual: float) -> float:
    """Return the robust standard deviation of values around zero; `usual` counts while they are few."""
    if not deviations:
        return max(usual, _LEAST_SPREAD)
    n = len(deviations)
    seen = sorted(map(abs, deviations))[min(n - 1, int(INTERVAL * n))] / _Z
    return max((n * seen + _FEW * usual) / (n + _FEW) if n < 4 * _FEW else seen, _LEAST_SPREAD)
