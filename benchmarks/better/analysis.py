"""Compute the tables of the study: ratios to the preset, families, ranks, and whether the criteria hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.better.protocol import FLOOR, family, scale
from benchmarks.better.statistics import Means, Regrets, average_ranks, balanced, floored, means, ratio, wins
from benchmarks.curves import Axis, regret_at
from benchmarks.harness import Accounting
from benchmarks.report import verdict
from benchmarks.runs import Result, Run

SEED = 20261115  # of the bootstrap
ENOUGH = 20  # seeds of our methods that are needed to decide a criterion
FACTOR, WORST = 2.0, 1.1  # required improvement of the final regret, and the largest loss allowed in a family
Results = Mapping[Run, Result]
Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class View:
    """How regrets are read from runs.

    axis: the axis of the point, either budget spent in full evaluations or simulated time.
    """

    accounting: Accounting = "continue"
    floor: float = FLOOR
    axis: Axis = "spent"

    def regrets(self, results: Results, point: float | Callable[[Run], float]) -> Regrets:
        """Return the regrets of all runs that reach a point, which may depend on the run."""
        found: dict[str, dict[str, list[float]]] = {}
        for run, result in results.items():
            x = point if isinstance(point, float) else point(run)
            if self.axis == "spent" and run.full_evaluations < x:
                continue
            kept = result.whole if self.accounting == "whole" else result.trajectories
            if "largest" not in kept:
                continue
            value = regret_at(kept["largest"], np.array([x]), self.axis)[0]
            found.setdefault(run.problem, {}).setdefault(run.method, []).append(float(value))
        return {
            problem: {method: self._normal(problem, values) for method, values in methods.items()}
            for problem, methods in found.items()
        }

    def _normal(self, problem: str, values: Sequence[float]) -> np.ndarray:
        """Return values in units of the scale; a missing incumbent counts as a random configuration."""
        return np.nan_to_num(floored(np.array(values), self.floor, scale(problem)), nan=1.0)


def of_family(regrets: Regrets, name: str) -> Regrets:
    """Return the regrets of one family."""
    return {problem: known for problem, known in regrets.items() if family(problem) == name}


def compare(regrets: Regrets, ours: str, other: str) -> dict[str, Any] | None:
    """Return the ratio of the other's regret to ours over all common problems; None if there are none."""
    known = means(np.random.default_rng(SEED), regrets, (ours, other))
    if known is None:
        return None
    estimate = ratio(known, other, ours)
    return {
        "ratio": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "wins": wins(known, ours, other),
        "problems": len(known.problems),
        "seeds": [_seeds(regrets, known, method) for method in (ours, other)],
    }


def _seeds(regrets: Regrets, known: Means, method: str) -> int:
    """Return the smallest number of seeds of a method on any of the problems."""
    return min(len(regrets[problem][method]) for problem in known.problems)


def against(results: Results, view: View, points: Iterable[float], ours: str = "best") -> Rows:
    """Compare the preset with every other method at every point."""
    rows: Rows = []
    for point in points:
        regrets = view.regrets(results, point)
        others = dict.fromkeys(m for known in regrets.values() for m in known if m != ours)
        for other in others:
            found = compare(regrets, ours, other)
            if found is not None:
                rows.append({"method": other, "point": point, **found})
    return rows


def by_family(results: Results, view: View, points: Iterable[float], other: str = "bohb", ours: str = "best") -> Rows:
    """Compare the preset with the published BOHB for every family and point, and over families of equal weight."""
    rows: Rows = []
    for point in points:
        regrets = view.regrets(results, point)
        known = means(np.random.default_rng(SEED), regrets, (ours, other))
        if known is None:
            continue
        names = list(dict.fromkeys(family(problem) for problem in known.problems))
        for name in names:
            found = compare(of_family(regrets, name), ours, other)
            assert found is not None
            rows.append({"family": name, "point": point, **found})
        parts = [means(np.random.default_rng(SEED), of_family(regrets, name), (ours, other)) for name in names]
        equal = balanced([ratio(part, other, ours) for part in parts if part is not None])
        rows.append({"family": "families of equal weight", "point": point, "ratio": equal})
    return rows


def ranks(results: Results, view: View, points: Iterable[float], methods: Sequence[str]) -> Rows:
    """Return the average ranks of all methods on their common problems."""
    rows: Rows = []
    for point in points:
        regrets = view.regrets(results, point)
        present = [m for m in methods if any(m in known for known in regrets.values())]
        known = means(np.random.default_rng(SEED), regrets, present) if len(present) > 1 else None
        if known is None:
            continue
        for method, estimate in average_ranks(known).items():
            rows.append(
                {
                    "method": method,
                    "point": point,
                    "rank": estimate.value,
                    "low": estimate.low,
                    "high": estimate.high,
                    "of": len(present),
                    "problems": len(known.problems),
                }
            )
    return rows


def criteria(versus: Rows, families: Rows, ranked: Rows, wanted: Sequence[str], points: Sequence[float]) -> list[str]:
    """Return the criteria of the study with verdicts; inconclusive if seeds or methods are missing.

    wanted: the methods that must be ranked.
    """
    final = next((row for row in versus if row["method"] == "bohb" and row["point"] == points[-1]), None)
    enough = final is not None and min(final["seeds"]) >= ENOUGH
    lines = []
    if final is None:
        return [verdict(None, "final regret", "needs runs of the preset and of BOHB")]
    text = f"{final['ratio']:.2f}, interval {final['low']:.2f} to {final['high']:.2f}, {final['problems']} problems"
    holds = final["ratio"] >= FACTOR and final["low"] > 1
    claim = f"final regret at least {FACTOR:g} times lower than BOHB's, with an interval that excludes 1"
    lines.append(verdict(holds if enough else None, claim, text))
    short = [row for row in families if row["point"] in points and "seeds" in row]
    worst = min(short, key=lambda row: row["ratio"])
    text = f"at most {1 / worst['ratio']:.2f} times BOHB's regret, in {worst['family']} at {worst['point']:g}"
    bad = [f"{row['family']} at {row['point']:g}" for row in short if 1 / row["ratio"] > WORST]
    text += f"; above the limit in {', '.join(bad)}" if bad else ""
    claim = f"no family worse than {WORST:g} times BOHB at any of the three points"
    lines.append(verdict(not bad if enough else None, claim, text))
    lines.append(_first_in_rank(ranked, wanted, points, enough))
    return lines


def _first_in_rank(ranked: Rows, wanted: Sequence[str], points: Sequence[float], enough: bool) -> str:
    firsts = {}
    for point in points:
        rows = sorted((row for row in ranked if row["point"] == point), key=lambda row: row["rank"])
        if rows:
            firsts[point] = rows[0]
    missing = [method for method in wanted if method not in {row["method"] for row in ranked}]
    text = ", ".join(f"{row['method']} at {point:g} ({row['rank']:.2f})" for point, row in firsts.items())
    text += f"; without runs of {', '.join(missing)}" if missing else ""
    decided = enough and not missing and len(firsts) == len(points)
    holds = all(row["method"] == "best" for row in firsts.values())
    return verdict(holds if decided else None, "first in average rank at all three points", text or "no ranks")


def problem_rows(results: Results, point: float, methods: Sequence[str]) -> Rows:
    """Return mean regrets by problem, neither floored nor scaled."""
    view = View(floor=-np.inf)
    regrets = view.regrets(results, point)
    return [
        {
            "problem": problem,
            "scale": scale(problem),
            **{m: float(known[m].mean() * scale(problem)) if m in known else None for m in methods},
        }
        for problem, known in regrets.items()
    ]
