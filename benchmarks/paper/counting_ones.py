"""Counting ones (§5.1 and Appendix H): the regret of the incumbent against the budget that was spent.

    python -m benchmarks.paper.counting_ones --runs 20 --jobs 2
    python -m benchmarks.paper.counting_ones --problems counting_ones-4-4 --evaluations 8192 --runs 50

One full evaluation is a cumulative budget of 729; every evaluation counts with its whole budget, promoted or not. The
regret is free of noise. The paper runs 8192 full evaluations; 512 are enough to see who is ahead.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import drawing
from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment, Measured
from benchmarks.report import verdict
from benchmarks.results import AXES, final_table, mean_error, panel, publish

EXPERIMENT = Experiment(
    name="counting_ones",
    question="Does BOHB end with a lower regret than the other methods on a function with as many categorical as "
    "continuous hyperparameters (§5.1)?",
    title="Counting ones in 8, 16, 32 and 64 dimensions",
    problems=("counting_ones-4-4", "counting_ones-8-8", "counting_ones-16-16", "counting_ones-32-32"),
    methods=("bohb", "hyperband", "random", "tpe", "smac", "bracket-models", "gp-budget"),
    full_evaluations=512,
    lengths=(("smac", 128), ("gp-budget", 64)),
    runs=20,
    floor=1e-3,
    smoke=(("counting_ones-4-4",), ("bohb", "hyperband")),
)
FRONT = "counting_ones-8-8"  # its figure is the one in README.md …
PAPER = ("bohb", "hyperband", "random", "tpe", "smac")  # … with the methods that the paper's figure has


def goals(body: dict[str, Any]) -> list[str]:
    """What is asked of 16 dimensions, and whether these runs show it."""
    methods = body["problems"].get(FRONT, {}).get("methods", {})
    if "bohb" not in methods:
        return []
    ours = mean_error(methods["bohb"]["final"].values())[0]
    lines = [
        verdict(ours / 16 < 0.01, "BOHB's final regret below 1 % of the range in 16 dimensions", f"{ours / 16:.2%}")
    ]
    for name, method in methods.items():
        if name != "bohb":
            theirs = mean_error(method["final"].values())[0]
            lines.append(verdict(ours <= theirs, f"BOHB ends at least as low as {name}", f"{ours:.3g}, {theirs:.3g}"))
    return lines


def report(measured: Measured, out: Path) -> None:
    body = publish(measured, out)
    print(final_table(body), "", *goals(body), sep="\n")
    if FRONT in body["problems"]:
        front = body["problems"][FRONT]
        methods = {name: curve for name, curve in front["methods"].items() if name in PAPER}
        shown = panel("Counting ones, 8 + 8 dimensions, mean ± standard error", {**front, "methods": methods})
        path = out / "counting_ones_8_8.png"
        drawing.draw([shown], path, AXES["spent"], "mean regret", measured.experiment.floor)


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report)


if __name__ == "__main__":
    main()
