"""The kind of each coordinate of a vector: what a model over vectors has to know about the space."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The coordinates of a space's vectors.

    choices: (d,) the declared number of choices; 0 for a numeric or ordinal coordinate, which lies in [0, 1].
    optional: (d,) whether the coordinate can be inactive (NaN).

    numeric, categorical: the indices of either kind.
    owner, choice: one entry per choice of every categorical coordinate: the index of the coordinate, and the choice.
    """

    choices: NDArray[np.int64]
    optional: NDArray[np.bool_]
    numeric: Indices = field(init=False)
    categorical: Indices = field(init=False)
    owner: Indices = field(init=False)
    choice: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        """Derive the indices."""
        categorical = np.flatnonzero(self.choices)
        object.__setattr__(self, "numeric", np.flatnonzero(self.choices == 0))
        object.__setattr__(self, "categorical", categorical)
        object.__setattr__(self, "owner", np.repeat(categorical, self.choices[categorical]))
        object.__setattr__(self, "choice", np.concatenate([np.empty(0), *map(np.arange, self.choices)]))
