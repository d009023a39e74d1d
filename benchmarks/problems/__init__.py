"""The problems by name. Importing this module needs numpy only; families are imported when they are used."""

from __future__ import annotations

import functools
import importlib

from benchmarks.problem import Problem
from benchmarks.problems.counting_ones import CountingOnes, uniform_fill

__all__ = ["FAMILIES", "CountingOnes", "lowest_budget", "problem_of", "uniform_fill"]

FAMILIES = {
    "counting_ones": "counting_ones-8-8",
    "hartmann": "hartmann-6",
    "misleading_hartmann": "misleading_hartmann-2.5-2",
    "smooth": "smooth-levy-0.1-0.1",
    "reversed": "reversed-30-0.02",
    "svm_mnist": "svm_mnist",
    "lcbench": "lcbench-3945",
    "rbv2_ranger": "rbv2_ranger-3",
    "iaml_super": "iaml_super-1489",
    "iaml_glmnet": "iaml_glmnet-1489",
    "taskset": "taskset-imdb_patch32_GRU128_bs128",
    "table": "table-segment",
    "networks": "networks-letter",
    "bnn": "bnn-boston",
    "cartpole": "cartpole",
}
# The smallest meaningful budget, where less would be rounded up or is outside the data: one epoch, one interval of
# training steps, one seed, one draw, or the smallest share of data that a surrogate was fitted on.
_LOWEST = {
    "lcbench": 1.0,
    "rbv2_ranger": 0.03,
    "iaml_super": 0.05,
    "iaml_glmnet": 0.03,
    "taskset": 1.0,
    "table": 1.0,
    "counting_ones": 1.0,
}
_TRAINED = {
    "networks": ("benchmarks.paper.networks.surrogate", "networks_problem"),
    "bnn": ("benchmarks.problems.bnn", "bnn_problem"),
    "cartpole": ("benchmarks.problems.cartpole", "cartpole_problem"),
}


@functools.cache
def problem_of(name: str) -> Problem:
    """Return the problem with a name such as those in FAMILIES."""
    family, _, rest = name.partition("-")
    match family:
        case "counting_ones":
            cat, cont = rest.split("-")
            return CountingOnes(int(cat), int(cont))
        case "hartmann":
            from benchmarks.problems.hartmann import Hartmann

            return Hartmann(int(rest))
        case "misleading_hartmann":
            from benchmarks.problems.hartmann import MisleadingHartmann

            return MisleadingHartmann(*map(float, rest.split("-")))
        case "smooth":
            from benchmarks.problems.smooth import Smooth

            function, *numbers = rest.split("-")
            return Smooth(function, *map(float, numbers))
        case "reversed":
            from benchmarks.problems.reversed import Reversed

            d, noise = rest.split("-")
            return Reversed(int(d), float(noise))
        case "svm_mnist":
            from benchmarks.problems.svm import SvmOnMnist

            return SvmOnMnist()
        case "lcbench" | "rbv2_ranger" | "iaml_super" | "iaml_glmnet":
            from benchmarks.problems.yahpo import Yahpo

            return Yahpo(family, rest)
        case "taskset":
            from benchmarks.problems.measured import TaskSet

            return TaskSet(rest)
        case "untrained":
            from benchmarks.problems.misspecified import Untrained

            return Untrained(rest)
        case "table":
            from benchmarks.problems.measured import Table

            return Table(rest)
        case _:
            return _trained(family, rest)


def lowest_budget(name: str) -> float:
    """Return the smallest budget that a problem can be evaluated on; 0 if there is no limit."""
    return _LOWEST.get(name.partition("-")[0], 0.0)


def _trained(family: str, rest: str) -> Problem:
    """Return a problem that trains, or that was made by training."""
    if family not in _TRAINED:
        raise ValueError(f"problem {family!r} is unknown; names are like {list(FAMILIES.values())}")
    module, function = _TRAINED[family]
    problem: Problem = getattr(importlib.import_module(module), function)(*([rest] if rest else []))
    return problem
