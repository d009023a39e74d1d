"""The command line that all experiments share.

EXPERIMENT = Experiment(name="svm", title="…", problems=("svm_mnist",), methods=("bohb", "hyperband"), …)

if __name__ == "__main__":
    run_experiment(EXPERIMENT, __doc__)
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.additions import existing
from benchmarks.data import VARIABLE, Missing
from benchmarks.experiment import Experiment, Measured, measure
from benchmarks.problems import problem_of
from benchmarks.report import RESULTS
from benchmarks.results import final_table, publish
from benchmarks.runs import CACHE, require


def words(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list."""
    return tuple(word for word in text.split(",") if word)


def parser_of(experiment: Experiment, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for the options that every experiment has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, help=f"number of seeds, from 0 (default: {experiment.runs})")
    slow = ", ".join(m for m in experiment.methods if m in experiment.slow)
    text = f"largest number of seeds of {slow or 'slow methods'} (default: {experiment.slow_runs})"
    parser.add_argument("--slow-runs", type=int, help=text)
    parser.add_argument("--jobs", type=int, default=1, help="number of runs at the same time")
    parser.add_argument("--methods", type=words, help=f"default: {','.join(experiment.methods)}")
    parser.add_argument("--problems", type=words, help=f"default: {','.join(experiment.problems)}")
    parser.add_argument(
        "--evaluations", type=float, help=f"full evaluations per run (default: {experiment.full_evaluations:g})"
    )
    parser.add_argument("--incumbent", choices=("authors", "largest"), help="see benchmarks/README.md")
    parser.add_argument("--smoke", action="store_true", help="a version that takes seconds")
    parser.add_argument("--data", type=Path, help=f"data directory (default: {VARIABLE} or ../shared/data)")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are stored")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--add", action="store_true", help="keep results on other problems or with other methods")
    return parser


def chosen(experiment: Experiment, args: argparse.Namespace) -> Experiment:
    """Return the experiment with the options of the command line."""
    if args.data is not None:
        os.environ[VARIABLE] = str(args.data)
    if args.smoke:
        experiment = experiment.shrunk()
    changes = {
        "runs": args.runs,
        "slow_runs": args.slow_runs,
        "methods": args.methods,
        "problems": args.problems,
        "full_evaluations": args.evaluations,
        "protocol": args.incumbent,
    }
    experiment = replace(experiment, add=args.add, **{k: value for k, value in changes.items() if value is not None})
    if args.add:
        existing(experiment, args.out)  # refuses before anything runs
    for problem in experiment.problems:
        problem_of(problem)
    if args.methods is not None:
        require(args.methods)
        return experiment
    return replace(experiment, methods=available(experiment.methods))


def available(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods that can run here; print why the others cannot."""
    there = []
    for method in methods:
        try:
            require([method])
        except Missing as error:
            print(f"# {method} left out: {error}", file=sys.stderr)
        else:
            there.append(method)
    return tuple(there)


def guarded(act: Callable[[], None]) -> None:
    """Call `act`; if something is missing, print one line and exit with status 2."""
    try:
        act()
    except Missing as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def print_finals(measured: Measured, out: Path) -> None:
    """Write the usual files, and print the final regrets."""
    print(final_table(publish(measured, out)))


def run_experiment(
    experiment: Experiment,
    description: str | None,
    report: Callable[[Measured, Path], None] = print_finals,
    measure: Callable[[Experiment, int, Path], Measured] = measure,
) -> None:
    """Run the command line of an experiment.

    report: writes and prints the results.
    measure: performs the runs.
    """
    args = parser_of(experiment, description).parse_args()
    guarded(lambda: report(measure(chosen(experiment, args), args.jobs, args.cache), args.out))
