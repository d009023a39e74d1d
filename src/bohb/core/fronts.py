"""Comparing results by several losses: dominance, ranks, an order along a front, and hypervolume.

A result dominates another if none of its losses is higher and one is lower. The front consists of the results that no
other dominates. All losses are minimised. These functions depend on the order of losses and on differences relative to
their range, so that the unit of a loss does not matter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Order = NDArray[np.intp]

_DECIMALS = 9  # of distances along a front; those that differ by less count as equal


def dominated_by(losses: Array, by: Array) -> NDArray[np.bool_]:
    """Return which rows of `losses` some row of `by` dominates."""
    at_most = (by[None, :, :] <= losses[:, None, :]).all(axis=2)
    less = (by[None, :, :] < losses[:, None, :]).any(axis=2)
    return np.asarray(np.any(np.logical_and(at_most, less), axis=1))


def first_front(losses: Array) -> Order:
    """Return the rows that no other row dominates."""
    return np.flatnonzero(ranks(losses, most=1) == 0)


def ranks(losses: Array, most: int | None = None) -> Order:
    """Return the non-dominated rank of every row: 0 on the front, 1 on the front of the others, and so on.

    most: the number of fronts that are told apart; the rows behind them share the next rank.
    """
    found = np.zeros(len(losses), dtype=np.intp)
    order = np.lexsort(losses.T[::-1])  # by the first loss, then the second: a row is dominated only by earlier ones
    left = losses[order]
    rank = 0
    while len(left) and (most is None or rank < most):
        behind = _behind_front(left)
        found[order[behind]] = rank + 1
        order, left = order[behind], left[behind]
        rank += 1
    return found


def _behind_front(losses: Array) -> NDArray[np.bool_]:
    """Return which rows, sorted by their losses, are dominated."""
    behind = np.zeros(len(losses), dtype=np.bool_)
    for i, row in enumerate(losses):
        if not behind[i]:
            rest = losses[i + 1 :]
            behind[i + 1 :] |= (rest >= row).all(axis=1) & (rest > row).any(axis=1)
    return behind


def epsilon_net(losses: Array) -> Order:
    """Return the rows in an order that spreads along the front (Schmucker et al. 2021).

    The lowest first loss comes first; then always the row that is farthest from all before it. Losses count relative to
    their range among these rows; equal rows keep their order.
    """
    if len(losses) == 0:
        return np.zeros(0, dtype=np.intp)
    low, high = losses.min(axis=0), losses.max(axis=0)
    scaled = (losses / 2 - low / 2) / np.where(high > low, high / 2 - low / 2, 1.0)  # halves do not overflow
    chosen = [int(np.lexsort(losses.T[::-1])[0])]
    distance = np.full(len(losses), np.inf)
    while len(chosen) < len(losses):
        distance = np.minimum(distance, np.round(((scaled - scaled[chosen[-1]]) ** 2).sum(axis=1), _DECIMALS))
        distance[chosen] = -1.0
        chosen.append(int(np.argmax(distance)))
    return np.array(chosen, dtype=np.intp)


def levels(standings: Array) -> Order:
    """Return how good results are, 0 for the best; equal levels are ties.

    standings: one row per result: its violation of constraints (0 if it keeps them, +inf if it failed), then its
        losses. Feasible results come first, by non-dominated rank; the others by their violation.
    """
    violation = standings[:, 0]
    found = np.zeros(len(standings), dtype=np.intp)
    feasible = violation == 0
    found[feasible] = ranks(standings[feasible, 1:])
    first = int(found[feasible].max(initial=-1)) + 1
    found[~feasible] = first + np.unique(violation[~feasible], return_inverse=True)[1]
    return found


def ranked(standings: Array) -> Order:
    """Return the rows of `standings` from best to worst: by level, and along a front by `epsilon_net`.

    Infeasible results with equal violations are ordered by their first losses.
    """
    level = levels(standings)
    order: list[int] = []
    for value in range(int(level.max(initial=-1)) + 1):
        rows = np.flatnonzero(level == value)
        finite = np.isfinite(standings[rows]).all(axis=1)
        along = epsilon_net(standings[rows[finite], 1:]) if len(rows) > 1 else np.arange(int(finite.sum()))
        order += rows[finite][along].tolist()
        order += rows[~finite].tolist()
    return np.array(order, dtype=np.intp)


def cells(front: Array, reference: Array) -> tuple[Array, Array]:
    """Return the lower and upper corners of disjoint boxes that cover what a front does not dominate, (b, m) each.

    They reach up to the reference point, and downwards without end. With two losses there is one box more than points.
    """
    m = len(reference)
    if m == 1:
        best = min([float(reference[0]), *front[:, 0].tolist()])
        return np.array([[-np.inf]]), np.array([[best]])
    inside = front[(front < reference).all(axis=1)]
    inside = inside[np.argsort(inside[:, -1], kind="stable")]
    edges = np.unique(np.concatenate([[-np.inf], inside[:, -1], [reference[-1]]]))
    lower, upper = [], []
    for low, high in itertools.pairwise(edges.tolist()):
        below = inside[inside[:, -1] <= low, :-1]
        lows, highs = cells(_front_of(below), reference[:-1])
        lower.append(np.column_stack([lows, np.full(len(lows), low)]))
        upper.append(np.column_stack([highs, np.full(len(highs), high)]))
    return np.concatenate(lower), np.concatenate(upper)


def hypervolume(losses: Iterable[Sequence[float]], reference: Sequence[float]) -> float:
    """Return the volume that results dominate below a reference point; exact, by slices of the last loss.

    Two losses take O(n log n); each further one multiplies by n, which suits fronts of up to a few hundred results.
    """
    corner = np.asarray(reference, dtype=np.float64)
    points = np.array([row for row in losses if all(a < b for a, b in zip(row, reference, strict=True))], dtype=float)
    return _volume(points.reshape(-1, len(corner)), corner)


def _volume(points: Array, corner: Array) -> float:
    if not len(points):
        return 0.0
    if len(corner) == 1:
        return float(corner[0] - points.min())
    points = points[np.lexsort(points.T)]  # by the last loss
    if len(corner) == 2:
        return _area(points, corner)
    ends = np.append(points[1:, -1], corner[-1])
    return sum(
        float(end - point[-1]) * _volume(_front_of(points[: i + 1, :-1]), corner[:-1])
        for i, (point, end) in enumerate(zip(points, ends, strict=True))
        if end > point[-1]
    )


def _area(points: Array, corner: Array) -> float:
    """Return the dominated area of points that are sorted by their second loss."""
    lowest = np.minimum.accumulate(points[:, 0])
    ends = np.append(points[1:, 1], corner[1])
    return float(((corner[0] - lowest) * (ends - points[:, 1])).sum())


def _front_of(points: Array) -> Array:
    return points[first_front(points)]
