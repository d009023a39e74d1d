"""Run the study and write docs/results/several.{json,md}: `python -m benchmarks.several --jobs 2`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.drawing import LABELS
from benchmarks.report import RESULTS, opening, provenance
from benchmarks.results import write_json
from benchmarks.rivals import MissingEnvironment, find, python, version
from benchmarks.several import analysis
from benchmarks.several.methods import NO_CONSTRAINTS, OURS, RIVALS
from benchmarks.several.problems import PROBLEMS, TASKS, problem_of
from benchmarks.several.runs import Row, Run, last_stored, run_all

LENGTH = 60.0  # full evaluations
SHARES = (0.1, 0.3, 1.0)  # of the length, where results are compared
TPE = "optuna-motpe"
SLOW = ("smac-parego", "synetune-moasha")  # a run takes most of a minute …
FEW_TASKS = ("lcbench-34539", "rbv2_ranger-12", "iaml_super-1489")  # … so they get one task of each family
NAMES = {"best": "BEST", "bohb": "BOHB", "random": "random search", TPE: "Optuna TPE", "optuna-nsga2": "Optuna NSGA-II"}
NAMES |= {"smac-parego": "SMAC ParEGO", "synetune-moasha": "Syne Tune MO-ASHA"}

All = dict[str, dict[str, dict[int, list[Row]]]]  # problem -> method -> seed -> rows


def planned(problems: Sequence[str], methods: Sequence[str], seeds: int, slow_tasks: Sequence[str]) -> list[Run]:
    """Return all runs: every seed of every method on every problem that it can handle.

    slow_tasks: the problems of slow methods.
    """
    return [
        Run(problem, method, seed, LENGTH)
        for seed in range(seeds)
        for problem in problems
        for method in methods
        if problem in TASKS or method not in NO_CONSTRAINTS
        if problem in slow_tasks or method not in SLOW
    ]


def by_problem(results: Mapping[Run, list[Row]]) -> All:
    """Return the results by problem, method and seed."""
    found: All = {}
    for run, rows in results.items():
        found.setdefault(run.problem, {}).setdefault(run.method, {})[run.seed] = rows
    return found


def objectives_part(runs: All) -> dict[str, Any]:
    """Return the relative hypervolume of every method at the compared points, and how soon ours reaches TPE's."""
    at = np.linspace(0.01, 1.0, 400) * LENGTH
    table: dict[str, Any] = {}
    pairs: dict[str, list[Any]] = {}
    for name in (task for task in TASKS if task in runs):
        volume = analysis.Volume(name, runs[name])
        curves = {m: np.array([volume.curve(r, at) for r in seeds.values()]) for m, seeds in runs[name].items()}
        places = [int(np.searchsorted(at, share * LENGTH - 1e-9)) for share in SHARES]
        table[name] = {m: [analysis.summary(c[:, place].tolist()) for place in places] for m, c in curves.items()}
        for method in curves.keys() - {TPE}:
            if TPE in curves:
                pairs.setdefault(method, []).append((curves[method], curves[TPE]))
    rng = np.random.default_rng(0)
    reached = {m: [*analysis.geometric_mean_interval(found, at, rng), len(found)] for m, found in sorted(pairs.items())}
    return {"hypervolume": table, "share of the budget to reach Optuna TPE's final hypervolume": reached}


