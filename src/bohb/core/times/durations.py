"""How long trials take, learnt from those that have finished.

A trial that brings a configuration from budget p (0 if it is new) to budget b is expected to take

    (b − p)^(1 + β) · (1 − p/b)^γ · exp(δ · b_min/(b − p) + e) seconds,

with e the effect of its configuration. With β = γ = δ = 0 the time is in proportion to what a trial adds to the budget,
and this is assumed while little is known. β tells how much slower a unit is on larger budgets; γ, whether promoted
trials go on or begin again (γ = −1); and δ, whether every trial begins with something that takes the same time on all
budgets.

All three come from one ridge regression of the logarithm of the seconds per unit, in which the effects of
configurations are random: promoted configurations may well be slow ones, so trials of the same configuration say most
about budgets. Outliers count little (Huber's weights). The effect of a configuration is the median of what the
regression leaves of its trials, moved towards the typical effect while they are few; one that has not run yet counts
as typical.

Before a trial, a worker may have to start. What was waited on average is added to every trial.

This imports nothing but the standard library, so that `bohb status` starts quickly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median

from bohb.core.history import History
from bohb.core.trial import Trial

RECENT = 300  # finished trials that the model learns from
INTERVAL = 0.8  # the share of durations that an interval covers
_LATEST = 40  # trials that count for the typical effect: what samplers propose changes with what they have learnt
_FOR_WAITS = 20  # the last waits, from which start-ups of workers are learnt
_ROUNDS = 3  # of finding outliers
_PROPORTIONAL = (1.0, 0.0, 0.0)  # 1 + β, γ and δ while nothing is known
_PRIOR = 0.2  # their standard deviation
_TYPICAL_SPREAD, _TYPICAL_NOISE = 0.5, 0.2  # of log seconds: between configurations, and between trials of one
_FEW = 5  # values of a typical study that count, too
_UNSEEN = 0.2  # added spread where no trial has gone from this budget to that
_LEAST_SPREAD = 0.02
_OVERDUE = 0.1  # of a duration: how much longer a trial takes at least
_SMALLEST = 1e-6  # seconds
_Z = NormalDist().inv_cdf((1 + INTERVAL) / 2)

Level = tuple[float | None, float]  # the budget that a trial continued from, and its own
Row = tuple[float, ...]  # the factors of the exponents, after 1; and what they explain


@dataclass(frozen=True, slots=True)
class Duration:
    """The predicted duration of a trial in seconds: its median, and the spread of its logarithm."""

    median: float
    spread: float

    @property
    def mean(self) -> float:
        """The expected seconds."""
        return self.median * math.exp(min(self.spread, 1.0) ** 2 / 2)

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
        logs = NormalDist(math.log(self.median), min(self.spread, 1.0))
        passed = logs.cdf(math.log(since)) if since > 0 else 0.0
        rank = min(max(passed + (1 - passed) * share, 0.01), 0.999)
        return max(math.exp(logs.inv_cdf(rank)) - since, 0.05 * since)

    def chance(self, seconds: float) -> float:
        """Return the probability that the trial takes at most so many seconds."""
        return NormalDist().cdf(math.log(seconds / self.median) / self.spread) if seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A finished trial: what it was asked for, and how long it took."""

    config_id: int
    budget: float
    previous: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class DurationModel:
    """Predicts how long trials take.

    n: number of trials that it was fitted to.
    smallest: b_min of the formula.
    exponents: its 1 + β, γ and δ.
    levels: the levels of these trials; a single one does not tell how durations grow.
    known: the effects of configurations that have run, by config_id.
    new, promoted: the typical effect of new configurations, and of promoted ones.
    spread: the standard deviation of the effects of new configurations.
    noise: the standard deviation of log seconds of a configuration whose effect is known.
    start_up: the seconds that workers need before a trial, on average.
    """

    n: int
    smallest: float
    exponents: Sequence[float]
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
        """Return how long a trial takes."""
        return self.expected(trial.budget, trial.previous_budget, trial.config_id)

    def expected(self, budget: float, previous: float | None = None, config_id: int | None = None) -> Duration:
        """Return how long it takes to bring a configuration from a budget to another.

        config_id: the configuration; one that has not run yet, or None, counts as typical.
        """
        effect, spread = self.new if previous is None else self.promoted, math.hypot(self.spread, self.noise)
        if config_id is not None and config_id in self.known:
            effect, spread = self.known[config_id], self.noise
        if (previous, budget) not in self.levels:
            spread = math.hypot(spread, _UNSEEN)
        log_seconds = _dot((effect, *self.exponents), _factors(previous, budget, self.smallest))
        trained = max(math.exp(min(log_seconds, 50.0)), _SMALLEST)
        whole = self.start_up + trained
        return Duration(whole, spread * trained / whole)


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
    """Return the model of a study, by its last successful trials; None if there are none."""
    found: list[Sample] = []
    for number, outcome in reversed(history.outcomes.items()):
        if len(found) == RECENT:
            break
        trial = history.trials[number]
        if outcome.ok and outcome.seconds is not None and trial.reuses is None:
            found.append(Sample(trial.config_id, trial.budget, trial.previous_budget, outcome.seconds))
    return fit_durations(found[::-1], start_up(history))


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
    smallest = min(sample.budget for sample in trials)
    rows = [(*_factors(s.previous, s.budget, smallest), math.log(max(s.seconds, _SMALLEST))) for s in trials]
    groups: dict[int, list[int]] = {}  # the trials of each configuration
    for i, sample in enumerate(trials):
        groups.setdefault(sample.config_id, []).append(i)
    spread, noise, weights = _TYPICAL_SPREAD, _TYPICAL_NOISE, [1.0] * len(trials)
    for _ in range(_ROUNDS):
        worth = (noise / spread) ** 2  # of the typical effect, in trials of a configuration
        exponents = _exponents(rows, groups.values(), weights, worth, (noise / _PRIOR) ** 2)
        left = [row[-1] - _dot(exponents, row[1:-1]) for row in rows]
        centres = {c: median(left[i] for i in group) for c, group in groups.items()}
        typical = median(centres.values())
        known = {c: typical + (centres[c] - typical) * len(g) / (len(g) + worth) for c, g in groups.items()}
        spread = _spread([centre - typical for centre in centres.values()], _TYPICAL_SPREAD)
        noise = _noise([[left[i] - centres[c] for i in group] for c, group in groups.items()], _TYPICAL_NOISE)
        off = [abs(one - known[sample.config_id]) for one, sample in zip(left, trials, strict=True)]
        weights = [1.5 * noise / max(one, 1.5 * noise) for one in off]
    new = [known[s.config_id] for s in trials if s.previous is None][-_LATEST:] or list(known.values())
    promoted = [known[s.config_id] for s in trials if s.previous is not None][-_LATEST:]
    centre = median(new)
    spread = _spread([effect - centre for effect in new], _TYPICAL_SPREAD)
    levels = frozenset((s.previous, s.budget) for s in trials)
    continued = median([*promoted, *[centre] * _FEW])
    return DurationModel(len(trials), smallest, exponents, levels, known, centre, continued, spread, noise, start_up)


