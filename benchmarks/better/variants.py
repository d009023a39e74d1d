"""The variants of the study: wrong budgets, and the preset without one of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.better.analysis import ENOUGH, SEED, WORST, Results, Rows, View, compare
from benchmarks.better.protocol import (
    CHOOSING,
    CONFIRMING,
    FAMILIES,
    OTHER_FLOORS,
    RIVAL_PROBLEMS,
    SMOOTH,
    Plan,
    family,
)
from benchmarks.better.statistics import Regrets, means, ratio, ratio_of_runs
from benchmarks.report import verdict
from benchmarks.runs import Run

CASES: dict[str, tuple[str, ...]] = {
    # Families in which smaller budgets than usual are meaningful.
    "low": ("counting_ones", "hartmann", "taskset"),
    "high": ("counting_ones", "hartmann", "taskset", "lcbench", "rbv2_ranger"),
    "short": ("counting_ones", "hartmann", "taskset", "lcbench", "rbv2_ranger"),
}
WORDS = {
    "low": "min_budget 10× too small",
    "high": "min_budget 10× too large",
    "short": "max_budget 3× too small, then raised",
}
MISSPECIFIED_METHODS = ("bohb", "best")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One run with wrong budgets, and the run with right ones that it is compared with."""

    case: str
    method: str
    wrong: Run
    right: Run


def misspecified(methods: Sequence[str], problems: Sequence[str], plan: Plan) -> list[Wrong]:
    """Return all pairs, ordered by seed."""
    return [
        Wrong(
            case,
            method,
            Run(_problem(problem, case), f"{method}:misspecified={case!r}", seed, plan.end, 1, "continue"),
            Run(problem, method, seed, plan.length(method, seed), 1, "continue"),
        )
        for seed in range(plan.runs)
        for problem in problems
        for case, families in CASES.items()
        if family(problem) in families
        for method in methods
    ]


def _problem(problem: str, case: str) -> str:
    """The problem with budgets below its first measurement, if they are wanted."""
    return f"untrained-{problem}" if case == "low" and family(problem) == "taskset" else problem


def misspecified_rows(pairs: Sequence[Wrong], results: Results, point: float) -> Rows:
    """Return for each method and case the regret relative to right budgets, and relative to BOHB."""
    rows: Rows = []
    for method in dict.fromkeys(pair.method for pair in pairs):
        for case in CASES:
            regrets = _side_by_side([p for p in pairs if p.case == case], results, point)
            found = compare(regrets, f"{method} right", f"{method} wrong")
            if found is None:
                continue
            bohb = compare(regrets, f"{method} wrong", "bohb wrong")
            rows.append(
                {
                    "method": method,
                    "case": case,
                    **{key: found[key] for key in ("ratio", "low", "high", "problems")},
                    "seeds": min(found["seeds"]),
                    "bohb": None if bohb is None else {key: bohb[key] for key in ("ratio", "low", "high")},
                    "families": _families(regrets, method),
                }
            )
    return rows


def _side_by_side(pairs: Sequence[Wrong], results: Results, point: float) -> Regrets:
    """Return for each problem the regrets with wrong and right budgets, for seeds that have both."""
    both = [pair for pair in pairs if pair.wrong in results and pair.right in results]
    named: dict[Run, Any] = {}
    for pair in both:
        named[replace(pair.wrong, problem=pair.right.problem, method=f"{pair.method} wrong")] = results[pair.wrong]
        named[replace(pair.right, method=f"{pair.method} right")] = results[pair.right]
    return View().regrets(named, point)


