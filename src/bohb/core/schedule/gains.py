"""Which bracket opens next in an adaptive study: Hyperband's, or the one with the highest expected gain.

Every third bracket is Hyperband's, in its order, so that Hyperband's guarantee holds up to a constant factor. Each of
the others is the bracket of a Hyperband round, perhaps of one with smaller budgets, whose best configuration is
expected to have the lowest loss on the largest budget, at equal cost. If the lowest rung misleads, brackets that start
higher gain more; if it agrees well with the next one, lower budgets become candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bohb.core.schedule.brackets import LARGEST_BRACKET, Bracket, Rung, hyperband
from bohb.core.schedule.correlations import Agreement, Losses, agreements, correlations
from bohb.core.space import Array

MOST_LOWERED = 2  # rungs that may be added below the smallest budget
MOST_RUNGS = 6  # with more, the first rung of a bracket would have over 243 configurations
FEWEST_RUNGS = 3  # with fewer rungs, lower ones are tried at once
LOWER_FROM = 0.7  # agreement of the two lowest rungs from which a lower one is tried
SETTLED_FROM = 0.95  # agreement of the two highest rungs from which only one configuration is promoted to the top
GAIN_DECIMALS = 4
_ENOUGH = 8  # configurations evaluated on both rungs before an agreement is trusted
_CANDIDATES = 30_000  # configurations drawn to estimate the gain of one bracket
_BEST_OF_TWO = 1 / math.sqrt(math.pi)  # the expectation of the larger of two standard normal numbers


@dataclass(frozen=True, slots=True)
class Choice:
    """A bracket, and the numbers that it was chosen by, which are stored."""

    bracket: Bracket
    reason: dict[str, Any]


def lowered(budgets: Sequence[float], eta: float) -> list[float]:
    """Return candidate budgets below the smallest, nearest first; whole budgets stay whole."""
    whole = all(float(budget).is_integer() for budget in budgets)
    found: list[float] = []
    for step in range(1, MOST_LOWERED + 1):
        if _exact(eta) ** (len(budgets) + len(found)) > LARGEST_BRACKET:
            break
        exact = _exact(budgets[0]) / _exact(eta) ** step
        below = math.ceil(exact) if whole else float(exact)
        if below >= min([*found, budgets[0]]) or len(found) + len(budgets) >= MOST_RUNGS:
            break
        found.append(below if isinstance(budgets[0], int) else float(below))
    return found


def ladder(
    rng: np.random.Generator, budgets: Sequence[float], eta: float, seen: Mapping[float, Losses]
) -> tuple[list[float], list[Agreement], Array]:
    """Return the candidate budgets, ascending, the agreement of neighbours, and draws of all correlations.

    A lower budget is added if the lowest one agrees well with the next, or if there are fewer than three.
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
    """Return the bracket of highest gain, given one draw of the correlations from their posterior (Thompson sampling).

    budgets: those of Hyperband's brackets, ascending.
    seen: the losses on each budget, by configuration.
    sizes: as for `hyperband`.
    """
    steps, known, draws = ladder(rng, budgets, eta, seen)
    drawn = draws[0]
    settled = bool(known) and _surely(known[-1], SETTLED_FROM)
    candidates = [_settled(bracket) if settled else bracket for bracket in hyperband(steps, eta, sizes)]
    gains = bracket_gains(rng, candidates, drawn, seen)
    start = int(np.argmax(gains))
    reason = {
        "lowest": budgets[0],
        "starts": steps,
        "gains": [round(gain, GAIN_DECIMALS) for gain in gains],
        "agreement": [_numbers(pair, float(drawn[i, i + 1])) for i, pair in enumerate(known)],
        "settled": settled,
    }
    return Choice(candidates[start], reason)


def bracket_gains(
    rng: np.random.Generator,
    brackets: Sequence[Bracket],
    correlation: Array,
    seen: Mapping[float, Losses] | None = None,
) -> list[float]:
    """Return the gain of each bracket of a round at equal cost; `expected_gain` says what that is.

    correlation: of the losses on all budgets of the round, ascending.
    seen: the losses on each budget; a rung on which evaluations fail has fewer configurations to choose from.
    """
    dearest = max(bracket.cost for bracket in brackets)
    gains = []
    for start, bracket in enumerate(brackets):
        mean, deviation = expected_gain(rng, _without_failures(bracket, seen or {}), correlation[start:, start:])
        # A bracket of half the cost can run twice, which yields the better of two results.
        gains.append(mean + deviation * _BEST_OF_TWO * math.log2(dearest / bracket.cost))
    return gains


def expected_gain(rng: np.random.Generator, sizes: Sequence[int], correlation: Array) -> tuple[float, float]:
    """Return how far below the mean the best configuration of a bracket ends at the top, and the deviation of that.

    Both are in standard deviations of the losses. Losses are simulated as normal with the given correlations; each rung
    promotes its best.
    """
    root = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation)))
    repeats = max(8, _CANDIDATES // sizes[0])
    parts: list[Array] = []  # per rung, the independent part of the losses of the configurations that are left
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
    """Return the bracket with a single configuration on its last rung."""
    if len(bracket.rungs) == 1:
        return bracket
    return Bracket((*bracket.rungs[:-1], Rung(bracket.rungs[-1].budget, 1)))


def _without_failures(bracket: Bracket, seen: Mapping[float, Losses]) -> list[int]:
    """Return the sizes of the rungs, the first one reduced by the share of its evaluations that fail.

    The share is relative to the next rung: failures on all budgets say nothing about the smallest.
    """
    sizes = [rung.size for rung in bracket.rungs]
    if len(sizes) > 1:
        here, above = (_success(seen.get(rung.budget, {})) for rung in bracket.rungs[:2])
        sizes[0] = max(1, round(sizes[0] * min(1.0, here / above)))
    return [min(size, sizes[0]) for size in sizes]


def _success(losses: Losses) -> float:
    """Return the share of evaluations with a loss, with one success added as a prior."""
    return (sum(map(math.isfinite, losses.values())) + 1) / (len(losses) + 1)


def _exact(number: float) -> Fraction:
    """Return a number as the fraction of its decimal form, as in `brackets`."""
    return Fraction(repr(float(number)))


def _surely(pair: Agreement, rho: float) -> bool:
    return pair.shared >= _ENOUGH and pair.interval[0] >= rho


def _numbers(pair: Agreement, drawn: float) -> dict[str, Any]:
    """Return an agreement as it is stored."""
    return {
        "low": pair.low,
        "high": pair.high,
        "shared": pair.shared,
        "rho": round(pair.rho, 4),
        "interval": [round(bound, 4) for bound in pair.interval],
        "to_top": round(pair.to_top, 4),
        "drawn": round(drawn, 4),
    }