def _factors(previous: float | None, budget: float, smallest: float) -> Row:
    """Return what the effect, 1 + β, γ and δ are multiplied by in the logarithm of the seconds."""
    added = budget - (previous or 0.0)
    return 1.0, math.log(added), math.log(added / budget), smallest / added


def _exponents(
    rows: Sequence[Row], groups: Iterable[Sequence[int]], weights: Sequence[float], worth: float, penalty: float
) -> list[float]:
    """Return 1 + β, γ and δ by least squares; the random effects of the groups and the constant are eliminated."""
    equations = [[0.0] * len(rows[0]) for _ in rows[0][:-1]]
    for group in groups:
        counts = [weights[i] for i in group]
        columns = list(zip(*(rows[i] for i in group), strict=True))
        sums = [_dot(counts, column) for column in columns]
        for i, equation in enumerate(equations):
            weighted = [w * x for w, x in zip(counts, columns[i], strict=True)]
            for k, column in enumerate(columns):
                equation[k] += _dot(weighted, column) - sums[i] * sums[k] / (sums[0] + worth)
    for i, usual in enumerate(_PROPORTIONAL, 1):
        equations[i][i] += penalty
        equations[i][-1] += penalty * usual
    return _solution(equations)[1:]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _solution(equations: list[list[float]]) -> list[float]:
    """Solve linear equations with a positive definite matrix by elimination; the last column is the right side."""
    for i, pivot in enumerate(equations):
        equations[i] = pivot = [x / pivot[i] for x in pivot]
        for j, other in enumerate(equations):
            if j != i:
                equations[j] = [x - other[i] * p for x, p in zip(other, pivot, strict=True)]
    return [equation[-1] for equation in equations]


def _noise(groups: Iterable[Sequence[float]], usual: float) -> float:
    """Return the spread between trials of a configuration, by their deviations; a single trial tells nothing."""
    several = [(group, math.sqrt(len(group) / (len(group) - 1))) for group in groups if len(group) > 1]
    return _spread([deviation * scale for group, scale in several for deviation in group], usual)


def _spread(deviations: Sequence[float], usual: float) -> float:
    """Return the robust standard deviation of values around zero; a few of the usual size count, too."""
    n = len(deviations)
    seen = sorted(map(abs, deviations))[int(INTERVAL * n)] / _Z if n else 0.0
    return max((n * seen + _FEW * usual) / (n + _FEW), _LEAST_SPREAD)
