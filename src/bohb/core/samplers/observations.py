"""D_b: all observations on one budget, sorted by loss."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bohb.core.order import ranked

Array = NDArray[np.float64]
_MANY = 32  # more new observations than this are sorted, fewer are inserted one by one


class Observations:
    """Vectors and losses of one budget; a failed evaluation has the loss +inf.

    New observations are put in order when the order is needed: a few by binary search, so that `ask` never sorts, and
    many, as when a stored study is opened, by one sort. Arrays double in size when they are full.
    """

    def __init__(self, d: int) -> None:
        self._vectors = np.empty((16, d))
        self._unordered = np.empty(16)  # losses in the order of arrival
        self._losses = np.empty(16)  # ascending
        self._order = np.empty(16, dtype=np.int64)  # _vectors[_order[i]] has _losses[i]
        self._n_ordered = 0
        self.n = 0
        self.n_finite = 0

    def __len__(self) -> int:
        return self.n

    def add(self, vector: Array, loss: float) -> None:
        """Add one observation; it comes last among equal losses."""
        if self.n == len(self._losses):
            self._grow()
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
        return self._losses[: self.n]

    def _put_in_order(self) -> None:
        if self.n - self._n_ordered > _MANY:
            self._order[: self.n] = np.argsort(self._unordered[: self.n], kind="stable")
            self._losses[: self.n] = self._unordered[self._order[: self.n]]
            self._n_ordered = self.n
        while self._n_ordered < self.n:
            self._insert(self._n_ordered)
            self._n_ordered += 1

    def _insert(self, n: int) -> None:
        """Insert observation n into the n that are in order."""
        loss = self._unordered[n]
        at = int(np.searchsorted(self._losses[:n], loss, side="right"))
        self._losses[at + 1 : n + 1] = self._losses[at:n]
        self._order[at + 1 : n + 1] = self._order[at:n]
        self._losses[at] = loss
        self._order[at] = n

    def _grow(self) -> None:
        size = 2 * len(self._losses)
        self._vectors = np.resize(self._vectors, (size, self._vectors.shape[1]))
        self._unordered = np.resize(self._unordered, size)
        self._losses = np.resize(self._losses, size)
        self._order = np.resize(self._order, size)


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
        if self._n_ordered < self.n:
            self._order[: self.n] = ranked(np.array(self._standings))
            self._losses[: self.n] = self._unordered[self._order[: self.n]]
            self._n_ordered = self.n
