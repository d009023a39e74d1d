"""The problems of the experiments, by name. Importing this needs numpy alone; families are imported when asked for."""

from __future__ import annotations

import functools
import importlib

from benchmarks.problem import Problem
from benchmarks.problems.counting_ones import CountingOnes, uniform_fill

__all__ = ["FAMILIES", "CountingOnes", "problem_of", "uniform_fill"]

FAMILIES = {
    "counting_ones": "counting_ones-8-8",
    "hartmann": "hartmann-6",
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
_TRAINED = {
    "networks": ("benchmarks.networks.surrogate", "networks_problem"),
    "bnn": ("benchmarks.bnn", "bnn_problem"),
    "cartpole": ("benchmarks.cartpole", "cartpole_problem"),
}


@functools.cache
def problem_of(name: str) -> Problem:
    """The problem of a name such as those in FAMILIES."""
    family, _, rest = name.partition("-")
    match family:
        case "counting_ones":
            cat, cont = rest.split("-")
            return CountingOnes(int(cat), int(cont))
        case "hartmann":
            from benchmarks.problems.hartmann import Hartmann

            return Hartmann(int(rest))
        case "svm_mnist":
            from benchmarks.problems.svm import SvmOnMnist

            return SvmOnMnist()
        case "lcbench" | "rbv2_ranger" | "iaml_super" | "iaml_glmnet":
            from benchmarks.problems.yahpo import Yahpo

            return Yahpo(family, rest)
        case "taskset":
            from benchmarks.problems.measured import TaskSet

            return TaskSet(rest)
        case "table":
            from benchmarks.problems.measured import Table

            return Table(rest)
        case _:
            return _trained(family, rest)


def _trained(family: str, rest: str) -> Problem:
    """The problems that train, or that were made by training."""
    if family not in _TRAINED:
        raise ValueError(f"problem {family!r} is unknown; names are like {list(FAMILIES.values())}")
    module, function = _TRAINED[family]
    problem: Problem = getattr(importlib.import_module(module), function)(*([rest] if rest else []))
    return problem
