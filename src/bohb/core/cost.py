"""How long a trial takes: learnt from the trials that have finished, for deadlines, plans and estimates of the end.

A trial of configuration c that adds u to the budget takes about s + exp(g_c)·u^p seconds: s is its start-up, p the
growth with the budget, and g_c the effect of its configuration. Medians and absolute deviations keep a slow first trial
or a warm cache from deciding anything. Without vectors this imports nothing but the standard library, so that
`bohb status` starts quickly; with vectors, a ridge regression predicts the effect of configurations that never ran.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, median
from typing import TYPE_CHECKING, Any

from bohb.core.trial import Trial

if TYPE_CHECKING:
    from bohb.core.history import History
    from bohb.core.space import Array, Space

RECENT = 300  # finished trials that the model learns from
INTERVAL = 0.8  # the share of durations that an interval covers
_SHAPE_TRIALS = 120  # of them, that determine how durations grow with the budget
_START_UPS = (0.0, 0.4, 0.7, 0.85, 0.95)  # shares of the shortest durations that may be start-up
_GROWTHS = (1.0, 0.75, 1.4, 0.5, 2.0)
_BETWEEN = 0.2  # weight of a difference between configurations, beside one between two budgets of a configuration
_SMALLEST = 1e-6  # seconds
_FEW = 5  # trials before which the spread of a typical study counts, too
_TYPICAL_SPREAD = 0.5  # of the logarithm of durations
_LEAST_SPREAD = 0.02
_LEAST_ERROR = 0.02
_UNSEEN = 0.2  # added spread where no trial has gone from this budget to that
_RIDGE = 0.3
_ROUNDS = 5  # of estimating levels and configurations in turn
_Z = NormalDist().inv_cdf((1 + INTERVAL) / 2)

Level = tuple[float | None, float]  # the budget that a trial continued from, and its own
Encode = Callable[[Mapping[str, Any]], "Array"]


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
    config: Mapping[str, Any] = field(hash=False)

    @property
    def level(self) -> Level:
        """Where training began and ended."""
        return self.previous, self.budget


@dataclass(frozen=True, slots=True)
class _Shape:
    """How durations grow with the budget: start-up seconds, the exponent, and whether training is continued."""

    start_up: float = 0.0
    growth: float = 1.0
    continued: bool = True

    def work(self, budget: float, previous: float | None) -> float:
        """Return the logarithm of what a trial adds to the budget, to the power of the growth."""
        return self.growth * math.log(budget - (previous or 0.0 if self.continued else 0.0))

    def effect(self, sample: Sample) -> float:
        """Return the effect of a sample's configuration: the logarithm of its seconds per work."""
        left = max(sample.seconds - self.start_up, 0.05 * sample.seconds)
        return math.log(left) - self.work(sample.budget, sample.previous)

    def seconds(self, effect: float, budget: float, previous: float | None) -> float:
        """Return the duration of a trial whose configuration has this effect."""
        return self.start_up + math.exp(min(effect + self.work(budget, previous), 50.0))


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The effects of configurations that were not proposed yet: their centre and spread, and log(mean/median)."""

    centre: float
    spread: float
    excess: float

    @classmethod
    def of(cls, effects: Sequence[float]) -> _Unknown:
        moved = _without_outliers(effects)
        centre = fmean(moved)
        deviations = [effect - centre for effect in moved]
        return cls(centre, _spread(deviations, _TYPICAL_SPREAD), math.log(fmean(map(math.exp, deviations))))


@dataclass(frozen=True, slots=True)
class CostModel:
    """Predicts how long trials take.

    n: number of trials that it was fitted to; with none, it predicts nothing.
    """

    n: int
    _shape: _Shape
    _levels: Mapping[Level, float]  # by how much levels deviate from the shape
    _unknown: _Unknown
    _promoted: float  # by how much the effects of promoted configurations differ from others
    _known: Mapping[int, float]  # the effects of configurations that have run, by config_id
    _spread: float  # of the effects of new configurations, given their vectors
    _noise: float  # of the effect of one configuration on several budgets
    _line: Callable[[Mapping[str, Any]], float] | None = None  # the expected effect of a configuration

    @property
    def error(self) -> float:
        """How far all predictions together may be off: the deviation of the logarithm."""
        return self._spread / math.sqrt(max(1, len(self._known))) + _LEAST_ERROR

    @property
    def levels(self) -> int:
        """How many levels have been seen; a single one does not tell how durations grow with the budget."""
        return len(self._levels)

    def duration(self, trial: Trial) -> Duration:
        """Return how long a trial takes; one without a configuration, or with an unknown one, counts as typical."""
        known = self._known.get(trial.config_id)
        if known is not None:
            return self._duration(known, trial.budget, trial.previous_budget, self._noise)
        if self._line is not None and trial.config:
            return self._duration(self._line(trial.config), trial.budget, trial.previous_budget, self._spread)
        return self.typical(trial.budget, trial.previous_budget)

    def promotion(self, trial: Trial, budget: float) -> Duration:
        """Return how long it takes to continue a trial's configuration on a larger budget."""
        known = self._known.get(trial.config_id)
        if known is None:
            return self.typical(budget, trial.budget)
        return self._duration(known, budget, trial.budget, self._noise)

    def typical(self, budget: float, previous: float | None = None) -> Duration:
        """Return how long a trial of an unknown configuration takes."""
        effect = self._unknown.centre + (self._promoted if previous is not None else 0.0)
        # Effects are smoothed and lack the noise of single trials; `_noise` is that of a difference of two.
        spread = math.hypot(self._unknown.spread, self._noise / math.sqrt(2))
        return self._duration(effect, budget, previous, spread, self._unknown.excess)

    def _duration(
        self, effect: float, budget: float, previous: float | None, spread: float, excess: float | None = None
    ) -> Duration:
        """Return the duration; its mean is exp(excess) times its median, by default that of a log-normal."""
        level = self._levels.get((previous, budget))
        effect, spread = (effect, math.hypot(spread, _UNSEEN)) if level is None else (effect + level, spread)
        middle = max(self._shape.seconds(effect, budget, previous), _SMALLEST)
        return Duration(middle, middle * math.exp(min(spread, 1.0) ** 2 / 2 if excess is None else excess), spread)


