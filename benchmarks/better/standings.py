"""The standings of all rivals: regrets and ranks by family, and regrets at equal total time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from benchmarks.better.analysis import SEED, Results, Rows, View, against, compare, of_family, ranks
from benchmarks.better.pages import label, rank_cell
from benchmarks.better.protocol import EVALUATION_SECONDS, family
from benchmarks.better.statistics import Regrets, average_ranks, geometric_mean, means
from benchmarks.runs import Run

EVERYTHING = "all"


def tables(results: Results, methods: Sequence[str], points: Sequence[float]) -> dict[str, Rows]:
    """Return the tables of the page, by name. Only methods that have runs on all problems are ranked."""
    ranked = [method for method, missing in missing_problems(results, methods).items() if not missing]
    return {
        "versus": against(results, View(), points),
        "ranked": ranks(results, View(), points, ranked),
        "versus, whole": against(results, View("whole"), points),
        "ranked, whole": ranks(results, View("whole"), points, ranked),
        "families": by_method_and_family(results, methods, ranked, points),
        "total time": at_equal_time(results, points[-1]),
    }


def missing_problems(results: Results, methods: Sequence[str]) -> dict[str, set[str]]:
    """Return the problems on which each method has no run; methods without any run are left out."""
    problems = {run.problem for run in results}
    there = {method: {run.problem for run in results if run.method == method} for method in methods}
    return {method: problems - known for method, known in there.items() if known}


def by_method_and_family(
    results: Results, methods: Sequence[str], ranked: Sequence[str], points: Sequence[float]
) -> Rows:
    """Return the mean regret and the average rank of every method in every family, and over all problems."""
    rows: Rows = []
    for point in points:
        regrets = View().regrets(results, point)
        names = [EVERYTHING, *dict.fromkeys(map(family, regrets))]
        for name in names:
            part = regrets if name == EVERYTHING else of_family(regrets, name)
            rows += [{"family": name, "point": point, **row} for row in _standing(part, methods, ranked)]
    return rows


def _standing(regrets: Regrets, methods: Sequence[str], ranked: Sequence[str]) -> Rows:
    """Return the mean regret of every method, and the rank of those that are ranked."""
    rng = np.random.default_rng(SEED)
    common = means(rng, regrets, ranked) if ranked else None
    places = {} if common is None else average_ranks(common)
    rows: Rows = []
    for method in methods:
        known = means(rng, regrets, (method,))
        if known is None:
            continue
        regret = geometric_mean(known, method)
        rank = places[method].value if method in places else None
        rows.append({"method": method, "regret": regret.value, "low": regret.low, "high": regret.high, "rank": rank})
    return rows


def at_equal_time(results: Results, end: float) -> Rows:
    """Compare the preset with the others when a fixed total time has passed, which includes their own CPU time.

    The time is that of `end` full evaluations without any optimiser. The CPU time of a method is the median over seeds,
    spread evenly over its run.
    """
    seconds = seconds_per_evaluation(results)
    rows: Rows = []
    for evaluation in EVALUATION_SECONDS:

        def reached(run: Run, evaluation: float = evaluation) -> float:
            return end / (1 + seconds[run.problem, run.method] / evaluation)

        regrets = View().regrets(results, reached)
        for other in dict.fromkeys(run.method for run in results if run.method != "best"):
            found = compare(regrets, "best", other)
            if found is not None:
                rows.append({"method": other, "evaluation": evaluation, **found})
    for method in dict.fromkeys(run.method for run in results):
        own = [value * end for (_, name), value in seconds.items() if name == method]
        rows.append({"method": method, "evaluation": "CPU s", "seconds": statistics.fmean(own)})
    return rows


def seconds_per_evaluation(results: Results) -> dict[tuple[str, str], float]:
    """Return the CPU time per full evaluation of each method on each problem, the median over seeds."""
    found: dict[tuple[str, str], list[float]] = {}
    for run, result in results.items():
        found.setdefault((run.problem, run.method), []).append(result.seconds / run.full_evaluations)
    return {key: statistics.median(values) for key, values in found.items()}


def gaps(results: Results, methods: Sequence[str]) -> list[str]:
    """Return a line for each method without runs, or without runs on some problems."""
    problems = len({run.problem for run in results})
    found = missing_problems(results, methods)
    lines = [f"no runs yet: {label(method)}" for method in methods if method not in found]
    for method, missing in found.items():
        if missing:
            there = f"{problems - len(missing)} of {problems} problems"
            lines.append(f"not ranked: {label(method)} has runs on {there}, and its ratios are for these")
    return lines


def leaders(ranked: Rows) -> list[str]:
    """Return who is first in average rank at each point, and where the preset is."""
    lines = []
    for point in dict.fromkeys(row["point"] for row in ranked):
        order = sorted((row for row in ranked if row["point"] == point), key=lambda row: row["rank"])
        place = next((i for i, row in enumerate(order, 1) if row["method"] == "best"), None)
        first = " and ".join(label(row["method"]) for row in order if row["rank"] == order[0]["rank"])
        line = f"first in average rank at {point:g}: {first} ({rank_cell(order[0])}, {len(order)} methods)"
        if place is not None and order[place - 1]["rank"] > order[0]["rank"]:
            line += f"; BEST has place {place} ({rank_cell(order[place - 1])})"
        lines.append(line)
    return lines
