"""D_b: all observations on one budget, sorted by loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bohb.core.order import ranked

Array = NDArray[np.float64]


class Observations:
    """Vectors and losses of one budget; a failed evaluation has the loss +inf.

    New observations are sorted and inserted when the order is needed, so that `ask` never sorts all of them. Arrays
    double in size when they are full.
    """

    def __init__(self, d: int) -> None:
        self._vectors = np.empty((16, d))
        self._unordered = np.empty(16)  # losses in the order of arrival
        self._losses = np.empty(0)  # ascending, of those that are in order
        self._order = np.empty(0, dtype=np.intp)  # _vectors[_order[i]] has _losses[i]
        self.n = 0
        self.n_finite = 0

    def __len__(self) -> int:
        return self.n

    def add(self, vector: Array, loss: float) -> None:
        """Add one observation; it comes last among equal losses."""
        if self.n == len(self._unordered):
            self._vectors = np.resize(self._vectors, (2 * self.n, self._vectors.shape[1]))
            self._unordered = np.resize(self._unordered, 2 * self.n)
        self._vectors[self.n] = vector
        self._unordered[self.n] = loss
        self.n += 1
        self.n_finite += math.isfinite(loss)

    def ranked(self, start: int, stop: int) -> Array:
        """Return the vectors from rank `start` to `stop`, best first."""
        self._put_in_order()
        return self._vectors.take(self._order[start:stop], axis=0)

    @property
    def losses(self) -> Array:
        """All losses, ascending."""
        self._put_in_order()
        return self._losses

    def _put_in_order(self) -> None:
        start = len(self._order)
        if start < self.n:
            fresh = self._unordered[start : self.n]
            by_loss = np.argsort(fresh, kind="stable")
            at = np.searchsorted(self._losses, fresh[by_loss], side="right")
            self._order = np.insert(self._order, at, start + by_loss)
            self._losses = np.insert(self._losses, at, fresh[by_loss])


class RankedObservations(Observations):
    """Observations of a study with several objectives or constraints, sorted by the order of `order.ranked`.

    Every new observation can change the ranks of the others, so all are sorted again when the order is needed.
    """

    def __init__(self, d: int) -> None:
        super().__init__(d)
        self._standings: list[Sequence[float]] = []

    def add_standing(self, vector: Array, standing: Sequence[float]) -> None:
        """Add one observation with its violation and losses; `losses` will have the first of them."""
        self.add(vector, standing[1])
        self._standings.append(standing)

    def _put_in_order(self) -> None:
        if len(self._order) < self.n:
            self._order = ranked(np.array(self._standings))
            self._losses = self._unordered[self._order]
