"""Write the files of the study: JSON with everything, a page of tables, and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import drawing
from benchmarks.better.analysis import SEED, Results, View, of_family
from benchmarks.better.pages import label, page
from benchmarks.better.protocol import (
    CHOOSING,
    CONFIRMING,
    FLOOR,
    LENGTH,
    LONG,
    SCALE_SAMPLE,
    SHARES,
    Plan,
    family,
)
from benchmarks.better.statistics import REPLICATES, average_ranks, means
from benchmarks.curves import grid
from benchmarks.report import finite, provenance
from benchmarks.results import PACKAGES, numbers, rival_versions, write_json
from benchmarks.runs import Run

AXIS = "full evaluations (cumulative budget / b_max)"


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


def write_page(out: Path, name: str, body: Mapping[str, Any]) -> None:
    """Write `name`.json and `name`.md."""
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / f"{name}.json", finite(body))
    (out / f"{name}.md").write_text(page(name, body))


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
