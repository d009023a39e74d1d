"""The train and test rows of a search, and the part of them for a smaller budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.integer[Any]]


class Folds:
    """A splitter for scikit-learn with fixed rows.

    All trials use the same rows, even if the original splitter shuffles in every call.

    folds: pairs of train and test rows.
    """

    def __init__(self, folds: Sequence[tuple[Rows, Rows]]) -> None:
        self.folds = list(folds)

    def split(self, *_: object, **__: object) -> list[tuple[Rows, Rows]]:
        return self.folds

    def subset(self, seed: int, fraction: float, labels: NDArray[np.integer[Any]] | None = None) -> Folds:
        """Return folds with a fraction of the train rows and all test rows, so that losses of all budgets compare.

        seed: chooses the rows; a larger fraction contains all rows of a smaller one.
        labels: the class of every row, to keep the proportions of the classes.
        """
        if fraction >= 1:
            return self
        return Folds(
            [
                (_part(np.random.default_rng([seed, number]), train, fraction, labels), test)
                for number, (train, test) in enumerate(self.folds)
            ]
        )


def _part(
    rng: np.random.Generator, train: Rows, fraction: float, labels: NDArray[np.integer[Any]] | None
) -> NDArray[Any]:
    """Return a random part of the rows in their original order, which may be the order of time."""
    order = rng.permutation(np.asarray(train))
    if labels is not None:
        # Row i of the n rows of a class gets the place (i + 1/2) / n, so every prefix has the classes in proportion.
        place = np.empty(len(order))
        for label in np.unique(labels[order]):
            of_class = np.flatnonzero(labels[order] == label)
            place[of_class] = (np.arange(len(of_class)) + 0.5) / len(of_class)
        order = order[np.argsort(place, kind="stable")]
    return np.sort(order[: max(1, round(fraction * len(order)))])
