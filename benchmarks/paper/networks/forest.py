"""Regression forests whose leaves hold whole learning curves: grown by scikit-learn, evaluated with numpy only.

A forest is stored without the values of its leaves, which are means of recorded curves and computed when it is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
TREES = 50
FEATURES = 4  # of six, considered in each split; slightly better in cross-validation than all six


@dataclass(frozen=True, slots=True)
class Trees:
    """The trees of a forest, concatenated.

    feature, threshold: the test of each node, x[feature] <= threshold; its left child is the next node.
    right: offset of its right child, in nodes; 0 in a leaf.
    roots: the first node of each tree.
    counts: how often each tree drew each row of the data it was grown on, (trees, rows).
    """

    feature: NDArray[np.int8]
    threshold: NDArray[np.float32]
    right: NDArray[np.uint16]
    roots: NDArray[np.int32]
    counts: NDArray[np.uint8]


def grow(seed: int, X: NDArray[np.float32], Y: Array) -> Trees:
    """Fit a random forest (scikit-learn's trees on bootstrap samples, grown to the end).

    seed: decides the bootstrap samples and the features considered in a split.
    X: inputs (n, d).
    Y: outputs (n, m); each tree predicts all of them.
    """
    from sklearn.tree import DecisionTreeRegressor

    parts, counts = [], []
    for number in range(TREES):
        rng = np.random.default_rng([seed, number])
        drawn = np.bincount(rng.integers(len(X), size=len(X)), minlength=len(X))
        model = DecisionTreeRegressor(max_features=FEATURES, random_state=int(rng.integers(2**31)))
        tree = model.fit(X, Y, sample_weight=drawn.astype(float)).tree_
        inner = tree.children_right > 0
        nodes = np.arange(tree.node_count)
        assert (tree.children_left[inner] == nodes[inner] + 1).all()
        parts.append((tree.feature, tree.threshold, np.where(inner, tree.children_right - nodes, 0)))
        counts.append(drawn)
    feature, threshold, right = (np.concatenate(column) for column in zip(*parts, strict=True))
    sizes = [len(part[0]) for part in parts]
    return Trees(
        np.where(right > 0, feature, 0).astype(np.int8),
        _rounded_down(np.where(right > 0, threshold, 0)),
        right.astype(np.uint16),
        np.cumsum([0, *sizes[:-1]]).astype(np.int32),
        np.array(counts, np.uint8),
    )


def _rounded_down(values: Array) -> NDArray[np.float32]:
    """Round down to single precision, so that inputs in single precision pass the same tests."""
    single = values.astype(np.float32)
    return np.where(single > values, np.nextafter(single, np.float32(-np.inf)), single)


class Forest:
    """A forest with the values of its leaves."""

    def __init__(self, trees: Trees, X: NDArray[np.float32], Y: Array) -> None:
        """Compute the values of the leaves.

        X, Y: the data that the trees were grown on.
        """
        self._trees = trees
        self._step = trees.right.astype(np.int64)
        self._values = self._means(X, Y)
        # Plain lists are faster than numpy for a single row.
        self._lists: tuple[list[int], list[float], list[int], list[int]] = (
            trees.feature.tolist(),
            trees.threshold.tolist(),
            self._step.tolist(),
            trees.roots.tolist(),
        )

    def _leaves(self, X: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the leaf of each row in each tree, (n, trees)."""
        trees, rows = self._trees, np.arange(len(X))[:, None]
        nodes = np.repeat(trees.roots.astype(np.int64)[None], len(X), axis=0)
        while (step := self._step[nodes]).any():
            low = X[rows, trees.feature[nodes]] <= trees.threshold[nodes]
            nodes += np.where(step == 0, 0, np.where(low, 1, step))
        return nodes

    def _means(self, X: NDArray[np.float32], Y: Array) -> NDArray[np.float32]:
        """Return the mean output of the samples in each leaf, (nodes, m); 0 in inner nodes."""
        leaves, counts = self._leaves(X), self._trees.counts.astype(float)
        total, weight = np.zeros((len(self._step), Y.shape[1])), np.zeros(len(self._step))
        for tree, drawn in enumerate(counts):
            np.add.at(total, leaves[:, tree], drawn[:, None] * Y)
            np.add.at(weight, leaves[:, tree], drawn)
        if (weight[self._step == 0] == 0).any():
            raise ValueError("a leaf has no data: the forest was grown on other data, fit it again")
        return np.asarray(total / np.maximum(weight, 1)[:, None], dtype=np.float32)

    def one(self, x: Sequence[float]) -> Array:
        """Return the outputs (m,) for one input."""
        feature, threshold, step, roots = self._lists
        leaves = []
        for root in roots:
            node = root
            while right := step[node]:
                node += 1 if x[feature[node]] <= threshold[node] else right
            leaves.append(node)
        return np.asarray(self._values[leaves].mean(axis=0, dtype=float))

    def many(self, X: NDArray[np.float32]) -> Array:
        """Return the outputs (n, m) for many inputs."""
        return np.asarray(self._values[self._leaves(X)].mean(axis=1, dtype=float))
