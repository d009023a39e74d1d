"""Write the files of the study: JSON with everything, a page of tables, and figures."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drawing
from benchmarks.better.analysis import SEED, Results, Rows, View, of_family
from benchmarks.better.protocol import (
    CHOOSING,
    CONFIRMING,
    FLOOR,
    LENGTH,
    LONG,
    PARALLEL,
    SCALE_SAMPLE,
    SHARES,
    SMOOTH,
    Plan,
    family,
)
from benchmarks.better.statistics import REPLICATES, average_ranks, means
from benchmarks.curves import grid
from benchmarks.report import finite, provenance
from benchmarks.results import PACKAGES, numbers, rival_versions, write_json
from benchmarks.runs import Run

AXIS = "full evaluations (cumulative budget / b_max)"
TITLES = {
    "main": "The preset BEST compared with the published BOHB and other packages",
    "parallel": f"The preset BEST with {PARALLEL} workers",
    "misspecified": "Wrong budgets",
    "rivals": "The preset BEST compared with more packages, on 12 problems",
    "ablation": "The preset BEST without one of its parts",
    "workers": "BOHB as published and the preset BEST with several workers",
    "earlier": "The preset BEST compared with earlier versions of it",
    "one_budget": "The preset BEST with one budget",
}
PROTOCOL = f"""\
- Problems are split before any run. Sorted by name within each family, every third problem, starting with the first, is
  for choosing ({len(CHOOSING)} problems); the others are for confirming ({len(CONFIRMING)}). The ablation uses the
  former unless a row says otherwise, the comparison with earlier versions and the part on one budget both, everything
  else the latter. For one budget, {len(SMOOTH)} smooth functions are among the choosing problems, too.
- Runs have {LENGTH:g} full evaluations; some runs of our own methods have {LONG:g}. Results are reported at 10, 30 and
  100 % of {LENGTH:g}, and at {LONG:g}. The incumbent is on the largest budget. With accounting "continue", a promotion
  is charged only for the added budget; with "whole", for its whole budget.
- A regret is divided by the scale of its problem, the median regret of {SCALE_SAMPLE} random configurations, and counts
  as at least {FLOOR:g}. A ratio is the geometric mean over problems of ratios of mean regrets over seeds.
- Intervals contain 95 % of {REPLICATES} bootstrap replicates, over problems and over seeds within them; with a single
  problem, over seeds only. Ranks are ranks of mean regrets, averaged over problems.
"""


def source_of(
    results: Results, plan: Plan, wanted: Sequence[Run], versions: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the provenance of the numbers, and how many of the wanted runs exist.

    versions: those of the rivals; default: those of the environments here.
    """
    methods = list(dict.fromkeys(run.method for run in results))
    return {
        **provenance(sorted({run.seed for run in results}), PACKAGES),
        "rivals": rival_versions(methods) if versions is None else dict(sorted(versions.items())),
        "runs": {"wanted": len(wanted), "there": len(results)},
        "seeds by method": {method: _seeds(results, method) for method in methods},
        "plan": asdict(plan),
    }


def _seeds(results: Results, method: str) -> str:
    """Return the smallest and largest number of seeds on a problem."""
    seeds: dict[str, set[int]] = {}
    for run in results:
        if run.method == method:
            seeds.setdefault(run.problem, set()).add(run.seed)
    counts = [len(known) for known in seeds.values()]
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def protocol() -> dict[str, Any]:
    """Return the protocol for the JSON file."""
    return {
        "choosing": list(CHOOSING),
        "confirming": list(CONFIRMING),
        "length": LENGTH,
        "long": LONG,
        "points": [share * LENGTH for share in SHARES],
        "floor": FLOOR,
        "scale": f"median regret of {SCALE_SAMPLE} random configurations",
        "bootstrap": {"replicates": REPLICATES, "seed": SEED},
    }


def pivot(rows: Rows, key: str, columns: Sequence[Any], cell: Callable[[Mapping[str, Any]], str], by: str) -> list[str]:
    """Return a Markdown table with a line per value of `key` and a column per value of `by`."""
    lines = ["| " + " | ".join([key, *(f"{c:g}" if isinstance(c, float) else str(c) for c in columns)]) + " |"]
    lines.append("|" + "---|" * (len(columns) + 1))
    for name in dict.fromkeys(row[key] for row in rows):
        found = {row[by]: cell(row) for row in rows if row[key] == name}
        lines.append(
            "| "
            + " | ".join([label(name) if key == "method" else str(name), *(found.get(c, "–") for c in columns)])
            + " |"
        )
    return lines


