"""A support vector machine on MNIST (§5.2.1): the authors' surrogate, and the runs they recorded of four rivals.

    python -m benchmarks.paper.svm --runs 50 --jobs 2

Budgets are shares of the training data, 1/243 to 1 (Hyperband's from 1/512 on); the axis is simulated training time.
The authors' runs of Fabolas, MTBO, expected improvement and entropy search are drawn dashed. Their incumbents are what
those methods would have recommended, trained on all data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drawing
from benchmarks.command import run_experiment
from benchmarks.curves import first_at_most, mean_and_error
from benchmarks.data import find
from benchmarks.experiment import Experiment, Measured
from benchmarks.harness import Point
from benchmarks.problems.svm import MINIMUM
from benchmarks.results import AXES, final_table, numbers, panel, publish, shown

EXPERIMENT = Experiment(
    name="svm",
    question="Does BOHB find good hyperparameters of a support vector machine sooner than methods without small "
    "budgets (§5.2.1)?",
    title="Support vector machine on MNIST",
    problems=("svm_mnist",),
    methods=("bohb", "hyperband", "random", "tpe", "hpbandster", "bracket-models", "gp-budget"),
    full_evaluations=60,
    runs=30,
    axis="time",
    floor=1e-5,
)
RECORDED = {"fabolas": "fabolas", "mtbo_4": "mtbo", "ei": "ei", "entropy_search": "entropy search"}


def recorded() -> dict[str, list[list[Point]]]:
    """The authors' runs, by the name that the figure has for a method."""
    stored = json.loads(find("icml2018", "reference_trajectories.json").read_text())["svm"]
    return {
        name: [
            [
                Point(cost, spent, loss - MINIMUM, loss, 1.0)
                for cost, spent, loss in zip(
                    run["cummulative_cost"], run["cummulative_budget"], run["losses"], strict=True
                )
            ]
            for run in stored[key]
        ]
        for key, name in RECORDED.items()
    }


def reference_curves(x: list[float], measured: Measured) -> dict[str, dict[str, Any]]:
    """The authors' runs on our axis, with where BOHB's mean reaches their final one and the other way round."""
    ours = measured.trajectories("svm_mnist", "bohb") if "bohb" in measured.results["svm_mnist"] else []
    entries = {}
    for name, runs in recorded().items():
        mean, error = mean_and_error(runs, np.array(x), "time")
        finals = [run[-1].regret for run in runs]
        entries[name] = {
            "runs": len(runs),
            "mean": numbers(mean),
            "error": numbers(error),
            "final": finals,
            "bohb_reaches": first_at_most(ours, float(np.mean(finals)) + 1e-12, "time"),
            "reaches": first_at_most(runs, float(np.mean(finals)) + 1e-12, "time"),
        }
    return entries


def draw(body: Mapping[str, Any], references: Mapping[str, Any], path: Any) -> None:
    """Ours and theirs in one figure."""
    entry = body["problems"]["svm_mnist"]
    ours = panel("SVM on MNIST; dashed: recorded by the authors", entry)
    theirs = {name: (entry["x"], curve["mean"], curve["error"]) for name, curve in references.items()}
    both = drawing.Panel(ours.title, {**ours.curves, **theirs}, frozenset(theirs))
    drawing.draw([both], path, AXES["time"], "mean regret", EXPERIMENT.floor)


def report(measured: Measured, out: Path) -> None:
    body = publish(measured, out, lambda problems: {"recorded": reference_curves(problems["svm_mnist"]["x"], measured)})
    draw(body, body["recorded"], out / "svm.png")
    print(final_table(body))
    for name, curve in body["recorded"].items():
        print(f"{name}, recorded by the authors: {shown(curve['final'])}")


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report)


if __name__ == "__main__":
    main()
