"""Tasks with two objectives, or one objective and a bound, from the surrogates of YAHPO Gym.

`lcbench-167161` minimises the error and the seconds per epoch. `lcbench-167161-10%` minimises the error where the
seconds per epoch are among the lowest 10 % of random configurations.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problem import Config, uniform
from benchmarks.problems.yahpo import SCENARIOS, Yahpo

SAMPLE = 1000  # random configurations that determine bounds and scales
SECOND: Mapping[str, str] = {"lcbench": "time", "rbv2_ranger": "timepredict", "iaml_super": "rammodel"}
TASKS = (
    "lcbench-167161",
    "lcbench-167190",
    "lcbench-189862",
    "lcbench-34539",
    "rbv2_ranger-3",
    "rbv2_ranger-11",
    "rbv2_ranger-12",
    "iaml_super-1489",
    "iaml_super-1067",
)
SHARES = ("10%", "1%")  # of the space that keep the bound
PROBLEMS = (*TASKS, *(f"{task}-{share}" for task in TASKS for share in SHARES))


@dataclass(frozen=True, slots=True)
class Values:
    """The result of one evaluation: both values, and the seconds it took."""

    error: float
    second: float
    cost: float


class Problem:
    """One task with its second value, which is an objective, or bounded if the name ends in a share.

    bound: the highest second value that is allowed; None for two objectives.
    """

    def __init__(self, name: str) -> None:
        task, _, share = name.rpartition("-") if name.endswith("%") else (name, "", "")
        scenario = task.partition("-")[0]
        self.name, self.task = name, task
        self._yahpo = Yahpo(scenario, task.partition("-")[2])
        self._target, self._per_budget = SECOND[scenario], SCENARIOS[scenario].whole
        self.parameters, self.budgets = self._yahpo.parameters, self._yahpo.budgets
        self._known: dict[tuple[str, float], Values] = {}
        self.bound = None if not share else float(np.quantile(sample(task)[:, 1], float(share.rstrip("%")) / 100))

    def evaluate(self, config: Config, budget: float) -> Values:
        """Return the values of a configuration on a budget. The same call returns the same values."""
        key = json.dumps(dict(config), sort_keys=True), budget
        if key not in self._known:
            found = self._yahpo.targets(config, budget, self._target)
            second = max(found.other, 0.0) / (round(budget) if self._per_budget else 1)
            self._known[key] = Values(found.loss, second, max(found.seconds, 1e-3))
        return self._known[key]


@functools.cache
def problem_of(name: str) -> Problem:
    """Return a problem by its name."""
    return Problem(name)


@functools.cache
def sample(task: str) -> Any:
    """Return error and second value on the largest budget of random configurations, (SAMPLE, 2)."""
    problem, rng = problem_of(task), np.random.default_rng(0)
    rows = [problem.evaluate(uniform(rng, problem.parameters), problem.budgets[-1]) for _ in range(SAMPLE)]
    return np.array([(row.error, row.second) for row in rows if math.isfinite(row.error)])
