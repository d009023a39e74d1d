"""Parallel workers (§4.2, Fig. 3, App. F): how much sooner do more of them reach the same regret?

    python -m benchmarks.paper.parallel                                 # an hour of CPU time: three problems, 30 seeds
    python -m benchmarks.paper.parallel --smoke --out /tmp/parallel         # seconds

The runner, the decisions and the synchronous rule of §4.2 are the package's own; only the clock is simulated
(`SimulatedExecutor`). As in the paper's simulation every evaluation takes its whole budget, continued or not, and a run
has 128 brackets (with 64 and 256 workers more, or it would be over before it began).

A rule chooses the regrets to reach: the median ones of one worker after 1/16 and after 1/4 of its run (for
networks-letter also the paper's 1e-2 and 2e-3). A speed-up is the ratio of the mean times until the best configuration
on the largest budget has it; a run that does not get there counts with its end. "By mean curve" is how one reads the
paper's figure: when the mean regret of all runs is that low. Near-linear means at least 3/4 of the number of workers.

Finished runs are kept in --cache and not run again, unless the deciding code has changed. Writes parallel.json, .csv
and .md, parallel_speedup.png, and parallel_<problem>.png for each problem.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import bohb
from benchmarks.data import VARIABLE, Missing
from benchmarks.harness import Record, incumbents, trajectory
from benchmarks.methods import space_of
from benchmarks.paper.speedup import Simulated, claims, draw_regrets, draw_speedups, page, speedups, target_after
from benchmarks.problem import Problem, uniform
from benchmarks.problems import problem_of
from benchmarks.report import provenance, table, write
from bohb.core.trial import Origin
from bohb.executors.evaluate import SimulatedExecutor

ROOT = Path(__file__).parents[2]
WORKERS = (1, 2, 4, 8, 16, 32, 64, 256)
SHARES = (1 / 16, 1 / 4)  # of one worker's run; the last is the one that claims are about
GIVEN_REGRETS = {"networks-letter": (1e-2, 2e-3)}  # what the paper names
LONGER = {64: 192, 256: 512}  # brackets of runs that would otherwise last but a few full evaluations
# straggling: the standard deviation of the logarithm of a random factor; losses: per full evaluation of work.
VARIANTS: dict[str, dict[str, float]] = {"plain": {}, "stragglers": {"straggling": 0.5}, "losses": {"losses": 0.1}}


@dataclass(frozen=True, slots=True)
class Case:
    """One run: everything its result depends on, except the code."""

    problem: str
    variant: str
    workers: int
    brackets: int
    seed: int


def simulate(case: Case) -> Simulated:
    """What one study on the simulated clock leaves behind."""
    return summary(problem_of(case.problem), *study(case))


def study(case: Case) -> tuple[bohb.History, SimulatedExecutor]:
    """One study on the simulated clock, from its first trial to its last."""
    logging.getLogger("bohb").setLevel(logging.ERROR)  # lost workers are expected here
    problem = problem_of(case.problem)
    cost: dict[int, float] = {}

    def objective(trial: bohb.Trial) -> float:
        evaluation = problem.evaluate(trial.config, trial.budget, trial.seed)
        cost[trial.number] = evaluation.cost
        return math.nan if evaluation.loss is None else evaluation.loss

    disturbance = dict(VARIANTS[case.variant])
    losses = disturbance.pop("losses", 0.0)
    executor = SimulatedExecutor(
        objective,
        case.workers,
        duration=lambda trial, _: cost[trial.number],
        loss_rate=losses / full_seconds(problem) if losses else 0.0,
        seed=case.seed,
        **disturbance,
    )
    optimizer = bohb.BOHB(
        space_of(problem.parameters),
        budgets=problem.budgets,
        seed=case.seed,
        preset="paper",
        max_brackets=case.brackets,
        clock=executor.clock,
        stopwatch=executor.clock,
    )
    return bohb.run(optimizer, executor, bohb.Limits(max_brackets=case.brackets)).history, executor


def summary(problem: Problem, history: bohb.History, executor: SimulatedExecutor) -> Simulated:
    """What is kept of a run: the incumbents and how busy the workers were."""
    records, spans = [], []
    for number, outcome in history.outcomes.items():
        trial = history.trials[number]
        started, finished = outcome.started or 0.0, outcome.finished or 0.0
        records.append(Record(finished, 0.0, number, trial.config, trial.budget, outcome.loss, 0.0))
        spans.append((started, finished))
    sampled = [trial for trial in history.trials.values() if trial.origin is not Origin.PROMOTED]
    last = history.started[sampled[-1].number] or 0.0
    busy = sum(min(finished, last) - started for started, finished in spans if started < last)
    origins = [trial.origin for trial in sampled]
    points = trajectory(problem, incumbents(records, "authors"))
    full = [record for record in records if record.budget == problem.budgets[-1]]
    return Simulated(
        curve=tuple((point.time, point.regret) for point in points),
        full=tuple((point.time, point.regret) for point in trajectory(problem, incumbents(full))),
        seconds=executor.now,
        utilisation=executor.utilisation,
        while_sampling=None if history.losses or not last else busy / (last * executor.slots),
        before_model=origins.index(Origin.MODEL) if Origin.MODEL in origins else len(origins),
        trials=len(history.trials),
        lost=sum(history.losses.values()),
    )


def full_seconds(problem: Problem) -> float:
    """The mean time of a full evaluation, over 100 random configurations."""
    rng = np.random.default_rng(0)
    full = problem.budgets[-1]
    return float(np.mean([problem.evaluate(uniform(rng, problem.parameters), full, 0).cost for _ in range(100)]))


def fingerprint(name: str) -> str:
    """Return a fingerprint of the code and data of one problem: the trials of a short study.

    It changes if a decision, a loss or a duration of that study changes, and does not depend on how code is arranged.
    It misses changes that a short study does not reach; delete the cache after such a change.
    """
    history, _ = study(Case(name, "losses", 7, 6, 0))
    trials = [(trial.config, trial.budget, history.outcomes[n].loss) for n, trial in history.trials.items()]
    return hashlib.sha256(repr((trials, history.started)).encode()).hexdigest()[:16]


def run_all(cases: Sequence[Case], kept: Path, jobs: int) -> dict[Case, Simulated]:
    """The results of all cases: from the cache, or simulated now and added to it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    prints = {name: fingerprint(name) for name in {case.problem for case in cases}}
    keys = {case: json.dumps([*asdict(case).values(), prints[case.problem]]) for case in cases}
    lines = kept.read_text().splitlines() if kept.exists() else []
    stored = {entry["key"]: entry["result"] for entry in map(json.loads, lines)}
    results = {case: Simulated.from_json(stored[key]) for case, key in keys.items() if key in stored}
    missing = [case for case in cases if case not in results]
    print(f"# {len(results)} runs from {kept}, {len(missing)} to do", file=sys.stderr, flush=True)
    with kept.open("a") as file:
        for done, (case, result) in enumerate(simulate_all(missing, jobs), 1):
            results[case] = result
            file.write(json.dumps({"key": keys[case], "result": asdict(result)}) + "\n")
            file.flush()
            print(f"# {done}/{len(missing)} {case}", file=sys.stderr, flush=True)
    return results


