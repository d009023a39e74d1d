"""Measure what priors and results of earlier studies do for the preset `BEST`, when they are right and when not.

    python -m benchmarks.better.priors --jobs 2

Each run has one worker and 60 full evaluations. A good prior is centred on the best of 500 random configurations on the
largest budget, a bad one on the worst. An earlier study is a run of the preset with another seed, on the same problem,
on a similar one, or on the problem with losses of the opposite sign, which prefers the worst configurations.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
from threadpoolctl import threadpool_limits

import bohb
from benchmarks.better.protocol import FLOOR, LENGTH, SHARES, scale
from benchmarks.better.statistics import Estimate, Regrets, floored, means, ratio
from benchmarks.command import guarded, words
from benchmarks.fingerprint import code_digest, deciding_files
from benchmarks.harness import incumbents, simulate, trajectory
from benchmarks.methods import Ours, space_of
from benchmarks.problem import Config, Evaluation, Parameter, Problem, uniform
from benchmarks.problems import problem_of
from benchmarks.report import RESULTS, goal_table, opening, provenance, verdict
from benchmarks.runs import CACHE
from bohb.journal import MemoryJournal

# Each problem and a similar one; "moved" is the same function with its optimum elsewhere.
PROBLEMS = {
    "hartmann-6": "moved",
    "misleading_hartmann-2.5-2": "moved",
    "lcbench-3945": "lcbench-7593",
    "lcbench-34539": "lcbench-189354",
    "lcbench-167149": "lcbench-167161",
    "rbv2_ranger-3": "rbv2_ranger-6",
}
CASES = {
    "none": "nothing known",
    "good": "a good prior",
    "bad": "a bad prior",
    "same": "an earlier study of the same problem",
    "similar": "an earlier study of a similar problem",
    "opposite": "an earlier study of the opposite problem",
}
CENTRES = 500  # random configurations whose best and worst are the centres of priors
CONCENTRATION = 10.0  # of the beta distributions: a standard deviation of 0.14 around the middle of a range
WEIGHT = 5.0  # of the choice at the centre of a prior; all others have 1
EARLIER_SEED = 1000  # of the first earlier study
GROUPS = 2  # of seeds; the runs of each share one earlier study
MOVED = 0.05


@dataclass(frozen=True, slots=True)
class Changed:
    """A problem whose losses have the opposite sign, or whose numbers are moved by a part of their range."""

    problem: Problem
    sign: float = 1.0
    moved: float = 0.0

    @property
    def name(self) -> str:
        return self.problem.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self.problem.parameters

    @property
    def budgets(self) -> tuple[float, ...]:
        return self.problem.budgets

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        there = {name: min(1.0, x + self.moved) for name, x in config.items()} if self.moved else config
        found = self.problem.evaluate(there, budget, seed)
        return Evaluation(None if found.loss is None else self.sign * found.loss, found.cost)

    def regret(self, config: Config, loss: float) -> float:
        return self.problem.regret(config, loss)


@functools.cache
def centre(problem: str, good: bool) -> dict[str, Any]:
    """Return the best or the worst of many random configurations on the largest budget."""
    known, rng = problem_of(problem), np.random.default_rng(1)
    configs = [uniform(rng, known.parameters) for _ in range(CENTRES)]
    regrets = [known.regret(config, float("nan")) for config in configs]
    return configs[int(np.argmin(regrets) if good else np.argmax(regrets))]


def space_with_prior(problem: Problem, at: Config) -> CS.ConfigurationSpace:
    """Return the space of a problem with a prior around a configuration; what is inactive there stays uniform."""
    plain = space_of(problem.parameters)
    vector = dict(zip((s.name for s in bohb.Space(plain).dimensions), bohb.Space(plain).encode(at), strict=True))
    space = CS.ConfigurationSpace()
    for p in problem.parameters:
        if p.name not in at or p.kind == "ordinal":
            space.add(plain[p.name])
        elif p.kind == "categorical":
            weights = [WEIGHT if choice == at[p.name] else 1.0 for choice in p.choices]
            space.add(CS.CategoricalHyperparameter(p.name, p.choices, weights=weights))
        else:
            peak = CONCENTRATION * vector[p.name]
            believed = CS.Beta(1 + peak, 1 + CONCENTRATION - peak)
            assert p.low is not None
            assert p.high is not None
            if p.kind == "int":
                bounds = round(p.low), round(p.high)
                space.add(CS.Integer(p.name, bounds, log=p.log, distribution=believed))
            else:
                space.add(CS.Float(p.name, (p.low, p.high), log=p.log, distribution=believed))
    for p in problem.parameters:
        parts = [CS.InCondition(space[p.name], space[parent], list(values)) for parent, values in p.active_if]
        if parts:
            space.add(parts[0] if len(parts) == 1 else CS.AndConjunction(*parts))
    return space


def earlier(problem: str, case: str, seed: int, length: float) -> MemoryJournal:
    """Return the journal of an earlier study."""
    known = problem_of(problem)
    match case, PROBLEMS[problem]:
        case "similar", "moved":
            known = Changed(known, moved=MOVED)
        case "similar", other:
            known = problem_of(other)
        case "opposite", _:
            known = Changed(known, sign=-1.0)
    journal = MemoryJournal()
    method = Ours(known, seed, {"preset": "best", "journal": journal})
    simulate(method, known, seed=seed, full_evaluations=length, accounting="continue")
    return journal


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ in their seeds alone and share one earlier study."""

    problem: str
    case: str
    seeds: tuple[int, ...]
    length: float

    @property
    def key(self) -> str:
        """The key of its stored result."""
        return json.dumps([*astuple(self), code_digest([*deciding_files(), Path(__file__)])])


