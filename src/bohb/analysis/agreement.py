"""How well budgets agree: rank correlations, and why brackets have their rungs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bohb.core.history import History
from bohb.core.schedule.brackets import Bracket, BracketRule
from bohb.core.space import Array

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
