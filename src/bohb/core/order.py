"""How results compare: which trials of a rung are best, the front of several losses, and its hypervolume.

With one objective and no constraint, the loss decides. Otherwise feasible results come first, by non-dominated rank and
then spread along their front; infeasible ones follow by how much they violate the constraints.

A result dominates another if none of its losses is higher and one is lower. The front consists of the results that no
other dominates. All losses are minimised. Only the order of losses and differences relative to their range count, so
that the unit of a loss does not matter.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.core.goals import Goals
from bohb.core.trial import Outcome

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_DECIMALS = 9  # of distances along a front; those that differ by less count as equal


@dataclass(frozen=True, slots=True)
class Order:
    """Compares the finished trials of a study, given their numbers."""

    goals: Goals
    outcomes: Mapping[int, Outcome]

    def best_first(self, numbers: Iterable[int]) -> list[int]:
        """Return the trials of one rung from best to worst, without failed ones."""
        ok = sorted(number for number in numbers if self.outcomes[number].ok)
        if self.goals.single:
            return sorted(ok, key=lambda number: self.outcomes[number].ranking_loss)
        return [ok[i] for i in ranked(self._standings(ok))]

    def levels(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return what to compare trials of one budget by, lower is better: the loss, or the level; +inf if failed."""
        known = list(numbers)
        if self.goals.single:
            return {number: self.outcomes[number].ranking_loss for number in known}
        ok = [number for number in known if self.outcomes[number].ok]
        found = levels(self._standings(ok)).astype(float).tolist()
        return dict.fromkeys(known, math.inf) | dict(zip(ok, found, strict=True))

    def _standings(self, numbers: Iterable[int]) -> Array:
        found = [self.goals.standing(self.outcomes[n].loss, self.outcomes[n].values) for n in numbers]
        return np.array(found).reshape(-1, 1 + len(self.goals.objectives))


def first_front(losses: Array) -> Indices:
    """Return the rows that no other row dominates."""
    return np.flatnonzero(ranks(losses, most=1) == 0)


def ranks(losses: Array, most: int | None = None) -> Indices:
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


def epsilon_net(losses: Array) -> Indices:
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


def levels(standings: Array) -> Indices:
    """Return how good results are, 0 for the best; equal levels are ties.

    standings: one row per result, as `Goals.standing` returns it.
    """
    violation = standings[:, 0]
    found = np.zeros(len(standings), dtype=np.intp)
    feasible = violation == 0
    found[feasible] = ranks(standings[feasible, 1:])
    first = int(found[feasible].max(initial=-1)) + 1
    found[~feasible] = first + np.unique(violation[~feasible], return_inverse=True)[1]
    return found


def ranked(standings: Array) -> Indices:
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
