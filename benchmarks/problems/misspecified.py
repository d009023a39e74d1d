"""TaskSet on budgets below its first measurement, for studies whose smallest budget is far too small."""

from __future__ import annotations

from pathlib import Path

from benchmarks.problem import Config, Evaluation
from benchmarks.problems import measured
from benchmarks.problems.measured import TaskSet


class Untrained(TaskSet):
    """As TaskSet, but less than half an interval of steps is no training at all.

    Then a configuration has the loss of its first weights: a rung that says nothing about it.
    """

    def __init__(self, problem: str) -> None:
        """Load the data.

        problem: the name of the one it follows, such as taskset-imdb_patch32_GRU128_bs128.
        """
        family, _, task = problem.partition("-")
        if family != "taskset":
            raise ValueError(f"problem {problem!r} must be one of TaskSet's: only those have a loss before training")
        super().__init__(task)
        self.name = f"untrained-{problem}"
        self.sources = (Path(measured.__file__),)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        if round(budget) >= 1:
            return super().evaluate(config, budget, seed)
        return Evaluation(float(self._curves[self._nearest(config), 0]), budget)
