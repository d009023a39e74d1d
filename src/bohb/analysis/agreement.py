"""How well budgets agree: rank correlations, corrected agreement, and why brackets have their rungs.

Only promoted configurations have a loss on the next rung, and they were selected by their loss on the one below. Among
them that loss varies little, so that their plain correlation is too low. The regression of a loss on those below it is
not biased by the selection. Each rung is therefore regressed on the two below it, and the covariance of an unselected
population follows from these regressions and the variance of the lowest rung. For one pair of rungs this is Thorndike's
second case; for more it is the usual treatment of monotone missing data (Anderson 1957).

Losses are replaced by normal scores of their ranks, since only their order is comparable. The regressions are Bayesian,
with a prior worth four observations: neighbours correlate by 0.8, and rungs two apart by 0.7. That lies between rungs
that are steps of a random walk (0.64) and rungs that measure the same with independent noise (0.8).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket, BracketRule
from bohb.core.space import Array

PRIOR_RHO = 0.8  # correlation of neighbours
PRIOR_TWO_APART = 0.7  # correlation of rungs two apart
PRIOR_WEIGHT = 4.0  # in observations
_PRIOR_SLOPES = (  # that follow from these correlations, for one or two standardised rungs below
    np.array([PRIOR_RHO]),
    np.array([PRIOR_RHO * (1 - PRIOR_TWO_APART), PRIOR_TWO_APART - PRIOR_RHO**2]) / (1 - PRIOR_RHO**2),
)
CERTAINTY = 0.9  # of intervals
DRAWS = 400  # from the posterior
Losses = Mapping[bytes, float]  # of one rung, by configuration; +inf for a failed evaluation

_VERDICTS: Mapping[BracketRule, str] = {
    "hyperband": "published",
    "repeat": "repeated",
    "skip": "skips",
    "given": "given",
    "promote": "grown",
    "deadline": "deadline",
}


@dataclass(frozen=True, slots=True)
class Correlation:
    """Spearman's rank correlation between the losses on two budgets.

    n: configurations with a loss on both.
    rho: None for fewer than three configurations, or if all losses on one budget are equal.
    interval: about 95 % (Fisher's z with the variance of Fieller et al., 1957); None for fewer than four.
    """

    low: float
    high: float
    n: int
    rho: float | None
    interval: tuple[float, float] | None


def correlations(history: History) -> list[Correlation]:
    """Return one row per pair of budgets, the smaller budget first."""
    losses = {
        budget: {key: loss for key, loss in here.items() if math.isfinite(loss)}
        for budget, here in losses_by_budget(history).items()
    }
    rows = []
    for low, high in itertools.combinations(sorted(budget for budget in losses if losses[budget]), 2):
        both = [key for key in losses[high] if key in losses[low]]
        rho = spearman([losses[low][key] for key in both], [losses[high][key] for key in both])
        rows.append(Correlation(low, high, len(both), rho, _interval(rho, len(both))))
    return rows


def losses_by_budget(history: History) -> dict[float, dict[bytes, float]]:
    """Return the losses on each budget by configuration; +inf for a failed trial."""
    losses: dict[float, dict[bytes, float]] = {}
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        # In a finite space a configuration can be chosen again under another id.
        key = history.key(trial.config) if history.space.finite else str(trial.config_id).encode()
        losses.setdefault(trial.budget, {})[key] = outcome.ranking_loss
    return losses


def spearman(x: Sequence[float] | Array, y: Sequence[float] | Array) -> float | None:
    """Return Spearman's ρ; None for fewer than three pairs or a constant. Equal values share their mean rank."""
    if len(x) < 3:
        return None
    a, b = ranks(np.asarray(x, dtype=float)), ranks(np.asarray(y, dtype=float))
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(np.clip(a @ b / scale, -1, 1)) if scale > 0 else None


def ranks(x: Array) -> Array:
    """Return ranks from 1; equal values share their mean rank."""
    _, position, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: Array = last - (counts - 1) / 2
    return mean[position]


def _interval(rho: float | None, n: int) -> tuple[float, float] | None:
    if rho is None or n < 4:
        return None
    z, width = math.atanh(max(min(rho, 1 - 1e-12), 1e-12 - 1)), 1.96 * math.sqrt(1.06 / (n - 3))
    return min(rho, math.tanh(z - width)), max(rho, math.tanh(z + width))


@dataclass(frozen=True, slots=True)
class Agreement:
    """The posterior of the correlation of two neighbouring rungs, among all configurations.

    low, high: the two budgets.
    shared: number of configurations evaluated on both.
    rho, interval: the median, and the interval that holds 90 % of the posterior.
    """

    low: float
    high: float
    shared: int
    rho: float
    interval: tuple[float, float]


def rung_agreement(history: History) -> list[Agreement]:
    """Return the agreement of each pair of neighbouring budgets, smallest first; empty before the study begins."""
    if history.created is None:
        return []
    rng = np.random.default_rng(history.created.seed)
    return agreements(rng, history.budgets, losses_by_budget(history))


def agreements(rng: np.random.Generator, steps: Sequence[float], seen: Mapping[float, Losses]) -> list[Agreement]:
    """Return the agreement of each budget and the next, given the losses on each."""
    scores = [_scores(seen.get(step, {})) for step in steps]
    middle = np.ones((1, 1))  # the covariance of the last rungs, the newest first: of the posterior mean …
    drawn = np.ones((DRAWS, 1, 1))  # … and as drawn
    tail, found = (1 - CERTAINTY) / 2, []
    for i, (low, high) in enumerate(itertools.pairwise(steps), 1):
        regression = _regress(scores[i], scores[max(0, i - 2) : i][::-1], middle)
        slopes, noise = regression.draw(rng)
        middle = _next(middle[None], regression.slope[None], np.array([regression.noise]))[0]
        drawn = _next(drawn, slopes, noise)
        rho = drawn[:, 0, 1] / np.sqrt(drawn[:, 0, 0] * drawn[:, 1, 1])
        bottom, median, top = np.quantile(rho, [tail, 0.5, 1 - tail]).tolist()
        found.append(Agreement(low, high, len(scores[i - 1].keys() & scores[i].keys()), median, (bottom, top)))
    return found


@dataclass(frozen=True, slots=True)
class _Regression:
    """The posterior of slopes and noise: normal given the noise variance, whose inverse is gamma-distributed."""

    slope: Array
    precision: Array  # of the slopes, in units of the noise
    weight: float
    noise: float

    def draw(self, rng: np.random.Generator) -> tuple[Array, Array]:
        noise = self.noise * self.weight / rng.chisquare(self.weight, DRAWS)
        root = np.linalg.cholesky(np.linalg.inv(self.precision))
        normal = rng.standard_normal((DRAWS, len(self.slope)))
        return self.slope + np.sqrt(noise)[:, None] * normal @ root.T, noise


def _regress(above: Losses, below: Sequence[Losses], covariance: Array) -> _Regression:
    """Regress a rung's scores on those of one or two rungs below, whose covariance among all is known."""
    X, y, groups = _shared(above, below, covariance)
    # The prior is about correlations; y has the variance 1 among the promoted ones, so it has t² among all.
    selected = float(np.mean(X[:, 0] ** 2)) / covariance[0, 0] if len(y) else 1.0
    t = 1 / math.sqrt(1 - PRIOR_RHO**2 + PRIOR_RHO**2 * min(selected, 1.0))
    prior = _PRIOR_SLOPES[len(below) - 1] * t / np.sqrt(np.diag(covariance))
    weighed = PRIOR_WEIGHT * covariance
    precision = weighed + X.T @ X
    slope = np.asarray(np.linalg.solve(precision, weighed @ prior + X.T @ y), dtype=np.float64)
    weight = PRIOR_WEIGHT + max(0, len(y) - groups)
    squares = PRIOR_WEIGHT * (1 - PRIOR_RHO**2) * t**2 + y @ y + prior @ weighed @ prior - slope @ precision @ slope
    return _Regression(slope, precision, weight, max(float(squares), 1e-3 * weight) / weight)


def _shared(above: Losses, below: Sequence[Losses], covariance: Array) -> tuple[Array, Array, int]:
    """Return the centred scores of configurations evaluated on both rungs, and the number of groups.

    Configurations that started on the upper one of two rungs below form a group. They have no score on the lower one;
    the score predicted from the first is used, which adds no information.
    """
    first, second = below[0], (below[1] if len(below) > 1 else {})
    X: list[Array] = []
    y: list[Array] = []
    for whole in (True, False):
        keys = [key for key in above if key in first and (key in second) == whole]
        values = np.array([above[key] for key in keys])
        if len(keys) < 2 or np.ptp(values) == 0:  # equal values say nothing
            continue
        x = np.array([first[key] for key in keys])
        x -= x.mean()
        columns = [x]
        if len(below) > 1:
            other = np.array([second[key] for key in keys]) if whole else x * covariance[0, 1] / covariance[0, 0]
            columns.append(other - other.mean())
        X.append(np.column_stack(columns))
        y.append(values - values.mean())
    if not y:
        return np.empty((0, len(below))), np.empty(0), 0
    return np.concatenate(X), np.concatenate(y), len(y)


def _next(known: Array, slopes: Array, noise: Array) -> Array:
    """Return the covariances of the next rung and the last one; it depends on the last rungs by slopes and noise."""
    across = np.einsum("db,dbj->dj", slopes, known)
    variance = np.einsum("db,db->d", slopes, across) + noise
    rows = [[variance, across[:, 0]], [across[:, 0], known[:, 0, 0]]]
    return np.moveaxis(np.array(rows), -1, 0)


def _scores(losses: Losses) -> dict[bytes, float]:
    return dict(zip(losses, normal_scores(np.array(list(losses.values()))).tolist(), strict=True))


def normal_scores(losses: Array) -> Array:
    """Return the normal quantiles of the losses' ranks; equal losses share one."""
    return np.asarray(ndtri((ranks(losses) - 0.5) / max(1, len(losses))))


@dataclass(frozen=True, slots=True)
class BracketChoice:
    """One opened or planned bracket, and why it has its rungs.

    start: the budget of its first rung.
    verdict: "published" if it is the next one of Hyperband, or "given" if the user wanted a configuration there,
        "deadline" if it was chosen to end in time, "grown" if it continues the best configurations after the largest
        budget has grown, "skips" if it leaves out lower rungs that do not pay, "repeated" if it repeats a bracket of
        Hyperband that is unfinished.

    In an informed study, unless they are empty:

    starts, gains: the budgets it could have started on, and the expected gain of each: how far below the mean its best
        configuration was expected to be on the largest budget, in standard deviations.
    to_top: the expected correlation of a result on each of the smaller budgets with one on the largest, for promising
        configurations.
    """

    index: int
    bracket: Bracket
    start: float
    verdict: str
    starts: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()
    to_top: tuple[float, ...] = ()


def bracket_choice(history: History, index: int) -> BracketChoice:
    """Return why a bracket has its rungs."""
    opened = index < len(history.brackets)
    bracket = history.brackets[index].bracket if opened else history.schedule.plan(index)
    start = bracket.rungs[0].budget
    event = history.schedule.planned.get(index)
    if event is None:
        return BracketChoice(index, bracket, start, "published")
    starts, gains, to_top = (tuple(event.reason.get(name, ())) for name in ("starts", "gains", "to_top"))
    return BracketChoice(index, bracket, start, _VERDICTS[event.rule], starts, gains, to_top)


def bracket_choices(history: History) -> list[BracketChoice]:
    """Return the choices of all brackets in order."""
    known = max([len(history.brackets), *(index + 1 for index in history.schedule.planned)])
    return [bracket_choice(history, index) for index in range(known)]
