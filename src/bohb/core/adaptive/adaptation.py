"""Which bracket opens next in an adaptive study: as published, or the one that promises most by how rungs agree.

Every third bracket is as published, in Hyperband's order, so that Hyperband's guarantee holds up to a constant factor.
Each of the others is the bracket of a Hyperband round, perhaps of one with smaller budgets, whose best configuration
is expected to end lowest on the largest budget, at equal cost. If the lowest rung misleads, brackets that start above
promise more; if it agrees well, lower ones come into question that the study did not have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bohb.core.adaptive.agreement import Agreement, Losses, agreements, correlations
from bohb.core.schedule.brackets import Bracket, Rung, hyperband
from bohb.core.space import Array

MOST_LOWERED = 2  # rungs below the smallest budget …
MOST_RUNGS = 6  # … and none where there would be more than so many: the first of such a bracket has 243 configurations
FEWEST_RUNGS = 3  # with fewer, lower ones are tried at once
LOWER_FROM = 0.7  # the agreement that the lowest rung must almost certainly have, before a lower one is tried
SETTLED_FROM = 0.95  # … and the last two, before a bracket passes only one configuration on to the top
_ENOUGH = 8  # configurations seen on both rungs, before either is believed
_CANDIDATES = 30_000  # configurations drawn to estimate the gain of one bracket
_BEST_OF_TWO = 1 / math.sqrt(math.pi)  # the mean of the larger of two normal numbers


@dataclass(frozen=True, slots=True)
class Choice:
    """A bracket and the numbers it was chosen by, as they are stored."""

    bracket: Bracket
    reason: dict[str, Any]


def lowered(budgets: Sequence[float], eta: float) -> list[float]:
    """The budgets that may come into question below the smallest, the next one first; whole ones stay whole."""
    whole = all(float(budget).is_integer() for budget in budgets)
    found: list[float] = []
    for step in range(1, MOST_LOWERED + 1):
        exact = _exact(budgets[0]) / _exact(eta) ** step
        below = math.ceil(exact) if whole else float(exact)
        if below >= min([*found, budgets[0]]) or len(found) + len(budgets) >= MOST_RUNGS:
            break
        found.append(below if isinstance(budgets[0], int) else float(below))
    return found


def ladder(
    rng: np.random.Generator, budgets: Sequence[float], eta: float, seen: Mapping[float, Losses]
) -> tuple[list[float], list[Agreement], Array]:
    """The budgets in question, smallest first, how neighbours agree, and draws of all their correlations.

    A lower budget comes into question if the lowest agrees well with the next, or if there are so few that nothing
    much can be learnt from them.
    """
    steps = list(budgets)
    draws = correlations(rng, steps, seen)
    known = agreements(steps, seen, draws)
    for below in lowered(budgets, eta):
        if len(steps) >= FEWEST_RUNGS and not _surely(known[0], LOWER_FROM):
            break
        steps.insert(0, below)
        draws = correlations(rng, steps, seen)
        known = agreements(steps, seen, draws)
    return steps, known, draws


def choose_bracket(
    rng: np.random.Generator,
    budgets: Sequence[float],
    eta: float,
    seen: Mapping[float, Losses],
    sizes: str = "paper",
) -> Choice:
    """The bracket that promises most, if rungs agree as drawn from what is likely (Thompson's rule).

    budgets: those of the published brackets, smallest first.
    seen: the losses on each budget, by configuration.
    sizes: as for `hyperband`.
    """
    steps, known, draws = ladder(rng, budgets, eta, seen)
    drawn = draws[0]
    settled = bool(known) and _surely(known[-1], SETTLED_FROM)
    candidates = [_settled(bracket) if settled else bracket for bracket in hyperband(steps, eta, sizes)]
    dearest = max(bracket.cost for bracket in candidates)
    gains = []
    for start, bracket in enumerate(candidates):
        mean, deviation = expected_gain(rng, _without_failures(bracket, seen), drawn[start:, start:])
        # A cheaper bracket can be had more often: twice as often means the better of two.
        gains.append(mean + deviation * _BEST_OF_TWO * math.log2(dearest / bracket.cost))
    start = int(np.argmax(gains))
    reason = {
        "lowest": budgets[0],
        "starts": steps,
        "gains": [round(gain, 4) for gain in gains],
        "agreement": [_numbers(pair, float(drawn[i, i + 1])) for i, pair in enumerate(known)],
        "settled": settled,
    }
    return Choice(candidates[start], reason)


def expected_gain(rng: np.random.Generator, sizes: Sequence[int], correlation: Array) -> tuple[float, float]:
    """How far below the mean, in standard deviations, the best of a bracket is expected to end at the top, and by how
    much that varies.

    Losses on its rungs are drawn as normal with the given correlations; each rung passes on its best.
    """
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation)))
    repeats = max(8, _CANDIDATES // sizes[0])
    parts: list[Array] = []  # of the configurations that are left: what each rung's loss adds to those before
    losses = np.empty((repeats, sizes[0]))
    for rung, size in enumerate(sizes):
        if size < losses.shape[1]:
            best = np.argpartition(losses, size - 1, axis=1)[:, :size]
            parts = [np.take_along_axis(part, best, axis=1) for part in parts]
            losses = losses[:, :size]
        parts.append(rng.standard_normal(losses.shape))
        losses = sum((root[rung, j] * part for j, part in enumerate(parts)), np.zeros(losses.shape))
    best_losses = losses.min(axis=1)
    return float(-best_losses.mean()), float(best_losses.std())


def _settled(bracket: Bracket) -> Bracket:
    """The same bracket, but it passes a single configuration on to the top."""
    if len(bracket.rungs) == 1:
        return bracket
    return Bracket((*bracket.rungs[:-1], Rung(bracket.rungs[-1].budget, 1)))


def _without_failures(bracket: Bracket, seen: Mapping[float, Losses]) -> list[int]:
    """The sizes of the rungs; of the first only as many as will have a loss, by how often it failed so far.

    It is weighed against the next rung: what fails everywhere is no fault of the smaller budget.
    """
    sizes = [rung.size for rung in bracket.rungs]
    if len(sizes) > 1:
        here, above = (_success(seen.get(rung.budget, {})) for rung in bracket.rungs[:2])
        sizes[0] = max(1, round(sizes[0] * min(1.0, here / above)))
    return [min(size, sizes[0]) for size in sizes]


def _success(losses: Losses) -> float:
    """The share of evaluations that end with a loss; a little less is believed while there are few."""
    return (sum(map(math.isfinite, losses.values())) + 1) / (len(losses) + 1)


def _exact(number: float) -> Fraction:
    """A number as its decimal form says it, as in `brackets`."""
    return Fraction(repr(float(number)))


def _surely(pair: Agreement, rho: float) -> bool:
    return pair.shared >= _ENOUGH and pair.interval[0] >= rho


def _numbers(pair: Agreement, drawn: float) -> dict[str, Any]:
    """An agreement as it is stored."""
    return {
        "low": pair.low,
        "high": pair.high,
        "shared": pair.shared,
        "rho": round(pair.rho, 4),
        "interval": [round(bound, 4) for bound in pair.interval],
        "to_top": round(pair.to_top, 4),
        "drawn": round(drawn, 4),
    }
