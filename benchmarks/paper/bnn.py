"""A Bayesian neural network sampled by SGHMC (§5.3 and Appendix J): Boston housing and protein structure.

    python -m benchmarks.paper.bnn --runs 5 --jobs 2
    python -m benchmarks.paper.bnn --problems bnn-boston --methods bohb,hyperband --evaluations 16

Every evaluation runs a chain. Finished ones are kept under .cache/benchmarks/evaluations, with the negative
log-likelihood of the test data and the CPU seconds. The optimum is unknown, so what the tables call regret is the
negative log-likelihood of the validation data that the incumbent was seen to have; values above 9 count as 9, where the
axis of the paper's figure ends. As it is noisy, the incumbent is the best on the largest budget so far. Writes
bnn.json, .csv, .md and .png. `benchmarks.paper.batched` does the same with many seeds on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment, Measured
from benchmarks.problems import problem_of
from benchmarks.problems.bnn import WORST, BayesianNetwork
from benchmarks.results import final_table, publish, shown

Tests = Mapping[float | None, float | None]
EXPERIMENT = Experiment(
    name="bnn",
    question="Does BOHB find better hyperparameters of a Bayesian neural network than Hyperband and TPE (§5.3)?",
    title="Bayesian neural network: negative log-likelihood of validation data",
    problems=("bnn-boston", "bnn-protein"),
    methods=("bohb", "hyperband", "random", "tpe"),
    full_evaluations=40,
    runs=10,
    protocol="largest",
    quantity="validation negative log-likelihood",
    smoke=(("bnn-boston",), ("hyperband",)),
    smoke_evaluations=0.35,
)


def kept_tests(problems: Iterable[str]) -> dict[str, Tests]:
    """Return the test losses of all stored evaluations, by problem and validation loss."""
    found: dict[str, Tests] = {}
    for name in problems:
        problem = problem_of(name)
        assert isinstance(problem, BayesianNetwork)
        found[name] = {row["loss"]: row["test"] for row in problem.evaluations.rows.values()}
    return found


def held_out_losses(measured: Measured, tests: Mapping[str, Tests]) -> dict[str, Any]:
    """By problem and method, mean ± standard error of the final incumbents' negative log-likelihood of test data."""
    losses: dict[str, dict[str, str]] = {}
    for name, methods in measured.results.items():
        losses[name] = {}
        for method in methods:
            ends = [points[-1].loss for points in measured.trajectories(name, method) if points]
            found = [min(test, WORST) for loss in ends if (test := tests[name].get(loss)) is not None]
            losses[name][method] = f"{shown(found)} ({len(found)} runs)" if found else "not kept"
    return losses


def report(measured: Measured, out: Path, tests: Mapping[str, Tests] | None = None, notes: Sequence[str] = ()) -> None:
    """Write the usual files and the losses on test data.

    tests: the test losses by problem and validation loss; by default those of stored evaluations.
    notes: sentences for the page.
    """
    known = kept_tests(measured.results) if tests is None else tests
    body = publish(measured, out, lambda _: {"test": held_out_losses(measured, known), "notes": list(notes)})
    print(final_table(body))
    for problem, methods in body["test"].items():
        print(f"{problem}, test data:", *(f"{method} {text};" for method, text in methods.items()))


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report)


if __name__ == "__main__":
    main()
