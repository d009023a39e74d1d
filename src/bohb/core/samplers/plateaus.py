"""Plateaus: regions in which all configurations have exactly the same loss.

Tables have plateaus, and so have objectives that round their hyperparameters. A second configuration on a plateau
brings nothing, whatever the process expects of it. The size of plateaus is learnt from the study's results:

    P(x and x′ are on one plateau) = exp(−|φ(x) − φ(x′)|² / w²)

w is fitted to whether nearest neighbours on a rung have equal losses. Losses can also be equal by chance, for instance
error rates of few examples; pairs that are far apart show how often. Without equal losses w is 0, and nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bohb.core.samplers.process import squared_distances
from bohb.core.space import Array

_WIDTHS = np.geomspace(1e-3, 3.0, 40)
_DECIMALS = 9  # of distances, and …
_LOG_DECIMALS = 6  # … of likelihoods; rounding hides the last bits, in which mathematical libraries differ
_NEAREST = 1e-6  # the least squared distance, in units of w²; closer configurations count as this close
_FARTHEST = 16.0  # the largest one that counts
_LEAST_CHANCE = 1e-12  # so that no likelihood is 0


@dataclass(frozen=True, slots=True)
class Plateaus:
    """What is known about plateaus.

    width: w; 0 if there are none.
    points: φ of the known and running configurations of this study, one row each.
    """

    width: float
    points: Array

    def log_new(self, points: Array) -> Array:
        """Return log P(the point is not on the plateau of a known configuration) for each of the points."""
        if not self.width:
            return np.zeros(len(points))
        apart = squared_distances(points, self.points) / self.width**2
        rows, columns = np.nonzero(apart < _FARTHEST)
        near = np.maximum(apart[rows, columns], _NEAREST)
        return np.asarray(np.bincount(rows, np.log(-np.expm1(-near)), len(points)), dtype=np.float64)


def plateau_width(points: Array, rung: NDArray[np.intp], losses: Array) -> float:
    """Return the most likely w given the losses of points on rungs; 0 if chance explains equal losses as well."""
    if len(set(zip(rung.tolist(), losses.tolist(), strict=True))) == len(losses):
        return 0.0
    distances, equal, by_chance = [], [], []
    for apart, same in _by_rung(points, rung, losses):
        pairs = np.triu_indices(len(apart), 1)
        by_chance.append(same[pairs][apart[pairs] >= np.median(apart[pairs])])
        np.fill_diagonal(apart, math.inf)
        distances.append(apart.min(axis=1))
        equal.append(same[np.arange(len(same)), apart.argmin(axis=1)])
    chance = float(np.concatenate(by_chance).mean())
    nearest, same = np.concatenate(distances)[:, None], np.concatenate(equal)[:, None]
    if not same.any():
        return 0.0
    together = np.hstack([np.zeros_like(nearest), np.exp(-nearest / _WIDTHS**2)])  # the first column is for w = 0
    p = np.clip(chance + (1 - chance) * together, _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    likelihood = np.where(same, np.log(p), np.log1p(-p)).sum(axis=0)
    return float([0.0, *_WIDTHS][np.round(likelihood, _LOG_DECIMALS).argmax()])


def _by_rung(points: Array, rung: NDArray[np.intp], losses: Array) -> Iterator[tuple[Array, NDArray[np.bool_]]]:
    """Return for every rung the squared distances of its points, and which losses are equal."""
    for each in np.unique(rung):
        here = np.flatnonzero(rung == each)
        if len(here) > 1:
            apart = np.round(squared_distances(points[here], points[here]), _DECIMALS)  # choices are often equally far
            yield apart, losses[here, None] == losses[here]
