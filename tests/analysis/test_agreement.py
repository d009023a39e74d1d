"""Estimates of the agreement of rungs are right, although only promoted configurations run on both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from bohb.analysis.agreement import PRIOR_RHO, agreements, normal_scores

STEPS = [1.0, 3.0, 9.0, 27.0]


def halved(
    rng: np.random.Generator, losses: list[np.ndarray], eta: int = 3, at_random: int = 1
) -> dict[float, dict[bytes, float]]:
    """Each rung's losses of those that the rung below passed on: its best third, one of them at random instead."""
    alive = np.arange(len(losses[0]))
    seen: dict[float, dict[bytes, float]] = {}
    for step, column in enumerate(losses):
        # The scale of losses is arbitrary.
        seen[float(eta**step)] = {b"%d" % i: math.exp(2 * column[i] + step) for i in alive}
        order = alive[np.argsort(column[alive])]
        keep = max(1, len(alive) // eta)
        chance = at_random if keep >= 4 else 0
        alive = np.concatenate([order[: keep - chance], rng.choice(order[keep - chance :], chance, replace=False)])
    return seen


def walk(rng: np.random.Generator, rho: float, n: int, rungs: int = 4) -> list[np.ndarray]:
    """Return losses whose rungs are steps of a random walk, with correlation rho of neighbours."""
    found = [rng.standard_normal(n)]
    for _ in range(rungs - 1):
        found.append(rho * found[-1] + math.sqrt(1 - rho**2) * rng.standard_normal(n))
    return found


def plain(seen: dict[float, dict[bytes, float]], low: float, high: float) -> float:
    """Return the plain correlation of configurations that ran on both rungs."""
    both = [key for key in seen[high] if key in seen[low]]
    scores = [normal_scores(np.array([seen[step][key] for key in both])) for step in (low, high)]
    return float(np.asarray(np.corrcoef(scores))[0, 1])


@pytest.mark.parametrize("at_random", [0, 1])
@pytest.mark.parametrize("rho", [0.4, 0.6, 0.8, 0.9])
def test_selection_makes_the_plain_correlation_too_small_and_the_correction_repairs_it(
    rho: float, at_random: int
) -> None:
    """Over 200 repetitions, the mean error is below .07 and .1 on the two pairs; that of the plain estimate is .15."""
    rng = np.random.default_rng(5)
    uncorrected, repaired = [], []
    for _ in range(200):
        seen = halved(rng, walk(rng, rho, 243, 3), at_random=at_random)
        repaired.append([pair.rho for pair in agreements(rng, STEPS[:3], seen)])
        uncorrected.append([plain(seen, 1, 3), plain(seen, 3, 9)])
    first, second = np.mean(repaired, axis=0)
    assert abs(first - rho) < 0.07
    assert abs(second - rho) < (0.1 if rho >= 0.6 else 0.2)  # fewer results there, so the prior has more weight
    assert np.all(np.mean(uncorrected, axis=0) < rho - 0.12)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(6)
    inside = {0.4: 0, 0.6: 0, 0.8: 0, 0.9: 0}
    for rho in inside:
        for _ in range(200):
            low, high = agreements(rng, STEPS[:2], halved(rng, walk(rng, rho, 81, 2)))[0].interval
            inside[rho] += low <= rho <= high
    assert all(times >= 160 for rho, times in inside.items() if rho < 0.9), inside
    assert inside[0.9] >= 130  # prior and ranks both lower it


def test_more_configurations_make_it_more_certain() -> None:
    rng = np.random.default_rng(7)
    widths = [
        np.ptp(agreements(rng, STEPS[:2], halved(rng, walk(rng, 0.7, n, 2)))[0].interval) for n in (9, 27, 243, 729)
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.2


def numbered(losses: list[float]) -> dict[bytes, float]:
    return {bytes([i]): loss for i, loss in enumerate(losses)}


@pytest.mark.parametrize(
    ("below", "above"),
    [
        ({}, {}),
        (numbered([1.0]), numbered([2.0])),
        (numbered([1.0] * 20), numbered([1.0] * 20)),
        (numbered([math.inf] * 20), numbered([math.inf] * 20)),
        (numbered([1.0] * 20), {}),
        ({}, numbered([1.0, 2.0, 3.0])),
    ],
    ids=["nothing", "one", "constant", "all failed", "nothing above", "nothing below"],
)
def test_where_nothing_can_be_seen_the_prior_speaks(below: dict[bytes, float], above: dict[bytes, float]) -> None:
    first, _, last = agreements(np.random.default_rng(0), STEPS, {1.0: below, 3.0: above})
    assert first.rho == pytest.approx(PRIOR_RHO, abs=0.25)
    assert last.rho == pytest.approx(PRIOR_RHO, abs=0.05)
    assert first.interval[0] < 0.6
    assert all(-1 <= pair.interval[0] < pair.rho < pair.interval[1] <= 1 for pair in (first, last))


def test_one_rung_has_nothing_to_agree_with() -> None:
    assert agreements(np.random.default_rng(0), [9.0], {9.0: {b"a": 1.0}}) == []


def test_failures_stand_last() -> None:
    below = numbered([float(i) for i in range(30)])
    rng = np.random.default_rng(0)
    good = numbered([float(i) if i < 20 else math.inf for i in range(30)])
    bad = numbered([float(i) if i >= 20 else math.inf for i in range(30)])
    assert agreements(rng, STEPS[:2], {1.0: below, 3.0: good})[0].rho > 0.85
    assert agreements(rng, STEPS[:2], {1.0: below, 3.0: bad})[0].rho < 0.1


def test_the_same_and_the_opposite_ranks() -> None:
    up, down = numbered([float(i) for i in range(12)]), numbered([-float(i) for i in range(12)])
    rng = np.random.default_rng(0)
    assert 0.9 < agreements(rng, STEPS[:2], {1.0: up, 3.0: up})[0].rho < 1
    assert agreements(rng, STEPS[:2], {1.0: up, 3.0: down})[0].rho < -0.2


def test_scores_are_quantiles_by_rank() -> None:
    found = normal_scores(np.array([3.0, 1.0, math.inf, 1.0]))
    assert found == pytest.approx(norm.ppf([0.625, 0.25, 0.875, 0.25]))
