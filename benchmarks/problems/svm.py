"""The support vector machine on MNIST of §5.2.1: the authors' own random forests for error and time."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from benchmarks.data import find
from benchmarks.problem import Config, Evaluation, Parameter, geometric

MINIMUM = 0.015045801948051959  # the lowest error there is, reached by many runs of the authors


class Forest:
    """A regression forest; its trees lie one behind the other in flat arrays, a negative child marks a leaf."""

    def __init__(self, arrays: dict[str, np.ndarray], prefix: str) -> None:
        def column(name: str) -> list[float]:
            return arrays[f"{prefix}_{name}"].tolist()  # type: ignore[no-any-return]

        self._roots = [int(n) for n in column("start")[:-1]]
        self._left = [int(n) for n in column("left")]
        self._right = [int(n) for n in column("right")]
        self._feature = [int(n) for n in column("feature")]
        self._threshold, self._value = column("threshold"), column("value")

    def __call__(self, x: Sequence[float]) -> float:
        """The mean over the trees. Plain lists beat numpy when one row is asked for at a time."""
        row = np.asarray(x, dtype=np.float32).tolist()  # the forest was fitted on single precision
        leaves = []
        for root in self._roots:
            node = root
            while self._left[node] >= 0:
                low = row[self._feature[node]] <= self._threshold[node]
                node = self._left[node] if low else self._right[node]
            leaves.append(self._value[node])
        return float(np.mean(leaves))


class SvmOnMnist:
    """log C and log γ in [−10, 10]; the budget is the share of the training data, the cost is in seconds."""

    name = "svm_mnist"
    budgets = geometric(1 / 512, 1)
    parameters = (Parameter("C", "float", -10.0, 10.0), Parameter("gamma", "float", -10.0, 10.0))

    def __init__(self) -> None:
        with np.load(find("svm_mnist", "forest.npz")) as stored:
            arrays = dict(stored)
        self._error = functools.lru_cache(100_000)(Forest(arrays, "err"))
        self._seconds = Forest(arrays, "cost")

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - deterministic
        x = (config["C"], config["gamma"], budget)
        return Evaluation(self._error(x), self._seconds(x))

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        return self._error((config["C"], config["gamma"], 1.0)) - MINIMUM
