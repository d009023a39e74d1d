"""Compare our BOHB with HpBandSter's: final regrets over many seeds, and a two-sided test per problem.

    python -m benchmarks.paper.compare --runs 20 --jobs 2

The problems are the 17 LCBench surrogates, counting ones in 16 dimensions and the SVM, each with its own length
(LENGTHS). The SVM is solved within a few full evaluations, so there the comparison uses the mean of log regret over the
logarithm of the budget. The test is the Mann-Whitney test, because the seeds of the two programs are unrelated; p is
corrected by Holm's method over all problems. The effect is the share of pairs of runs in which ours is better; ties
count one half. "Not worse" means that no problem has a corrected p below 0.05 with an effect below one half.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.command import run_experiment
from benchmarks.curves import Axis, Trajectory, final, regret_at
from benchmarks.experiment import Experiment, Measured, measure
from benchmarks.paper.lcbench import INSTANCES
from benchmarks.report import table, verdict

LENGTHS = {"counting_ones-8-8": 32.0, "svm_mnist": 4.0}  # full evaluations; all others as the experiment says
EXPERIMENT = Experiment(
    name="compare",
    title="Our BOHB compared with HpBandSter's",
    question="Is our BOHB as good as that of HpBandSter, the authors' program?",
    problems=(*(f"lcbench-{instance}" for instance in INSTANCES), "counting_ones-8-8", "svm_mnist"),
    methods=("bohb", "hpbandster"),
    full_evaluations=30,
    runs=20,
    floor=1e-5,
    smoke=(("counting_ones-4-4", "hartmann-3"), ("bohb", "hpbandster-preset")),
)
LEVEL = 0.05


def score(problem: str, points: Trajectory) -> float:
    """What is compared of one run, the lower the better."""
    return _area(points) if problem == "svm_mnist" else final(points)


def _area(points: Trajectory, axis: Axis = "spent") -> float:
    """The mean of log10 regret over the logarithm of the budget, from 1/100 of a full evaluation to 4 of them."""
    x = np.geomspace(0.01, 4, 200)
    regret = np.nan_to_num(regret_at(points, x, axis), nan=0.9)  # as the authors do before there is an incumbent
    return float(np.log10(np.maximum(regret, 1e-5)).mean())


def holm(p: Sequence[float]) -> list[float]:
    """Holm's correction: as many tests as there are, the smallest p first."""
    order = np.argsort(p)
    corrected = np.maximum.accumulate([min(1.0, (len(p) - i) * p[j]) for i, j in enumerate(order)])
    back = np.empty(len(p))
    back[order] = corrected
    return [float(value) for value in back]


def effect(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The share of pairs in which ours is lower, ties counting one half."""
    difference = np.subtract.outer(np.asarray(theirs), np.asarray(ours))
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def rows_of(measured: Measured) -> list[dict[str, Any]]:
    """One row per problem."""
    from scipy.stats import mannwhitneyu

    first, second = measured.experiment.methods[:2]
    rows: list[dict[str, Any]] = []
    for problem, methods in measured.results.items():
        if first not in methods or second not in methods:
            continue
        ours, theirs = ([score(problem, t) for t in measured.trajectories(problem, m)] for m in (first, second))
        same = len(set(ours + theirs)) == 1
        p = 1.0 if same else float(mannwhitneyu(ours, theirs, alternative="two-sided").pvalue)
        rows.append(
            {
                "problem": problem,
                "runs": min(len(ours), len(theirs)),
                "ours": statistics.fmean(ours),
                "theirs": statistics.fmean(theirs),
                "effect": effect(ours, theirs),
                "p": p,
            }
        )
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        worse = corrected < LEVEL and row["effect"] < 0.5
        better = corrected < LEVEL and row["effect"] > 0.5
        row |= {"p (Holm)": corrected, "verdict": "worse" if worse else "better" if better else "no difference"}
    return rows


def overall(rows: Sequence[Mapping[str, Any]]) -> str:
    """The one line that sums it up."""
    worse = [row["problem"] for row in rows if row["verdict"] == "worse"]
    better = [row["problem"] for row in rows if row["verdict"] == "better"]
    detail = f"worse on {worse or 'none'}, better on {better or 'none'} of {len(rows)}"
    enough = bool(rows) and min(row["runs"] for row in rows) >= 20
    return verdict(not worse if enough else None, "not worse than HpBandSter, 20 seeds or more", detail)


def sentences(body: Mapping[str, Any]) -> list[str]:
    """Return the result of the tests in words."""
    rows = body["comparison"]
    worse, better = (sum(row["verdict"] == word for row in rows) for word in ("worse", "better"))
    lower = sum(row["ours"] < row["theirs"] for row in rows)
    runs = min(row["runs"] for row in rows)
    return [
        f"With {runs} seeds per problem, ours is significantly worse on {worse} and significantly better on {better} "
        f"of {len(rows)} problems (Mann-Whitney test, Holm's correction).",
        f"Its mean is lower on {lower} of {len(rows)}.",
    ]


def tests_section(body: Mapping[str, Any]) -> str:
    """Return the tests as a section of the page."""
    rows = body["comparison"]
    columns = list(rows[0])
    lines = ["", "## Test", "", "| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in rows:
        cells = [f"{row[c]:.3g}" if isinstance(row[c], float) else str(row[c]) for c in columns]
        lines.append("| " + " | ".join(cells) + " |")
    lengths = ", ".join(f"{length:g} on {problem}" for problem, length in body["lengths"].items())
    lines += ["", f"{' '.join(body['verdict'].split())}.", ""]
    lines += [f"Runs have other lengths on two problems: {lengths} full evaluations. For the SVM, `ours` and `theirs`"]
    lines += ["are mean log10 regrets over the run; for the others, they are final regrets."]
    return "\n".join(lines) + "\n"


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/compare.md."""
    return results.page(EXPERIMENT, body, sentences(body)) + tests_section(body)


def measure_all(experiment: Experiment, jobs: int, folder: Path) -> Measured:
    """Each problem with its own length."""
    found: dict[str, Any] = {}
    groups = {length: tuple(p for p in experiment.problems if LENGTHS.get(p) == length) for length in LENGTHS.values()}
    groups[experiment.full_evaluations] = tuple(p for p in experiment.problems if p not in LENGTHS)
    for length, problems in groups.items():
        found |= measure(replace(experiment, problems=problems, full_evaluations=length), jobs, folder).results
    return Measured(experiment, {problem: found[problem] for problem in experiment.problems})


def report(measured: Measured, out: Path) -> None:
    rows = rows_of(measured)
    if not rows:
        print("nothing to compare: both methods must have run; `make hpbandster-env` makes the other one")
        return
    line = overall(rows)
    body = results.publish(measured, out, lambda _: {"comparison": rows, "lengths": LENGTHS, "verdict": line})
    (out / "compare.md").write_text(page(body))
    print(table(rows), "", line, sep="\n")


def main() -> None:
    run_experiment(EXPERIMENT, __doc__, report, measure_all)


if __name__ == "__main__":
    main()