def constraints_part(runs: All) -> dict[str, Any]:
    """Return mean ranks by best feasible error, infeasible shares and errors on the constrained problems."""
    bounded = {name: methods for name, methods in runs.items() if name not in TASKS}
    if not bounded:
        return {}
    shares: dict[str, list[float]] = {}
    own: dict[str, list[float]] = {}
    table: dict[str, Any] = {}
    for name, methods in bounded.items():
        bound = problem_of(name).bound
        assert bound is not None
        table[name] = {}
        for method, seeds in methods.items():
            shares.setdefault(method, []).extend(analysis.infeasible_share(rows, bound) for rows in seeds.values())
            on_own = (analysis.infeasible_share_on_own_budget(rows, bound) for rows in seeds.values())
            own.setdefault(method, []).extend(on_own)
            finals = [analysis.best_feasible(rows, bound, LENGTH) for rows in seeds.values()]
            found = [error for error in finals if np.isfinite(error)]
            table[name][method] = {"none feasible": len(finals) - len(found)} | (
                analysis.summary(found) if found else {}
            )
    return {
        "mean rank": {f"{share:.0%}": analysis.average_ranks(bounded, share * LENGTH) for share in SHARES},
        "infeasible share": {method: analysis.summary(found) for method, found in shares.items()},
        "infeasible share on own budget": {method: analysis.summary(found) for method, found in own.items()},
        "error": table,
    }


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/several.md."""
    methods = list(dict.fromkeys(m for row in body["hypervolume"].values() for m in row))
    lines = opening(
        "Several objectives and constraints",
        "Does the preset BEST find better trade-offs, and better configurations within a bound, than BOHB as published "
        "and Optuna?",
        _sentences(body),
    )
    lines += [*_intro(body), ""]
    lines += ["Dominated hypervolume after 10 %, 30 % and 100 %, relative to the best known front:", ""]
    lines += ["| task | " + " | ".join(_name(m) for m in methods) + " |", "|---|" + "---|" * len(methods)]
    for task, row in body["hypervolume"].items():
        cells = [" / ".join(f"{entry['mean']:.2f}" for entry in row[m]) if m in row else "–" for m in methods]
        lines.append(f"| {task} | " + " | ".join(cells) + " |")
    lines += ["", "Share of the budget after which a method's mean hypervolume reaches the final one of Optuna's TPE,"]
    lines += ["geometric mean over the tasks with its 95 % interval over seeds; 1 if it never does:", ""]
    lines += ["| method | share | tasks |", "|---|---|---|"]
    reached = body["share of the budget to reach Optuna TPE's final hypervolume"]
    lines += [
        f"| {_name(m)} | {mean:.2f} [{low:.2f}, {high:.2f}] | {n} |" for m, (mean, low, high, n) in reached.items()
    ]
    if "mean rank" in body:
        lines += _constraint_lines(body)
    lines += _source_lines(body)
    return "\n".join(lines) + "\n"


def _sentences(body: Mapping[str, Any]) -> list[str]:
    reached = body["share of the budget to reach Optuna TPE's final hypervolume"]
    names = [m for m in ("best", "bohb") if m in reached]
    shares = [f"{_name(m)} after {reached[m][0]:.0%} of the budget" for m in names]
    found = [f"The final hypervolume of Optuna's TPE is reached by {' and by '.join(shares)}."] if shares else []
    ranks = body.get("mean rank", {}).get("100%", {})
    ordered = sorted(ranks, key=lambda method: float(ranks[method]))
    listed = ", ".join(f"{_name(method)} {ranks[method]:.2f}" for method in ordered)
    return [*found, f"The mean ranks by the best error within a bound are {listed}."] if ranks else found


def _intro(body: Mapping[str, Any]) -> list[str]:
    seeds = len(body["source"]["seeds"])
    slow = [_name(m) for m in body["source"]["rivals"] if m in SLOW]
    few = [f"{' and '.join(slow)} are slow and were run on some tasks only; a dash marks the others."] if slow else []
    return [
        "Two-objective tasks from the surrogates of YAHPO Gym: error and seconds per epoch (lcbench), error and",
        "seconds of prediction (rbv2_ranger), error and memory of the model (iaml_super). Constrained variants",
        "minimise the error where the second value is among the lowest 10 % or 1 % of random configurations. Every run",
        f"has {LENGTH:g} full evaluations, and there are {seeds} seeds. A promoted configuration is charged only for",
        "the added budget. Only results on the largest budget count. Optuna and SMAC evaluate everything there.",
        *few,
    ]


def _constraint_lines(body: Mapping[str, Any]) -> list[str]:
    methods = list(body["infeasible share"])
    lines = ["", "## Constraints", ""]
    lines += ["Mean rank by the best feasible error, over all constrained tasks and seeds, and the share of trials"]
    lines += ["after the first 20 that are infeasible, counted in two ways: their configuration breaks the bound on"]
    lines += ["the largest budget, or their value breaks it on the budget that they ran on:", ""]
    points = list(body["mean rank"])
    lines += ["| method | " + " | ".join(f"rank at {p}" for p in points) + " | infeasible | on own budget |"]
    lines += ["|---|" + "---|" * (len(points) + 2)]
    for m in methods:
        numbers = [body["mean rank"][p][m] for p in points]
        numbers += [body[key][m]["mean"] for key in ("infeasible share", "infeasible share on own budget")]
        lines.append(f"| {_name(m)} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")
    lines += ["", "Mean error of the best feasible result at the end; in brackets the runs without one:", ""]
    lines += ["| task | " + " | ".join(_name(m) for m in methods) + " |", "|---|" + "---|" * len(methods)]
    for task, row in body["error"].items():
        lines.append(f"| {task} | " + " | ".join(_error_cell(row.get(m)) for m in methods) + " |")
    return lines


def _error_cell(entry: Mapping[str, Any] | None) -> str:
    if entry is None:
        return "–"
    none = f" [{entry['none feasible']}]" if entry["none feasible"] else ""
    return (f"{entry['mean']:.4f} ± {entry['error']:.1g}" if "mean" in entry else "none") + none


def _source_lines(body: Mapping[str, Any]) -> list[str]:
    source = body["source"]
    rivals = "; ".join(f"{_name(m)}: {text}" for m, text in source["rivals"].items())
    return ["", f"- command: `{source['command']}`", f"- rivals: {rivals}", f"- {source['cpu']}, {source['date']}"]


def _name(method: str) -> str:
    return NAMES.get(method, LABELS.get(method, method))


def available(methods: Sequence[str]) -> list[str]:
    """Return the methods whose environment exists, and say which are missing."""
    kept: list[str] = []
    for method in methods:
        try:
            if method not in OURS:
                python(find(method))
            kept.append(method)
        except MissingEnvironment as missing:
            print(f"# {method} is left out: {missing}")
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--methods", default=",".join((*OURS, *RIVALS)))
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--slow-tasks", default=",".join(FEW_TASKS), help=f"the tasks of {' and '.join(SLOW)}")
    parser.add_argument("--stored", action="store_true", help="write the page from the runs that are stored; run none")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    methods = options.methods.split(",") if options.stored else available(options.methods.split(","))
    plan = planned(options.problems.split(","), methods, options.seeds, options.slow_tasks.split(","))
    results, decided = last_stored(plan) if options.stored else (run_all(plan, options.jobs), {})
    runs = by_problem(results)
    source = provenance(sorted({run.seed for run in results}), ("bohb", "numpy", "scipy"))
    kept = [m for m in methods if m not in OURS and any(run.method == m for run in results)]
    source["rivals"] = {m: decided[m].partition(" ")[2] if options.stored else version(m) for m in kept}
    body = {"source": source, **objectives_part(runs), **constraints_part(runs)}
    write_json(options.out / "several.json", body)
    (options.out / "several.md").write_text(page(body))
    print(page(body))


if __name__ == "__main__":
    main()
