"""The part "earlier": the preset compared with earlier versions of it.

    python -m benchmarks.better.earlier NAME --what "…"   # before the preset is changed: keep its stored runs in git

Runs are stored by the code that made them, so those of an old preset cannot be looked up after a change. The files in
`KEPT` hold their regrets at the points of the criteria.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import bohb
from benchmarks.better import report
from benchmarks.better.analysis import SEED, Results, Rows, View, by_family, compare
from benchmarks.better.protocol import CHOOSING, CONFIRMING, FLOOR, OTHER_FLOORS, Plan
from benchmarks.better.statistics import ratio_of_runs
from benchmarks.curves import regret_at
from benchmarks.harness import Point
from benchmarks.report import provenance, verdict
from benchmarks.results import numbers
from benchmarks.runs import CACHE, Result, Run, kept

KEPT = Path(__file__).with_name("earlier")
HALVES = {"choosing": CHOOSING, "confirming": CONFIRMING}
# Confirming problems that were looked at while the last version was chosen.
LOOKED_AT = ("hartmann-6", "misleading_hartmann-2.5-2", "misleading_hartmann-3.5-4")
UNTOUCHED = tuple(problem for problem in CONFIRMING if problem not in LOOKED_AT)
LIMIT, WORST_FAMILY = 0.7, 1.05  # wanted: the final regret relative to the earlier preset's, and that of every family
Sources = Mapping[str, Mapping[str, Any]]  # by the name of a version, where its numbers are from


def wanted(problems: Sequence[str], plan: Plan, method: str = "best") -> list[Run]:
    """Return the runs of the preset, one seed of all problems before the next."""
    return [Run(problem, method, seed, plan.end, 1, "continue") for seed in range(plan.runs) for problem in problems]


def keep(path: Path, results: Results, points: Sequence[float], source: Mapping[str, Any]) -> None:
    """Write the regrets of the preset at the points of the criteria."""
    rows = [
        [run.problem, run.seed, *numbers(regret_at(result.trajectories["largest"], np.array(points), "spent").tolist())]
        for run, result in results.items()
    ]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in sorted(rows))
    head = json.dumps({**source, "points": list(points)}, indent=1).removesuffix("\n}")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{head},\n "runs": [\n{lines}\n ]\n}}\n', encoding="utf-8")


def read(folder: Path = KEPT) -> tuple[Sources, Results]:
    """Return where the kept numbers are from, and results that have the kept regrets at the kept points."""
    sources: dict[str, Mapping[str, Any]] = {}
    results: dict[Run, Result] = {}
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        points, end = stored["points"], stored["points"][-1]
        for problem, seed, *regrets in stored.pop("runs"):
            known = [Point(x, x, y, y, 1.0) for x, y in zip(points, regrets, strict=True) if y is not None]
            run = Run(problem, path.stem, seed, end, 1, "continue")
            results[run] = Result({"largest": known}, len(known), 0, end, end, 0.0)
        sources[path.stem] = stored
    return sources, results


def tables(results: Results, versions: Sequence[str], points: Sequence[float]) -> dict[str, Rows]:
    """Return the regret relative to each version: by half of the problems, with higher floors, and by family."""
    halves: Rows = []
    for half, problems in HALVES.items():
        known = {run: result for run, result in results.items() if run.problem in problems}
        for floor in (FLOOR, *OTHER_FLOORS):
            for point in points:
                regrets = View(floor=floor).regrets(known, point)
                for version in versions:
                    found = compare(regrets, version, "best")
                    if found is not None:
                        halves.append({"version": version, "half": half, "floor": floor, "point": point, **found})
    confirming = {run: result for run, result in results.items() if run.problem in CONFIRMING}
    families = [
        {"version": version, **row}
        for version in versions
        for row in by_family(confirming, View(), points, other="best", ours=version)
    ]
    return {"halves": halves, "families": families, "of runs": _of_runs(results, versions, points)}


def _of_runs(results: Results, versions: Sequence[str], points: Sequence[float]) -> Rows:
    """Compare single runs with the same seed: typical runs instead of means, which a few bad runs decide."""
    rows: Rows = []
    of: dict[str, set[tuple[str, int]]] = {}
    for run in results:
        of.setdefault(run.method, set()).add((run.problem, run.seed))
    for version, (half, problems), floor, point in itertools.product(
        versions, {**HALVES, "untouched": UNTOUCHED}.items(), (FLOOR, *OTHER_FLOORS), points
    ):
        there = {pair for pair in of.get(version, set()) & of.get("best", set()) if pair[0] in problems}
        known = {run: result for run, result in results.items() if (run.problem, run.seed) in there}
        found = ratio_of_runs(np.random.default_rng(SEED), View(floor=floor).regrets(known, point), "best", version)
        if found is not None:
            estimate = {"ratio": found.value, "low": found.low, "high": found.high}
            rows.append({"version": version, "half": half, "floor": floor, "point": point, **estimate})
    return rows


def criteria(found: Mapping[str, Rows], versions: Sequence[str], points: Sequence[float]) -> list[str]:
    """Return the goals of each version, with verdicts."""
    lines = []
    for version in versions:
        for row in found["halves"]:
            if (row["version"], row["half"], row["floor"], row["point"]) == (version, "confirming", FLOOR, points[-1]):
                claim = f"final regret at most {LIMIT:g} times that of the version {version!r}"
                lines.append(verdict(row["ratio"] <= LIMIT, claim, report.with_interval(row)))
        families = [row for row in found["families"] if row["version"] == version and "seeds" in row]
        worse = [row for row in families if row["ratio"] > WORST_FAMILY]
        if families:
            claim = f"no family worse than {WORST_FAMILY:g} times the version {version!r} at any of the three points"
            named = [f"{row['family']} at {row['point']:g}: {report.with_interval(row)}" for row in worse]
            lines.append(verdict(not worse, claim, "; ".join(named) or "none is"))
    return lines


def sections(found: Mapping[str, Rows], sources: Sources, points: Sequence[float]) -> list[list[str]]:
    """Return the sections of the page."""
    parts = [["## The versions", "", *(_about(name, source) for name, source in sources.items())]]
    for version in sources:
        halves, families = (
            [row for row in found[name] if row["version"] == version] for name in ("halves", "families")
        )
        named = [{**row, "problems and floor": f"{row['half']}, at least {row['floor']:g}"} for row in halves]
        parts += [
            [
                f"## Regret divided by that of the version {version!r}, and share of problems that the latter wins",
                "",
                *report.pivot(named, "problems and floor", points, report.with_wins, "point"),
            ],
            [
                f"For single runs with the same seed, geometric mean; untouched are the confirming problems without "
                f"{', '.join(LOOKED_AT)}:",
                "",
                *report.pivot(
                    [
                        {**row, "problems and floor": f"{row['half']}, at least {row['floor']:g}"}
                        for row in found["of runs"]
                        if row["version"] == version
                    ],
                    "problems and floor",
                    points,
                    report.with_interval,
                    "point",
                ),
            ],
            [
                "By family, on the confirming problems:",
                "",
                *report.pivot(families, "family", points, report.with_interval, "point"),
            ],
        ]
    return parts


def _about(name: str, source: Mapping[str, Any]) -> str:
    settings = ", ".join(f"`{setting}={value!r}`" for setting, value in source["settings"].items())
    return f"- **{name}**: {source['what']} Settings: {settings}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the version")
    parser.add_argument("--what", required=True, help="a sentence that says which preset it is")
    parser.add_argument("--runs", type=int, default=20, help="seeds (default: 20)")
    parser.add_argument("--changed", metavar="NAME=VALUE", help="a setting that turns today's preset into that one")
    parser.add_argument("--cache", type=Path, default=CACHE, help="where finished runs are stored")
    args = parser.parse_args()
    plan = Plan(runs=args.runs)
    changes = dict([args.changed.split("=", 1)]) if args.changed else {}
    method = ":".join(["best", *(f"{name}={value!r}" for name, value in changes.items())])
    preset, published = bohb.BEST.changed(changes).to_json(), bohb.PAPER.to_json()
    source = {
        "what": args.what,
        "date": provenance([], ())["date"],
        "settings": {name: value for name, value in preset.items() if value != published[name]},
    }
    found = kept(wanted((*CHOOSING, *CONFIRMING), plan, method), args.cache)
    keep(KEPT / f"{args.name}.json", found, plan.points, source)
    print(f"{len(found)} runs kept")


if __name__ == "__main__":
    main()