def _families(regrets: Regrets, method: str) -> dict[str, float]:
    """Return the ratio of each family."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(map(family, regrets)):
        part = {problem: known for problem, known in regrets.items() if family(problem) == name}
        known = means(np.random.default_rng(SEED), part, (f"{method} right", f"{method} wrong"), replicates=1)
        if known is not None:
            found[name] = ratio(known, f"{method} wrong", f"{method} right").value
    return found


def misspecified_criteria(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return verdicts on whether wrong budgets do little harm."""
    lines = []
    for row in rows:
        if row["method"] == "bohb":
            continue
        published = next((r for r in rows if r["method"] == "bohb" and r["case"] == row["case"]), None)
        claim = f"{row['method']}, {WORDS[row['case']]}: at most {WORST:g} times the regret with right budgets"
        text = f"{row['ratio']:.2f}, interval {row['low']:.2f} to {row['high']:.2f}"
        text += f"; BOHB {published['ratio']:.2f}" if published else ""
        lines.append(verdict(row["ratio"] <= WORST if row["seeds"] >= ENOUGH else None, claim, text))
    return lines


@dataclass(frozen=True, slots=True)
class Variant:
    """The preset with changed settings, as they appear in the name of a method."""

    name: str
    settings: str
    workers: int = 1
    only: tuple[str, ...] = ()  # problems that it is tried on instead of those of the part
    seeds: int | None = None  # default: those of the part

    @property
    def method(self) -> str:
        return f"best:{self.settings}"

    def problems(self, usual: Sequence[str]) -> Sequence[str]:
        """Return the problems that it is tried on."""
        return self.only or usual


ABLATION = (
    Variant("no Gaussian process: the density alone", "model='density'"),
    Variant("lower rungs never left out: Hyperband's order", "schedule='hyperband'"),
    Variant("lower rungs left out of brackets, but not of the process", "without='largest_only'"),
    Variant("random configurations also in brackets without lower rungs", "without='no_random'"),
    Variant("copies of known configurations not held back", "without='novelty'"),
    Variant("plateaus searched again", "without='plateaus'"),
    Variant("priors that expect more noise", "without='priors'"),
    Variant(
        "plateaus searched again, on the six tasks of TaskSet", "without='plateaus'", only=FAMILIES["taskset"], seeds=20
    ),
    Variant(
        "inactive hyperparameters count for the first model, on the four spaces of iaml_super",
        "without='active'",
        only=FAMILIES["iaml_super"],
        seeds=20,
    ),
)


def ablation_runs(variants: Sequence[Variant], problems: Sequence[str], plan: Plan) -> list[Run]:
    """The preset and all variants, one seed of all before the next."""
    return list(
        dict.fromkeys(
            Run(problem, method, seed, plan.end, variant.workers, "continue")
            for seed in range(max(variant.seeds or plan.runs for variant in variants))
            for variant in variants
            if seed < (variant.seeds or plan.runs)
            for problem in variant.problems(problems)
            for method in ("best", variant.method)
        )
    )


def ablation_rows(
    variants: Sequence[Variant], problems: Sequence[str], results: Results, points: Sequence[float]
) -> Rows:
    """By variant how many times higher its regret is than the preset's: of the means over seeds, and of single runs."""
    rows: Rows = []
    there = {(run.problem, run.seed, run.method, run.workers) for run in results}
    for variant in variants:
        among = variant.problems(problems)
        matching = {
            run: result
            for run, result in results.items()
            if run.workers == variant.workers
            and run.problem in among
            and all((run.problem, run.seed, method, run.workers) in there for method in ("best", variant.method))
        }
        for point in points:
            found = compare(View().regrets(matching, point), "best", variant.method)
            regrets = View(floor=OTHER_FLOORS[0]).regrets(matching, point)
            typical = ratio_of_runs(np.random.default_rng(SEED), regrets, variant.method, "best")
            if found is not None and typical is not None:
                row = {"variant": variant.name, "settings": variant.settings, "point": point, **found}
                rows.append({**row, "of runs": {"ratio": typical.value, "low": typical.low, "high": typical.high}})
    return rows


def default_problems(part: str) -> tuple[str, ...]:
    """Return the problems of a part."""
    few = {"rivals": RIVAL_PROBLEMS, "workers": RIVAL_PROBLEMS}  # these parts have many runs per problem
    return {"ablation": CHOOSING, "one_budget": (*CHOOSING, *SMOOTH, *CONFIRMING), **few}.get(part, CONFIRMING)