def samples(history: History) -> list[Sample]:
    """Return the last successful trials of a study whose durations are known, oldest first."""
    found: list[Sample] = []
    for number, outcome in reversed(history.outcomes.items()):
        if len(found) == RECENT:
            break
        trial = history.trials[number]
        if not outcome.ok or outcome.started is None or outcome.finished is None or trial.reuses is not None:
            continue
        seconds = max(outcome.finished - outcome.started, _SMALLEST)
        found.append(Sample(trial.config_id, trial.budget, trial.previous_budget, seconds, trial.config))
    return found[::-1]


def fit_costs(trials: Sequence[Sample], encode: Encode | None = None) -> CostModel | None:
    """Return the model of these trials, oldest first; None if there are none.

    encode: turns a configuration into a vector; without it, configurations that never ran count as typical.
    """
    if not trials:
        return None
    shape = _best_shape(trials[-_SHAPE_TRIALS:])
    raw = [shape.effect(sample) for sample in trials]
    levels, effects = _without_levels(trials, raw)
    by_config = _by_config(trials, effects)
    typical = fmean(_without_outliers(effects))
    line = None if encode is None else _line_through(trials, by_config, typical, encode)
    expected = {s.config_id: typical if line is None else line(s.config) for s in trials}
    spread = _spread([median(group) - expected[c] for c, group in by_config.items()], _TYPICAL_SPREAD)
    repeated = {c: group for c, group in by_config.items() if len(group) > 1}
    noise = _spread([group[-1] - median(group[:-1]) for group in repeated.values()], spread / 3)
    ratio = (noise / spread) ** 2  # how many trials of a configuration the expectation is worth
    known = {
        c: expected[c] + len(group) / (len(group) + ratio) * (median(group) - expected[c])
        for c, group in by_config.items()
    }
    new = _latest(known[s.config_id] for s in trials if s.previous is None)
    promoted = _latest(known[s.config_id] for s in trials if s.previous is not None)
    unknown = _Unknown.of(new or list(known.values()))
    shift = sum(effect - unknown.centre for effect in promoted) / (len(promoted) + _FEW)
    return CostModel(len(trials), shape, levels, unknown, shift, known, spread, noise, line)


