"""D_b: all observations on one budget, kept in the order of their losses as they come in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Observations:
    """Vectors and losses of one budget; a failed evaluation has the loss +inf.

    Adding one costs a binary search and moving a few bytes, so that asking never has to sort. Arrays double in size
    when they are full.
    """

    def __init__(self, d: int) -> None:
        self._vectors = np.empty((16, d))
        self._losses = np.empty(16)  # ascending
        self._order = np.empty(16, dtype=np.int64)  # _vectors[_order[i]] has _losses[i]
        self.n = 0
        self.n_finite = 0

    def __len__(self) -> int:
        return self.n

    def add(self, vector: Array, loss: float) -> None:
        """Insert one observation behind those with the same loss."""
        n = self.n
        if n == len(self._losses):
            self._grow()
        self._vectors[n] = vector
        at = int(np.searchsorted(self._losses[:n], loss, side="right"))
        self._losses[at + 1 : n + 1] = self._losses[at:n]
        self._order[at + 1 : n + 1] = self._order[at:n]
        self._losses[at] = loss
        self._order[at] = n
        self.n = n + 1
        self.n_finite += bool(np.isfinite(loss))

    def ranked(self, start: int, stop: int) -> Array:
        """The vectors from rank `start` to `stop`, best first."""
        return self._vectors.take(self._order[start:stop], axis=0)

    @property
    def losses(self) -> Array:
        """All losses, ascending."""
        return self._losses[: self.n]

    def _grow(self) -> None:
        size = 2 * len(self._losses)
        self._vectors = np.resize(self._vectors, (size, self._vectors.shape[1]))
        self._losses = np.resize(self._losses, size)
        self._order = np.resize(self._order, size)