def simulate_all(cases: Sequence[Case], jobs: int) -> Iterator[tuple[Case, Simulated]]:
    """Every case with its result, as they come; one job needs no process of its own."""
    if jobs == 1:
        yield from ((case, simulate(case)) for case in cases)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(simulate, case): case for case in cases}
        for future in as_completed(futures):
            yield futures[future], future.result()


def all_cases(args: argparse.Namespace) -> list[Case]:
    """Every run, the seeds outermost, so that an interrupted experiment has some of everything."""
    counts = [("plain", n, args.runs) for n in args.workers]
    counts += [(v, n, args.variant_runs) for v in VARIANTS if v != "plain" for n in args.variant_workers]
    return [
        Case(problem, variant, n, args.brackets if args.smoke else max(args.brackets, LONGER.get(n, 0)), seed)
        for seed, problem, (variant, n, runs) in product(range(args.runs), args.problems, counts)
        if seed < runs
    ]


def grouped(results: dict[Case, Simulated], problem: str, variant: str) -> dict[int, list[Simulated]]:
    """The runs of one problem and variant by number of workers, in the order of their seeds."""
    groups: dict[int, list[Simulated]] = {}
    for case in sorted(results, key=lambda case: case.seed):
        if (case.problem, case.variant) == (problem, variant):
            groups.setdefault(case.workers, []).append(results[case])
    return groups


