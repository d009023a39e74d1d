"""Feed-forward networks on six data sets (§5.2.2, Appendix E): surrogates of networks that we trained ourselves.

    python -m benchmarks.paper.networks.experiment --runs 20 --jobs 2
    python -m benchmarks.paper.networks.experiment --problems networks-letter --methods bohb,hyperband --runs 100

The axis counts full evaluations; multiplied by the largest budget, these are seconds of training. In addition to the
usual files, the JSON file has speed-ups: how much earlier BOHB reaches the mean regret that another method has after
1/16, 1/4 and all of the run. Longer runs allow larger ratios; the paper has 128 brackets, 512 full evaluations.
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.additions import SPEEDUPS
from benchmarks.command import run_experiment
from benchmarks.curves import first_at_most, regret_at
from benchmarks.experiment import Experiment, Measured
from benchmarks.report import table
from benchmarks.results import final_table, publish

EXPERIMENT = Experiment(
    name="networks",
    question="Does BOHB end with a lower regret than the other methods when it tunes feed-forward networks (§5.2.2)?",
    title="Feed-forward networks on six data sets",
    problems=tuple(f"networks-{name}" for name in ("adult", "higgs", "letter", "mnist", "optdigits", "poker")),
    methods=("bohb", "hyperband", "random", "tpe", "gp-bo", "hb-lcnet", "smac"),
    full_evaluations=512,
    lengths=(("gp-bo", 32), ("hb-lcnet", 128), ("smac", 64)),
    slow=("tpe", "gp-bo", "hb-lcnet", "smac"),
    runs=20,
    floor=1e-5,
    smoke=(("networks-letter",), ("bohb", "hyperband")),
)
SHARES = (1 / 16, 1 / 4, 1.0)  # of a run


def speedups(measured: Measured) -> list[dict[str, Any]]:
    """Return how many times earlier BOHB reaches the mean regret of each other method after a share of the run."""
    rows = []
    for problem, methods in measured.results.items():
        ours = measured.trajectories(problem, "bohb") if "bohb" in methods else []
        for method in methods if ours else ():
            if method == "bohb":
                continue
            theirs = measured.trajectories(problem, method)
            end = min(run.spent for run in methods[method].values())
            row: dict[str, Any] = {"problem": problem, "than": method}
            for share in SHARES:
                x = share * measured.experiment.full_evaluations
                level = statistics.fmean(float(regret_at(run, np.array([x]), "spent")[0]) for run in theirs)
                known = math.isfinite(level) and x <= 1.02 * end  # nothing was measured beyond
                sooner = first_at_most(ours, level, "spent") if known else None
                row[f"at {x:g}"] = None if sooner is None else round(x / sooner, 1)
            rows.append(row)
    return rows


def report(measured: Measured, out: Path) -> None:
    body = publish(measured, out, lambda _: {SPEEDUPS: speedups(measured)})
    print(final_table(body))
    print("\nSpeed-up of BOHB: how much earlier it reaches another method's mean regret\n")
    for method in dict.fromkeys(row["than"] for row in body[SPEEDUPS]):
        print(table([row for row in body[SPEEDUPS] if row["than"] == method]), end="\n\n")


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report)


if __name__ == "__main__":
    main()
