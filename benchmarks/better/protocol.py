"""The protocol of `study.py`: problems, their split, lengths, points, methods and seeds.

It was fixed before any result of the preset `BEST` was seen. Only the numbers of seeds depend on measured times.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.paper.lcbench import INSTANCES
from benchmarks.problem import uniform
from benchmarks.problems import problem_of
from benchmarks.runs import Run

FAMILIES: dict[str, tuple[str, ...]] = {
    "lcbench": tuple(f"lcbench-{instance}" for instance in INSTANCES),
    "rbv2_ranger": tuple(f"rbv2_ranger-{instance}" for instance in ("3", "6", "11", "12")),
    "iaml_super": tuple(f"iaml_super-{instance}" for instance in ("40981", "41146", "1489", "1067")),
    "taskset": tuple(
        f"taskset-imdb_{task}"
        for task in (
            "patch128_LSTM128_avg_bs64",
            "patch32_GRU128_bs128",
            "patch32_GRU64_avg_bs128",
            "patch32_LSTM128_E128_bs128",
            "patch32_VRNN128_tanh_bs128",
            "patch32_VRNN64_relu_avg_bs128",
        )
    ),
    "table": ("table-segment", "table-protein", "table-nasbench201"),
    "counting_ones": ("counting_ones-4-4", "counting_ones-8-8"),
    "hartmann": ("hartmann-3", "hartmann-6"),
    "misleading_hartmann": tuple(f"misleading_hartmann-{case}" for case in ("0.5-0.1", "2.5-2", "3.5-4")),
}
LENGTH, LONG = 60.0, 200.0  # full evaluations
SHARES = (0.1, 0.3, 1.0)  # of LENGTH: the points of the criteria
PARALLEL = 16  # workers

OURS = ("best", "bohb", "hyperband", "random")
FAST, SLOW = ("optuna-tpe", "optuna-tpe-hyperband", "dehb"), ("hpbandster", "smac")
RIVALS = (*FAST, *SLOW)
# The rivals of the part "rivals", which all run on the same few problems.
ALL_RIVALS = ("optuna-gp", *FAST, "synetune-asha", "synetune-cqr", *SLOW, "neps-priorband")

FLOOR = 1e-4  # regrets count as at least this share of a problem's scale
OTHER_FLOORS = (1e-3, 1e-2)  # how much hangs on that choice
SCALE_SAMPLE = 200  # random configurations whose median regret is the scale


def choosing(problems: Sequence[str]) -> tuple[str, ...]:
    """Of one family, the problems by which settings may be chosen: every third by name, from the first on."""
    return tuple(sorted(problems)[::3])


def confirming(problems: Sequence[str]) -> tuple[str, ...]:
    """Of one family, the problems on which claims are confirmed: the others."""
    return tuple(name for name in sorted(problems) if name not in choosing(problems))


CHOOSING = tuple(name for problems in FAMILIES.values() for name in choosing(problems))
CONFIRMING = tuple(name for problems in FAMILIES.values() for name in confirming(problems))


# More problems for choosing, younger than the rest of the protocol: smooth functions with one or many optima. The first
# number is how far small budgets move the optimum, the second their noise, the third the noise of all budgets.
SMOOTH = tuple(
    f"smooth-{case}"
    for case in (
        "ackley-0.3-0.5",
        "branin-0.1-0.1",
        "levy-0.1-0.1",
        "levy-0.1-0.1-0.1",
        "levy-0.3-0.5",
        "michalewicz-0.1-0.2",
        "michalewicz-0.1-0.2-0.3",
        "michalewicz-0.3-0.5",
        "rosenbrock-0.05-0.05",
        "rosenbrock-0.05-0.05-0.1",
        "shekel-0.1-0.1",
        "styblinski_tang-0.05-0.05",
        "styblinski_tang-0.05-0.05-0.2",
        "styblinski_tang-0.3-0.5",
    )
)

# Also for choosing: many dimensions, and last rungs that reverse the ranks near the optimum.
REVERSED = ("reversed-30-0.02", "reversed-45-0.02", "reversed-60-0.02")


# Every third confirming problem of each family by name, and both misleading functions. This rule is younger than the
# rest of the protocol, but older than the results of these rivals. Counting ones is left out: the preset's lead of
# three orders of magnitude there would decide every mean.
RIVAL_PROBLEMS = (
    "lcbench-167161",
    "lcbench-167190",
    "lcbench-189862",
    "lcbench-34539",
    "rbv2_ranger-12",
    "iaml_super-1489",
    "taskset-imdb_patch32_GRU128_bs128",
    "taskset-imdb_patch32_VRNN64_relu_avg_bs128",
    "table-protein",
    "hartmann-6",
    "misleading_hartmann-2.5-2",
    "misleading_hartmann-3.5-4",
)
EVALUATION_SECONDS = (1.0, 10.0, 60.0)  # of a full evaluation, for comparisons at equal total time


def family(problem: str) -> str:
    """Return the family of a problem."""
    return problem.partition("-")[0]


@functools.cache
def scale(problem: str) -> float:
    """Return the median regret of random configurations, which makes regrets of different problems comparable."""
    rng, known = np.random.default_rng(0), problem_of(problem)
    configs = [uniform(rng, known.parameters) for _ in range(SCALE_SAMPLE)]
    return float(np.median([known.regret(config, float("nan")) for config in configs]))


@dataclass(frozen=True, slots=True)
class Plan:
    """Numbers of seeds, and lengths of runs.

    runs: seeds of our methods and the fast rivals.
    own: seeds of our methods beside rivals, if more.
    long: seeds of our methods that run to LONG; they do not depend on the length, so each run serves all points.
    dehb, slow: seeds of DEHB, and of the rivals that take half a minute per run.
    end: the usual length in full evaluations.
    """

    runs: int = 20
    long: int = 10
    dehb: int = 10
    slow: int = 3
    end: float = LENGTH
    own: int = 0

    @property
    def most(self) -> int:
        """The largest number of seeds of any method."""
        return max(self.runs, self.own)

    @property
    def points(self) -> tuple[float, ...]:
        """The points of the criteria."""
        return tuple(round(share * self.end, 9) for share in SHARES)

    @property
    def all_points(self) -> tuple[float, ...]:
        """The points of the criteria, and the end of the long runs."""
        return (*self.points, LONG) if self.long else self.points

    def of(self, method: str) -> int:
        """Return the number of seeds of a method."""
        if method in OURS:
            return self.most
        at_most = self.slow if method in SLOW else self.dehb if method == "dehb" else self.runs
        return min(self.runs, at_most)

    def length(self, method: str, seed: int) -> float:
        """Return the length of a run with one worker."""
        return LONG if method not in RIVALS and seed < self.long else self.end


def main_runs(methods: Sequence[str], problems: Sequence[str], plan: Plan) -> list[Run]:
    """Return the runs with one worker, ordered by seed. Each run has both accountings."""
    return [
        Run(problem, method, seed, plan.length(method, seed), 1, "continue")
        for seed in range(plan.most)
        for problem in problems
        for method in methods
        if seed < plan.of(method)
    ]


def parallel_runs(methods: Sequence[str], problems: Sequence[str], plan: Plan) -> list[Run]:
    """Return the runs with many workers on the simulated clock."""
    return [
        Run(problem, method, seed, plan.end, PARALLEL, "continue")
        for seed in range(plan.runs)
        for problem in problems
        for method in methods
        if seed < plan.of(method)
    ]