def execute(group: Group) -> list[list[float]]:
    """Return the regrets of each run of a group at the points of the criteria."""
    known = problem_of(group.problem)
    arguments: dict[str, Any] = {"preset": "best"}
    with threadpool_limits(1, user_api="blas"):
        if group.case in ("good", "bad"):
            arguments["space"] = space_with_prior(known, centre(group.problem, group.case == "good"))
        elif group.case != "none":
            arguments["warm_start"] = earlier(group.problem, group.case, EARLIER_SEED + group.seeds[0], group.length)
        return [_regrets(known, arguments, seed, group.length) for seed in group.seeds]


def _regrets(problem: Problem, arguments: dict[str, Any], seed: int, length: float) -> list[float]:
    method = Ours(problem, seed, arguments)
    records = simulate(method, problem, seed=seed, full_evaluations=length, accounting="continue")
    points = trajectory(problem, incumbents(records, "largest"))
    spent = [share * length * (1 + 1e-9) for share in SHARES]
    return [next((p.regret for p in reversed(points) if p.spent <= end), points[0].regret) for end in spent]


def measured(groups: Sequence[Group], jobs: int, store: Path) -> dict[Group, list[list[float]]]:
    """Perform the runs that are not stored; return the regrets of all."""
    store.parent.mkdir(parents=True, exist_ok=True)
    known = dict(json.loads(line) for line in store.read_text().splitlines()) if store.exists() else {}
    waiting = [group for group in groups if group.key not in known]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool, store.open("a") as file:
        running = {pool.submit(execute, group): group for group in waiting}
        for done, future in enumerate(as_completed(running), 1):
            known[running[future].key] = future.result()
            file.write(json.dumps([running[future].key, future.result()]) + "\n")
            file.flush()
            print(f"# {done} of {len(waiting)}", file=sys.stderr)
    return {group: known[group.key] for group in groups}


def ratios(found: dict[Group, list[list[float]]], problems: Sequence[str]) -> dict[str, list[Estimate]]:
    """Return for each case the regret divided by that with nothing known, at each point, over some problems."""
    every: dict[tuple[str, str], list[list[float]]] = {}
    for group, regrets in found.items():
        every.setdefault((group.problem, group.case), []).extend(regrets)
    cases = [case for case in CASES if any((problem, case) in every for problem in problems)]
    estimates: dict[str, list[Estimate]] = {case: [] for case in cases if case != "none"}
    for i in range(len(SHARES)):
        at: Regrets = {
            p: {case: floored(np.array(every[p, case])[:, i], FLOOR, scale(p)) for case in cases} for p in problems
        }
        together = means(np.random.default_rng(0), at, cases)
        assert together is not None
        for case, known in estimates.items():
            known.append(ratio(together, case, "none"))
    return estimates


