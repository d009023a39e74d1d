"""The part "one_budget": the preset on the largest budget alone, where it is plain Bayesian optimisation.

It is compared with itself without one of its parts, with our other methods, and with rivals that have no budgets.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.better.analysis import SEED, Results, Rows, View, compare
from benchmarks.better.pages import with_interval
from benchmarks.better.protocol import CHOOSING, CONFIRMING, OTHER_FLOORS, SMOOTH, Plan
from benchmarks.better.statistics import ratio_of_runs
from benchmarks.runs import Run

OURS = "best:one_budget=True"
NAMES = {
    "best": "BEST with several budgets",
    f"{OURS}:without='no_random'": "a third of the configurations at random",
    f"{OURS}:without='priors'": "priors that expect more noise",
    "bohb-one-budget": "the density of BOHB instead of the process",
    "random": "random search",
    "optuna-gp": "Optuna, Gaussian process",
    "optuna-tpe": "Optuna, TPE",
    "smac": "SMAC3",
}
RIVALS = ("optuna-gp", "optuna-tpe", "smac")  # on the problems of the part "rivals"
HALVES = {"choosing": (*CHOOSING, *SMOOTH), "confirming": CONFIRMING}


def wanted(problems: Sequence[str], plan: Plan) -> list[Run]:
    """Return the runs of our methods, one seed of all problems before the next."""
    methods = (OURS, *(method for method in NAMES if method not in RIVALS))
    return [
        Run(problem, method, seed, plan.end, 1, "continue")
        for seed in range(plan.runs)
        for problem in problems
        for method in methods
    ]


def rows(results: Results, points: Sequence[float]) -> Rows:
    """Return how many times higher the regret of every other method is, by half of the problems.

    For our own methods also for single runs with the same seed; rivals have other numbers of seeds.
    """
    found: Rows = []
    for half, problems in HALVES.items():
        part = {run: result for run, result in results.items() if run.problem in problems}
        for point in points:
            regrets, higher = (View(floor=floor).regrets(part, point) for floor in (View().floor, OTHER_FLOORS[0]))
            for method, name in NAMES.items():
                compared = compare(regrets, OURS, method)
                if compared is None:
                    continue
                row = {"half": half, "method": method, "name": name, "point": point, **compared}
                if method not in RIVALS:
                    typical = ratio_of_runs(np.random.default_rng(SEED), higher, method, OURS)
                    assert typical is not None
                    row["of runs"] = {"ratio": typical.value, "low": typical.low, "high": typical.high}
                found.append(row)
    return found


def findings(found: Rows, end: float) -> list[str]:
    """Return what the final regrets on the held-out problems show."""
    return [
        f"{row['name']}: {with_interval(row)} times the regret of BEST with one budget at {end:g}, "
        f"{row['problems']} held-out problems"
        for row in found
        if row["point"] == end and row["half"] == "confirming"
    ]