def label(name: str) -> str:
    """Return the name of a method in tables."""
    base, colon, rest = name.partition(":")
    known = drawing.LABELS.get(base, base)
    return f"{known}, {rest}" if colon else known


def with_interval(row: Mapping[str, Any]) -> str:
    """Return a ratio with its interval."""
    if "low" not in row:
        return f"{row['ratio']:.2f}"
    return f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def with_wins(row: Mapping[str, Any]) -> str:
    """Return a ratio with its interval and the share of problems won."""
    return f"{with_interval(row)}, {row['wins']:.0%}"


def rank_cell(row: Mapping[str, Any]) -> str:
    """Return a rank with its interval."""
    return f"{row['rank']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def footer(source: Mapping[str, Any]) -> list[str]:
    """Return the provenance of a page."""
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    rivals = ", ".join(f"{name}: {text}" for name, text in source["rivals"].items())
    seeds = ", ".join(f"{label(method)} {number}" for method, number in source["seeds by method"].items())
    runs = source["runs"]
    return [
        "## Source",
        "",
        f"- command: `{source['command']}`",
        f"- runs: {runs['there']} of {runs['wanted']}; seeds per problem: {seeds}",
        f"- versions: {versions}",
        *([f"- rivals: {rivals}"] if rivals else []),
        f"- {source['cpu']}, {source['date']}",
    ]


def write_page(out: Path, name: str, part: str, body: Mapping[str, Any], sections: Sequence[Sequence[str]]) -> None:
    """Write `name`.json and `name`.md."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / f"{name}.json", finite(body))
    lines = [f"# {TITLES[part]}", ""]
    lines += ["- " + re.sub(r" {2,}", ": ", line, count=1) for line in body["criteria"]]
    for section in sections:
        lines += ["", *section]
    lines += ["", "## Protocol", "", PROTOCOL, *footer(body["source"])]
    (out / f"{name}.md").write_text("\n".join(lines) + "\n")


def draw_regrets(results: Results, methods: Sequence[str], path: Path) -> None:
    """Normalised regret over budget, the geometric mean over the problems of a family; one panel for each."""
    x = grid(1.0, max(run.full_evaluations for run in results), 40)
    tables = [View().regrets(results, float(point)) for point in x]
    panels = []
    for name in dict.fromkeys(family(run.problem) for run in results):
        curves = {}
        for method in methods:
            y = numbers(_geometric_mean(of_family(table, name), method) for table in tables)
            nothing: list[float | None] = [None] * len(y)
            curves[method] = (list(map(float, x)), y, nothing)
        panels.append(drawing.Panel(name, curves))
    drawing.draw(panels, path, AXIS, "normalised regret", FLOOR)


def _geometric_mean(regrets: Mapping[str, Mapping[str, Any]], method: str) -> float:
    """Of the mean regrets on all problems of a family; NaN if a problem has no run."""
    found = [known[method].mean() for known in regrets.values() if method in known]
    return float(np.exp(np.mean(np.log(found)))) if found and len(found) == len(regrets) else float("nan")


def draw_ranks(results: Results, methods: Sequence[str], path: Path) -> None:
    """The average rank of each method over budget, up to where all of them have runs."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    present = [method for method in methods if any(run.method == method for run in results)]
    end = min(max(run.full_evaluations for run in results if run.method == method) for method in present)
    x = grid(1.0, end, 40)
    curves: dict[str, list[float]] = {method: [] for method in present}
    for point in x:
        known = means(np.random.default_rng(SEED), View().regrets(results, float(point)), present, replicates=1)
        if known is None:
            return
        for method, estimate in average_ranks(known).items():
            curves[method].append(estimate.value)
    figure, axis = plt.subplots(figsize=(8.4, 4.4), layout="constrained")
    for i, (method, y) in enumerate(curves.items()):
        axis.plot(x, y, color=drawing.COLOURS.get(method, f"C{i}"), label=label(method), linewidth=1.5)
    axis.set(xscale="log", xlabel=AXIS, ylabel=f"average rank of {len(present)}")
    axis.invert_yaxis()
    axis.grid(alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)