def _latest(effects: Iterable[float]) -> list[float]:
    """Return the last third of the effects, 20 at least: what a sampler proposes changes with what it has learnt."""
    every = list(effects)
    return every[-max(20, len(every) // 3) :]


def _by_config(trials: Sequence[Sample], effects: Iterable[float]) -> dict[int, list[float]]:
    groups: dict[int, list[float]] = {}
    for sample, effect in zip(trials, effects, strict=True):
        groups.setdefault(sample.config_id, []).append(effect)
    return groups


def _without_levels(trials: Sequence[Sample], raw: Sequence[float]) -> tuple[dict[Level, float], list[float]]:
    """Return by how much the trials of each level deviate from the shape, and all effects without these deviations.

    A level is compared with what the same configurations took on other levels.
    """
    levels: dict[Level, float] = {}
    effects = list(raw)
    for _ in range(_ROUNDS):
        centres = {c: median(group) for c, group in _by_config(trials, effects).items()}
        found: dict[Level, list[float]] = {}
        for sample, effect in zip(trials, raw, strict=True):
            found.setdefault(sample.level, []).append(effect - centres[sample.config_id])
        levels = {level: median(ds) * len(ds) / (len(ds) + 3) for level, ds in found.items()}
        effects = [effect - levels[sample.level] for sample, effect in zip(trials, raw, strict=True)]
    return levels, effects


def _best_shape(trials: Sequence[Sample]) -> _Shape:
    """Return the shape under which the effects of a configuration differ least between budgets."""
    shortest = sorted(sample.seconds for sample in trials)[len(trials) // 20]
    continued = (True, False) if any(sample.previous is not None for sample in trials) else (True,)
    one_level = len({(sample.budget, sample.previous) for sample in trials}) == 1
    if one_level:
        return _Shape()
    shapes = [
        _Shape(share * shortest, growth, kept)
        for share, growth, kept in itertools.product(_START_UPS, _GROWTHS, continued)
    ]
    return min(shapes, key=lambda shape: _misfit(shape, trials, shortest))


def _misfit(shape: _Shape, trials: Sequence[Sample], shortest: float) -> float:
    """Return the sum of absolute deviations of effects, and how far the shape is from the usual one."""
    groups: dict[int, list[float]] = {}
    for sample in trials:
        groups.setdefault(sample.config_id, []).append(shape.effect(sample))
    means = [fmean(group) for group in groups.values()]
    within = sum(abs(e - m) for group, m in zip(groups.values(), means, strict=True) if len(group) > 1 for e in group)
    centre = median(means)
    between = sum(abs(m - centre) for m in means)
    unusual = abs(math.log(shape.growth)) + 0.2 * shape.start_up / shortest + 0.2 * (not shape.continued)
    return within + _BETWEEN * between + unusual


def _without_outliers(values: Sequence[float]) -> list[float]:
    """Return the values, with those far from the median moved towards it (Huber)."""
    centre = median(values)
    reach = 2.5 * _spread([v - centre for v in values], _TYPICAL_SPREAD)
    return [min(max(v, centre - reach), centre + reach) for v in values]


def _spread(deviations: Sequence[float], usual: float) -> float:
    """Return the robust standard deviation of values around zero; `usual` counts while they are few."""
    if not deviations:
        return max(usual, _LEAST_SPREAD)
    n = len(deviations)
    seen = sorted(map(abs, deviations))[min(n - 1, int(INTERVAL * n))] / _Z
    return max((n * seen + _FEW * usual) / (n + _FEW) if n < 4 * _FEW else seen, _LEAST_SPREAD)


def encoder(space: Space) -> Encode:
    """Return a function from a configuration to the vector that its duration is predicted from.

    A numeric hyperparameter gives itself, its square and whether it is inactive; a categorical one, one coordinate per
    choice.
    """
    import numpy as np

    kinds = space.coordinates

    known: dict[tuple[Any, ...], Array] = {}

    def encode(config: Mapping[str, Any]) -> Array:
        key = tuple(config.items())
        if key not in known:
            x = space.encode(config)
            numeric = x[kinds.numeric] - 0.5
            chosen = x[kinds.owner] == kinds.choice
            known[key] = np.concatenate([np.nan_to_num(numeric), np.nan_to_num(numeric**2), np.isnan(numeric), chosen])
        return known[key]

    return encode


def _line_through(
    trials: Sequence[Sample], by_config: Mapping[int, Sequence[float]], typical: float, encode: Encode
) -> Callable[[Mapping[str, Any]], float] | None:
    """Return the effect of a configuration by a robust ridge regression on its vector; None while trials are few."""
    import numpy as np  # not needed by commands that only count

    configs = {sample.config_id: sample.config for sample in trials}
    if len(configs) < 2 * _FEW:
        return None
    X = np.array([encode(config) for config in configs.values()])  # (n, d)
    y = np.array([median(by_config[c]) for c in configs]) - typical
    centre, weights = X.mean(axis=0), np.ones(len(X))
    F = np.column_stack([np.ones(len(X)), X - centre])
    penalty = np.diag([1e-3, *[_RIDGE] * X.shape[1]])
    for _ in range(4):  # Huber's weights
        w = np.linalg.solve(F.T @ (weights[:, None] * F) + penalty, F.T @ (weights * y))
        residuals = np.abs(y - F @ w)
        scale = max(1.4826 * float(np.median(residuals)), _LEAST_SPREAD)
        weights = np.minimum(1.0, 1.5 * scale / np.maximum(residuals, 1e-12))
    low, high = float(y.min()), float(y.max())
    return lambda config: typical + min(max(float(w[0] + (encode(config) - centre) @ w[1:]), low), high)
