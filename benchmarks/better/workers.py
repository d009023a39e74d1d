"""The part "workers": what several workers cost, and whether the order of waiting runs or of brackets is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from benchmarks.better.analysis import Results, Rows, View, compare
from benchmarks.better.pages import variant_label, with_interval
from benchmarks.better.protocol import FLOOR, OTHER_FLOORS, Plan
from benchmarks.runs import Run

METHODS = ("bohb", "best")
WORKERS = (1, 2, 4, 16, 64)
OLDEST = "start_order='oldest_bracket'"
NOT_REPEATED = "without='repeats'"
OLDEST_WORKERS = (2, 4, 16)  # one worker runs one bracket after the other in any case
Variant = tuple[str, int]  # a method and its number of workers


def worker_runs(methods: Sequence[str], problems: Sequence[str], plan: Plan, workers: Sequence[int]) -> list[Run]:
    """Return the runs with each number of workers, and those with another order of runs or brackets, by seed."""
    variants: list[Variant] = []
    for method in methods:
        variants += [(method, w) for w in workers]
        variants += [(f"{method}:{OLDEST}", w) for w in workers if w in OLDEST_WORKERS]
        variants += [(f"{method}:{NOT_REPEATED}", w) for w in workers if w > 1 and method == "best"]
    return [
        Run(problem, method, seed, plan.end, w, "continue")
        for seed in range(plan.runs)
        for problem in problems
        for method, w in variants
    ]


def tables(results: Results, points: Sequence[float], floor: float = FLOOR) -> dict[str, Rows]:
    """Return the tables of the page, by name.

    Regrets are relative to one worker, BOHB's to the preset's with as many workers, those of the oldest bracket first
    to those of the smallest budget first, and those without repeated brackets to those with them.
    """
    there = list(dict.fromkeys((run.method, run.workers) for run in results))
    pairs: dict[str, list[tuple[Variant, Variant]]] = {
        "one worker": [((m, w), (_base(m), 1)) for m, w in there if w > 1 and _change(m) != NOT_REPEATED],
        "lead": [((m, w), ("best", w)) for m, w in there if m == "bohb"],
        "order": [((m, w), (_base(m), w)) for m, w in there if _change(m) == OLDEST],
        "repeats": [((m, w), (_base(m), w)) for m, w in there if _change(m) == NOT_REPEATED],
    }
    return {name: _rows(results, points, chosen, floor) for name, chosen in pairs.items()}


def with_higher_floors(results: Results, end: float) -> dict[str, Rows]:
    """Return the first two tables at the end of the runs, with higher floors of the regret."""
    found = {floor: tables(results, (end,), floor) for floor in OTHER_FLOORS}
    return {
        f"{name}, floors": [{**row, "floor": floor} for floor in OTHER_FLOORS for row in found[floor][name]]
        for name in ("one worker", "lead")
    }


def _base(method: str) -> str:
    """Return the method without changed settings."""
    return method.partition(":")[0]


def _change(method: str) -> str:
    """Return the changed setting of a method; empty if there is none."""
    return method.partition(":")[2]


def _rows(results: Results, points: Sequence[float], pairs: Iterable[tuple[Variant, Variant]], floor: float) -> Rows:
    """Return the regret of the first of each pair relative to the second, at every point."""
    named = by_name(results)
    regrets = {point: View(floor=floor).regrets(named, point) for point in points}
    rows: Rows = []
    for of, to in pairs:
        for point in points:
            found = compare(regrets[point], _name(to), _name(of))
            if found is not None:
                rows.append({"method": of[0], "workers": of[1], "point": point, **found})
    return rows


def by_name(results: Results) -> Results:
    """Return the results with the number of workers as a part of the method's name, as in "bohb × 4"."""
    return {replace(run, method=_name((run.method, run.workers))): result for run, result in results.items()}


def _name(variant: Variant) -> str:
    return f"{variant[0]} × {variant[1]}"


def findings(found: Mapping[str, Rows], end: float) -> list[str]:
    """Return a line for each comparison at the end of the runs."""
    words = {
        "one worker": "times the regret with one worker",
        "lead": "times the regret of BEST",
        "order": "times the regret of the smallest budget first",
        "repeats": "times the regret with repeated brackets",
    }
    return [
        f"{variant_label(row)}: {with_interval(row)} {text} at {end:g}"
        for name, text in words.items()
        for row in found[name]
        if row["point"] == end
    ]