def criteria(overall: dict[str, list[Estimate]]) -> list[str]:
    """Compare the ratios with the goals that were set beforehand."""
    goals: list[tuple[str, str, int, float]] = [
        ("good", "helps at 10 %", 0, 1.0),
        ("good", "helps at 30 %", 1, 1.0),
        ("bad", "ends within a factor of two", 2, 2.0),
        ("same", "helps at 10 %", 0, 1.0),
        ("same", "helps at 30 %", 1, 1.0),
        ("similar", "helps at 10 %", 0, 1.0),
        ("opposite", "ends within a factor of 1.2", 2, 1.2),
    ]
    return [
        verdict(_below(overall[case][i], limit), f"{CASES[case]} {claim}", str(overall[case][i]))
        for case, claim, i, limit in goals
        if case in overall
    ]


def _below(estimate: Estimate, limit: float) -> bool | None:
    """Whether an estimate lies below a limit; None if its interval includes the limit."""
    return None if estimate.low < limit < estimate.high else estimate.value < limit


def page(found: dict[Group, list[list[float]]], problems: Sequence[str], source: dict[str, Any]) -> list[str]:
    """Return the lines of the result page."""
    overall = ratios(found, problems)
    length = next(iter(found)).length
    header = ["", *(f"{share * length:g} evaluations" for share in SHARES)]
    lines = opening(
        "Priors and earlier studies",
        "How much does the preset BEST gain from a prior or an earlier study, and what does a wrong one cost?",
        [
            f"After {length:g} full evaluations, the regret with {CASES[case]} is {row[-1]} times that without."
            for case, row in overall.items()
            if case in ("good", "bad", "same")
        ],
    )
    lines += [
        "Regret divided by that of the same preset with nothing known, with 95 % interval; below 1 is better.",
        "Means over seeds, geometric mean over problems; regrets count as at least "
        f"{FLOOR:g} of the median regret of random configurations.",
        "",
        *_markdown(header, [[CASES[case], *map(str, row)] for case, row in overall.items()]),
        "",
        "## Goals",
        "",
        *goal_table(criteria(overall)),
        "",
        "## By problem",
        "",
    ]
    rows = []
    for problem in problems:
        for case, row in ratios(found, [problem]).items():
            rows.append([problem, CASES[case], *map(str, row)])
    lines += _markdown(["problem", *header], rows)
    counts = {p: sum(len(g.seeds) for g in found if (g.problem, g.case) == (p, "none")) for p in problems}
    seeds = ", ".join(f"{problem} {n}" for problem, n in counts.items())
    return [
        *lines,
        "",
        f"- seeds: {seeds}",
        f"- command: `{source['command']}`",
        f"- {source['cpu']}, {source['date']}",
    ]


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(r) + " |" for r in rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="number of seeds (default: 10)")
    parser.add_argument("--jobs", type=int, default=1, help="number of groups of runs at the same time")
    parser.add_argument("--problems", type=words, default=tuple(PROBLEMS))
    parser.add_argument("--evaluations", type=float, default=LENGTH, help=f"per run (default: {LENGTH:g})")
    parser.add_argument(
        "--cache", type=Path, default=CACHE.parent / "priors.jsonl", help="where finished runs are kept"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    groups = [
        Group(problem, case, tuple(range(start, args.runs, GROUPS)), args.evaluations)
        for start in range(min(GROUPS, args.runs))
        for problem in args.problems
        for case in CASES
    ]

    def act() -> None:
        found = measured(groups, args.jobs, args.cache)
        lines = page(found, args.problems, provenance(range(args.runs), ["bohb", "numpy", "scipy"]))
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "priors.md").write_text("\n".join(lines) + "\n")
        print(*lines, sep="\n")

    guarded(act)


if __name__ == "__main__":
    main()
