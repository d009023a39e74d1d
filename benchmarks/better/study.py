"""Compare the preset `BEST` with the published BOHB and with other packages, in seven parts.

    python -m benchmarks.better.study --part main --jobs 2           # against all others, one worker
    python -m benchmarks.better.study --part parallel --jobs 2       # with 16 workers on the simulated clock
    python -m benchmarks.better.study --part misspecified --jobs 2   # with wrong budgets
    python -m benchmarks.better.study --part ablation --jobs 2       # without one of its parts
    python -m benchmarks.better.study --part rivals --jobs 2         # against more packages, on 12 problems
    python -m benchmarks.better.study --part workers --jobs 2        # with 1 to 64 workers, on 12 problems
    python -m benchmarks.better.study --part one_budget --jobs 2     # on the largest budget alone

The protocol is in `protocol.py`; it was fixed before any result was seen. Finished runs are stored, so every part can
be interrupted and resumed; `--kept` makes the tables from stored runs and runs nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.better import analysis, one_budget, report, rival_runs, standings, variants, workers
from benchmarks.better.analysis import Results, View
from benchmarks.better.pages import with_interval
from benchmarks.better.protocol import (
    ALL_RIVALS,
    FAST,
    LENGTH,
    OTHER_FLOORS,
    OURS,
    RIVALS,
    Plan,
    main_runs,
    parallel_runs,
)
from benchmarks.command import available, guarded, words
from benchmarks.data import VARIABLE, Missing
from benchmarks.report import RESULTS
from benchmarks.results import rival_versions
from benchmarks.runs import CACHE, Run, kept, run_all

PARTS = ("main", "parallel", "misspecified", "ablation", "rivals", "workers", "one_budget")
SMOKE_PROBLEMS, SMOKE_LENGTH, SMOKE_WORKERS = ("hartmann-3", "hartmann-6"), 2.0, (1, 2)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--part", choices=PARTS, default="main")
    found.add_argument(
        "--runs", type=int, help="number of seeds (default: 10; main 40; misspecified, one_budget, rivals 20)"
    )
    found.add_argument(
        "--own-runs", type=int, default=40, help="seeds of our methods in the part rivals, if more (default: 40)"
    )
    found.add_argument("--long-runs", type=int, default=10, help="seeds of our methods that run to 200 (default: 10)")
    found.add_argument("--dehb-runs", type=int, help="largest number of seeds of DEHB (default: 10; rivals 20)")
    found.add_argument("--slow-runs", type=int, help="the same for HpBandSter and SMAC (default: 3; rivals 20)")
    found.add_argument("--jobs", type=int, default=1, help="number of runs at the same time")
    found.add_argument("--methods", type=words, help="default: those of the part")
    found.add_argument("--problems", type=words, help="default: those of the part")
    found.add_argument("--kept", action="store_true", help="run nothing; make the tables from stored runs")
    found.add_argument("--smoke", action="store_true", help="a version that takes seconds")
    found.add_argument("--data", type=Path, help=f"data directory (default: {VARIABLE} or ../shared/data)")
    found.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are stored")
    found.add_argument("--out", type=Path, default=RESULTS)
    return found


class Study:
    """The problems, methods and seeds of one part, from the command line."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.part: str = args.part
        usual = {"main": 40, "misspecified": 20, "one_budget": 20, "rivals": 20}.get(self.part, 10)
        runs = 2 if args.smoke else args.runs or usual
        slow = args.slow_runs or (runs if self.part == "rivals" else 3)
        long = 0 if args.smoke or self.part == "rivals" else args.long_runs
        end = SMOKE_LENGTH if args.smoke else LENGTH
        own_runs = args.own_runs if self.part == "rivals" and not args.smoke else 0
        dehb = args.dehb_runs or (runs if self.part == "rivals" else 10)
        self.plan = Plan(runs, long, dehb, slow, end, own_runs)
        own = SMOKE_PROBLEMS if args.smoke else variants.default_problems(self.part)
        self.problems: tuple[str, ...] = args.problems or own
        self.name = "better" if self.part == "main" else f"better_{self.part}"

    def methods(self, usual: Sequence[str]) -> tuple[str, ...]:
        """Return the methods that can run here."""
        return available(self.args.methods or (("best", "bohb") if self.args.smoke else usual))

    def results(self, runs: Sequence[Run]) -> Results:
        """Perform the runs or look them up; print what is missing."""
        found = kept(runs, self.args.cache) if self.args.kept else run_all(runs, self.args.jobs, self.args.cache)
        missing: dict[str, int] = {}
        for run in runs:
            if run not in found:
                missing[run.method] = missing.get(run.method, 0) + 1
        print(f"# {len(found)} of {len(set(runs))} runs; missing: {missing or 'none'}", file=sys.stderr)
        if not found:
            raise Missing("none of the runs is stored: run this part without --kept first")
        return found

    def body(self, results: Results, runs: Sequence[Run], versions: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the first entries of every result file.

        versions: those of rivals whose runs were kept; default: those of the environments here.
        """
        return {"source": report.source_of(results, self.plan, runs, versions), "protocol": report.protocol()}


def main_part(study: Study) -> list[str]:
    """Compare the preset with all others, one worker."""
    methods, end = study.methods((*OURS, *RIVALS)), study.plan.end
    runs = main_runs(methods, study.problems, study.plan)
    results = study.results(runs)
    views = {"continue": View(), "whole": View("whole")}
    tables = {name: _tables(results, view, study.plan.all_points, methods) for name, view in views.items()}
    floors = [
        {**row, "floor": floor}
        for floor in OTHER_FLOORS
        for row in analysis.against(results, View(floor=floor), (end,))
    ]
    lines = [
        f"{line} (accounting: {name})"
        for name, found in tables.items()
        for line in analysis.criteria(**found, wanted=(*OURS, *RIVALS), points=study.plan.points)
    ]
    problems = analysis.problem_rows(results, end, methods)
    body = study.body(results, runs) | {"criteria": lines, **tables, "floors": floors, "problems": problems}
    report.write_page(study.args.out, study.name, body)
    report.draw_regrets(results, methods, study.args.out / f"{study.name}.png")
    report.draw_ranks(results, methods, study.args.out / f"{study.name}_ranks.png")
    return lines


def _tables(results: Results, view: View, points: Sequence[float], methods: Sequence[str]) -> dict[str, analysis.Rows]:
    return {
        "versus": analysis.against(results, view, points),
        "families": analysis.by_family(results, view, points),
        "ranked": analysis.ranks(results, view, points, methods),
    }


def parallel_part(study: Study) -> list[str]:
    """Compare with many workers on the simulated clock, at equal budget and at equal simulated time."""
    methods, points = study.methods((*OURS, *FAST)), study.plan.points
    runs = parallel_runs(methods, study.problems, study.plan)
    results = study.results(runs)
    tables = _tables(results, View(), points, methods)
    timed = _at_equal_time(results)
    lines = analysis.criteria(**tables, wanted=methods, points=points)
    problems = analysis.problem_rows(results, points[-1], methods)
    body = study.body(results, runs) | {"criteria": lines, **tables, "at equal time": timed, "problems": problems}
    report.write_page(study.args.out, study.name, body)
    report.draw_regrets(results, methods, study.args.out / f"{study.name}.png")
    return lines


def _at_equal_time(results: Results) -> analysis.Rows:
    """Compare the preset with the others at the mean time at which BOHB's runs end."""
    ends: dict[str, list[float]] = {}
    for run, result in results.items():
        if run.method == "bohb":
            ends.setdefault(run.problem, []).append(result.time)
    there = {run: result for run, result in results.items() if run.problem in ends}
    regrets = View(axis="time").regrets(there, lambda run: statistics.fmean(ends[run.problem]))
    others = dict.fromkeys(m for known in regrets.values() for m in known if m != "best")
    found = {other: analysis.compare(regrets, "best", other) for other in others}
    return [{"method": other, "point": "end", **row} for other, row in found.items() if row is not None]


def misspecified_part(study: Study) -> list[str]:
    """Compare wrong budgets with right ones."""
    methods = study.methods(variants.MISSPECIFIED_METHODS)
    pairs = variants.misspecified(methods, study.problems, study.plan)
    runs = list(dict.fromkeys(run for pair in pairs for run in (pair.right, pair.wrong)))
    results = study.results(runs)
    rows = variants.misspecified_rows(pairs, results, study.plan.end)
    lines = variants.misspecified_criteria(rows)
    body = study.body(results, runs) | {"criteria": lines, "cases": rows}
    report.write_page(study.args.out, study.name, body)
    return lines


def ablation_part(study: Study) -> list[str]:
    """Remove one part of the preset at a time, on the tuning problems."""
    chosen = variants.ABLATION[:1] if study.args.smoke else variants.ABLATION
    runs = variants.ablation_runs(chosen, study.problems, study.plan)
    results = study.results(runs)
    rows = variants.ablation_rows(chosen, study.problems, results, study.plan.points)
    lines = [
        f"{row['variant']}: {with_interval(row)} times the regret of BEST at {study.plan.end:g}"
        for row in rows
        if row["point"] == study.plan.end
    ]
    body = study.body(results, runs) | {"criteria": lines, "variants": rows}
    report.write_page(study.args.out, study.name, body)
    return lines


def rivals_part(study: Study) -> list[str]:
    """Compare with all rivals on the same few problems, at equal budget and at equal total time.

    Runs of rivals that are kept in git are not performed again.
    """
    versions, then = rival_runs.read(study.problems)
    here, plan = study.methods((*OURS, *ALL_RIVALS)), study.plan
    wanted = study.args.methods or (here if study.args.smoke else (*OURS, *ALL_RIVALS))
    methods = [method for method in wanted if method in {*here, *versions}]
    runs = main_runs(methods, study.problems, plan)
    known = {run: then[run] for run in runs if run in then}
    results = {**study.results([run for run in runs if run not in known and run.method in here]), **known}
    versions |= rival_versions([method for method in methods if method in here])
    tables = standings.tables(results, methods, plan.points)
    lines = [*standings.leaders(tables["ranked"]), *standings.gaps(results, methods)]
    problems = analysis.problem_rows(results, plan.end, methods)
    there = {run.method for run in results}
    body = study.body(results, runs, {method: text for method, text in versions.items() if method in there})
    body |= {"criteria": lines, **tables, "problems": problems}
    report.write_page(study.args.out, study.name, body)
    return lines


def workers_part(study: Study) -> list[str]:
    """Compare numbers of workers at equal cost, and the two orders in which waiting runs may start."""
    methods, points = study.methods(workers.METHODS), study.plan.points
    counts = SMOKE_WORKERS if study.args.smoke else workers.WORKERS
    runs = workers.worker_runs(methods, study.problems, study.plan, counts)
    results = study.results(runs)
    tables = workers.tables(results, points) | workers.with_higher_floors(results, points[-1])
    lines = workers.findings(tables, points[-1])
    names = [f"{method} × {count}" for method in methods for count in counts]
    problems = analysis.problem_rows(workers.by_name(results), points[-1], names)
    body = study.body(results, runs) | {"criteria": lines, **tables, "problems": problems}
    report.write_page(study.args.out, study.name, body)
    return lines


def one_budget_part(study: Study) -> list[str]:
    """Compare the preset on the largest budget alone with its parts, our other methods and rivals without budgets."""
    points = study.plan.points
    runs = one_budget.wanted(study.problems, study.plan)
    versions, then = rival_runs.read(study.problems)
    here = {run: result for run, result in then.items() if run.method in one_budget.RIVALS}
    results = {**study.results(runs), **here}
    rows = one_budget.rows(results, points)
    lines = one_budget.findings(rows, study.plan.end)
    body = study.body(results, [*runs, *here], {run.method: versions[run.method] for run in here})
    body |= {"criteria": lines, "rows": rows}
    report.write_page(study.args.out, study.name, body)
    return lines


PART: dict[str, Callable[[Study], list[str]]] = {
    "main": main_part,
    "parallel": parallel_part,
    "misspecified": misspecified_part,
    "ablation": ablation_part,
    "rivals": rivals_part,
    "workers": workers_part,
    "one_budget": one_budget_part,
}


def main() -> None:
    args = parser().parse_args()
    if args.data is not None:
        os.environ[VARIABLE] = str(args.data)
    guarded(lambda: print(*PART[args.part](Study(args)), sep="\n"))


if __name__ == "__main__":
    main()