def rows_of(results: dict[Case, Simulated], problem: str) -> list[dict[str, Any]]:
    """The table of one problem: regret to reach, variant, workers."""
    plain = grouped(results, problem, "plain")
    targets = {f"after {share:g}": target_after(plain[min(plain)], share) for share in SHARES}
    targets |= {f"{regret:g}": regret for regret in GIVEN_REGRETS.get(problem, ())}
    rows: list[dict[str, Any]] = []
    for (name, regret), variant in product(targets.items(), VARIANTS):
        runs = grouped(results, problem, variant)
        lead = {"problem": problem, "target": name, "regret": regret, "variant": variant}
        rows += [{**lead, **row} for row in (speedups(runs, regret) if runs else ())]
    return rows


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)

    def numbers(text: str) -> list[int]:
        return [int(n) for n in text.split(",") if n]

    parser.add_argument(
        "--problems",
        type=lambda text: text.split(","),
        default=["networks-letter", "counting_ones-8-8", "lcbench-189908"],
    )
    parser.add_argument("--workers", type=numbers, default=list(WORKERS))
    parser.add_argument("--variant-workers", type=numbers, default=[1, 8, 32], help="with stragglers and with losses")
    parser.add_argument("--brackets", type=int, default=128, help=f"per run; by workers at least {LONGER}")
    parser.add_argument("--runs", type=int, default=30, help="seeds, from 0")
    parser.add_argument("--variant-runs", type=int, default=10, help="seeds with stragglers and with losses")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path, help=f"the data directory; otherwise {VARIABLE} or ../shared/data")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/benchmarks/parallel.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument(
        "--smoke", action="store_true", help="two seeds of counting ones, few brackets, up to 8 workers"
    )
    args = parser.parse_args(arguments)
    if args.smoke:
        args.problems, args.workers, args.variant_workers = ["counting_ones-2-2"], [1, 8], [1, 8]
        args.brackets, args.runs, args.variant_runs, args.jobs = 5, 2, 2, 1
    if args.runs < 1 or not args.workers:
        parser.error("--runs and --workers must name at least one")
    return args


def main(arguments: Sequence[str] | None = None) -> int:
    args = parse(arguments)
    # The children read these before they import numpy.
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})
    if args.data is not None:
        os.environ[VARIABLE] = str(args.data)
    try:
        results = run_all(all_cases(args), args.cache, args.jobs)
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    rows = [row for problem in args.problems for row in rows_of(results, problem)]
    verdicts = [
        line for problem in args.problems for line in claims([r for r in rows if r["problem"] == problem], problem)
    ]
    print(table(rows), "", *verdicts, sep="\n")
    source = provenance(range(args.runs), ["bohb", "ConfigSpace", "numpy", "onnxruntime", "scipy"])
    write(args.out, "parallel", source, {"variants": VARIANTS, "claims": verdicts, "rows": rows}, rows)
    (args.out / "parallel.md").write_text(page("parallel", {"source": source, "claims": verdicts, "rows": rows}))
    draw(args, results, rows)
    return 0


def draw(args: argparse.Namespace, results: dict[Case, Simulated], rows: list[dict[str, Any]]) -> None:
    """Regret over time per problem, and all speed-ups in one figure."""
    for problem in args.problems:
        targets = {row["regret"] for row in rows if row["problem"] == problem}
        title = f"{problem}: {args.runs} seeds, synchronous successive halving (§4.2)"
        draw_regrets(grouped(results, problem, "plain"), title, sorted(targets), args.out / f"parallel_{problem}.png")
    lines: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["variant"] == "plain":
            lines.setdefault(f"{row['problem']}, regret {row['regret']:.3g}", []).append(row)
    draw_speedups(
        lines, f"speed-up over one worker, {args.runs} seeds, 95 % intervals", args.out / "parallel_speedup.png"
    )


if __name__ == "__main__":
    sys.exit(main())
