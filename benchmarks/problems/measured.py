"""Measured data without a surrogate: the learning curves of TaskSet and three exhaustive tables."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.data import directory, find
from benchmarks.problem import Config, Evaluation, Parameter, geometric

# TaskSet drew every hyperparameter log-uniformly; of β₁ and β₂, the distance to 1.
_TASKSET = (
    ("learning_rate", 1e-8, 10.0),
    ("one_minus_beta1", 1e-4, 1.0),
    ("one_minus_beta2", 1e-6, 1.0),
    ("epsilon", 1e-10, 1e3),
    ("l1", 1e-8, 10.0),
    ("l2", 1e-8, 10.0),
    ("linear_decay", 1e-7, 1e-4),
    ("exponential_decay", 1e-6, 1e-3),
)


def taskset_names() -> list[str]:
    """Return the names of the stored tasks."""
    find("taskset")
    return sorted(f"taskset-{path.stem}" for path in directory().glob("taskset/*.npz"))


class TaskSet:
    """Adam's eight hyperparameters for a text RNN: 1000 configurations whose validation losses were measured.

    A suggestion stands for the nearest measured configuration, by Euclidean distance with every range scaled to
    [0, 1] on its logarithmic scale. So the objective is piecewise constant, with 1000 pieces. The budget counts
    intervals of 200 steps, rounded to whole ones, and is also the cost. A network that ends worse than it began
    counts as if untrained.
    """

    def __init__(self, task: str) -> None:
        with np.load(find("taskset", f"{task}.npz")) as stored:
            hp, curves = stored["hp"], stored["valid"]
        values = hp.copy()
        values[:, 1:3] = 1 - values[:, 1:3]
        self.name = f"taskset-{task}"
        self.parameters = tuple(Parameter(name, "float", low, high, log=True) for name, low, high in _TASKSET)
        self.budgets = geometric(1, curves.shape[1] - 1)
        self._low = np.log([low for _, low, _ in _TASKSET])
        self._width = np.log([high for *_, high in _TASKSET]) - self._low
        self._points = (np.log(values) - self._low) / self._width  # (1000, 8)
        self._curves = curves
        self._final = np.fmin(curves[:, -1], curves[:, 0])
        self._best = float(self._final.min())

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - it is a table
        steps = max(1, round(budget))
        return Evaluation(float(self._curves[self._nearest(config), steps]), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        return float(self._final[self._nearest(config)]) - self._best

    def _nearest(self, config: Config) -> int:
        x = (np.log([config[name] for name, *_ in _TASKSET]) - self._low) / self._width
        return int(((self._points - x) ** 2).sum(1).argmin())


@dataclass(frozen=True, slots=True)
class _Source:
    file: str
    column: str
    best: float | None  # losses are `best` minus the column; None: the column itself
    unit: float = 1.0


TABLES = {
    "segment": _Source("hpobench_segment.npz", "val_acc", 1.0),
    "protein": _Source("hpolib_protein_structure.npz", "val_loss", None),
    "nasbench201": _Source("nasbench201_cifar10.npz", "val_acc", 100.0, unit=100.0),
}


class Table:
    """A grid of configurations, each trained with several seeds; the budget is the number of seeds to average.

    Budgets are 1 and 3. Which of the seeds come first follows from the evaluation's seed; the cost is their training
    time. The regret is of the mean over all seeds that were measured.
    """

    budgets = (1.0, 3.0)

    def __init__(self, name: str) -> None:
        source = TABLES[name]
        with np.load(find("tables", source.file)) as stored:
            axes: dict[str, list[Any]] = json.loads(str(stored["axes"]))
            values, self._seconds = stored[source.column].astype(float), stored["train_time"]
        self.name = f"table-{name}"
        self._axes = axes
        self._losses = values if source.best is None else (source.best - values) / source.unit
        self._means = self._losses.mean(-1)
        self._best = float(self._means.min())
        self.parameters = tuple(
            Parameter(axis, "categorical" if isinstance(choices[0], str) else "ordinal", choices=tuple(choices))
            for axis, choices in axes.items()
        )

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        at = self._at(config)
        losses, seconds = self._losses[at], self._seconds[at]
        seeds = np.random.default_rng(seed).permutation(len(losses))[: round(budget)]
        return Evaluation(float(losses[seeds].mean()), float(seconds[seeds].sum()))

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - it is noisy
        regret = float(self._means[self._at(config)]) - self._best
        assert math.isfinite(regret)
        return regret

    def _at(self, config: Config) -> tuple[int, ...]:
        return tuple(choices.index(config[axis]) for axis, choices in self._axes.items())
