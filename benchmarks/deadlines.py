"""Deadlines: do studies end in time, do they use the time, and is what they find as good as without planning?

    python -m benchmarks.deadlines                  # about 8 minutes of CPU time, and 4 minutes of sleep
    python -m benchmarks.deadlines --real           # only the real studies, again; the page keeps the other results
    python -m benchmarks.deadlines --smoke --out /tmp/deadlines --cache /tmp/deadlines

Finished studies are kept in --cache and not run again.

120 studies on the simulated clock, on networks (durations vary by a log-normal factor of deviation 0.2) and on LCBench
(recorded durations, which depend on the configuration), with 1, 8 and 32 workers and deadlines after 3 to 8 full
evaluations. Each is run twice: with `max_seconds`, and without a deadline but stopped at once when the time is up. The
regret is that of the incumbent, on the largest budget.

10 real studies with two worker processes and trials that sleep.

The estimate of the end is compared with the true end of studies with `max_cost`, every time 5 % of it have passed, from
a quarter on.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import bohb
from benchmarks.methods import space_of
from benchmarks.problem import Problem, uniform
from benchmarks.problems import problem_of
from benchmarks.report import RESULTS, ROOT, opening, provenance, wrapped, write
from bohb.core.events import TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.times.durations import learnt
from bohb.core.times.forecast import seconds_to_end
from bohb.core.trial import Outcome, Trial
from bohb.executors.base import Done
from bohb.executors.evaluate import SimulatedExecutor

PROBLEMS = {"networks-letter": 0.2, "lcbench-3945": 0.0, "networks-mnist": 0.2, "lcbench-7593": 0.0}  # straggling
FAMILIES = ("networks", "lcbench")
STUDIES = 120  # simulated ones
WORKERS = (1, 8, 32)
LENGTHS = (3, 5, 8)  # of a study, in typical full evaluations per worker
LATE, USED, ETA_ERROR = 0.02, 0.9, 0.1  # what is aimed at
REAL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Case:
    """One simulated study."""

    problem: str
    workers: int
    length: int
    seed: int


class StoppedAtOnce(SimulatedExecutor):
    """Interrupts the runner when the time is up, as a user would."""

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Wait as usual; raise KeyboardInterrupt at the end of the time."""
        done = super().wait(timeout)
        if self.now >= self._until and not self._closed:
            raise KeyboardInterrupt
        return done


def cases(n: int) -> list[Case]:
    """Return n cases, which alternate between problems, numbers of workers and lengths."""
    names = list(PROBLEMS)
    return [Case(names[i % 4], WORKERS[i // 4 % 3], LENGTHS[i // 12 % 3], i) for i in range(n)]


def cluster(case: Case, kind: type[SimulatedExecutor], until: float = math.inf) -> SimulatedExecutor:
    """Return simulated workers; a promoted configuration takes only what it adds."""
    problem = problem_of(case.problem)
    reached: dict[int, float] = {}
    cost: dict[int, float] = {}

    def objective(trial: Trial) -> float:
        evaluation = problem.evaluate(trial.config, trial.budget, trial.seed)
        before = reached.get(trial.config_id, 0.0) if trial.previous_budget else 0.0
        reached[trial.config_id] = evaluation.cost
        cost[trial.number] = max(evaluation.cost - before, 1e-3)
        return math.nan if evaluation.loss is None else evaluation.loss

    def duration(trial: Trial, _: Outcome) -> float:
        return cost[trial.number]

    straggling = PROBLEMS[case.problem]
    return kind(objective, case.workers, duration=duration, straggling=straggling, seed=case.seed, until=until)


def optimizer(case: Case, executor: SimulatedExecutor) -> bohb.BOHB:
    """Return the study of a case."""
    problem = problem_of(case.problem)
    clock = executor.clock
    return bohb.BOHB(
        space_of(problem.parameters),
        budgets=problem.budgets,
        seed=case.seed,
        preset="paper",
        clock=clock,
        stopwatch=clock,
    )


def full_seconds(problem: Problem) -> float:
    """Return the median duration of a random configuration on the largest budget."""
    rng = np.random.default_rng(0)
    return statistics.median(
        problem.evaluate(uniform(rng, problem.parameters), problem.budgets[-1], 0).cost for _ in range(31)
    )


def simulated(case: Case) -> dict[str, Any]:
    """Run a study with a deadline, and again until it is stopped at that time."""
    problem = problem_of(case.problem)
    deadline = case.length * full_seconds(problem)
    row: dict[str, Any] = asdict(case)
    for name, kind in (("planned", SimulatedExecutor), ("stopped", StoppedAtOnce)):
        executor = cluster(case, kind, deadline)
        study = optimizer(case, executor)
        limits = bohb.Limits(max_seconds=deadline) if name == "planned" else bohb.Limits(max_brackets=10**6)
        history = bohb.run(study, executor, limits).history
        spans = [(o.finished or 0.0) - (o.started or 0.0) for o in history.outcomes.values()]
        best = history.incumbent
        row |= {
            f"{name}_end": executor.now / deadline,
            f"{name}_used": sum(spans) / (deadline * case.workers),
            f"{name}_regret": None if best is None else problem.regret(best.config, best.loss),
            f"{name}_largest": problem.budgets[-1] in history.best,
            f"{name}_killed": len(history.pending),
        }
        if name == "planned":
            row["replayed"] = bohb.replay(study.events).ok
    return row


def sleeping(trial: Trial) -> float:
    """Sleep in proportion to the budget, up to four times as long for some configurations than for others."""
    time.sleep(0.05 * 4 ** (trial.config["x"] - 0.5) * (trial.budget - (trial.previous_budget or 0.0)))
    return float((trial.config["x"] - 0.3) ** 2 / trial.budget)


def real(seed: int, seconds: float) -> dict[str, Any]:
    """Run a study with two processes."""
    began = time.time()
    until = began + seconds
    study = bohb.minimize(
        sleeping,
        {"x": (0.0, 1.0)},
        min_budget=1,
        max_budget=27,
        seed=seed,
        preset="paper",
        workers=2,
        until=until,
        progress=False,
    )
    end = time.time()
    history = study.history
    spans = [(o.finished or 0.0) - (o.started or 0.0) for o in history.outcomes.values()]
    return {
        "seed": seed,
        "end": (end - began) / seconds,
        "used": sum(spans) / (2 * seconds),
        "largest": 27 in history.best,
        "stopped": study.stopped,
        "load": os.getloadavg()[1],  # processes that wanted a core in the last five minutes
    }


def eta(case: Case) -> list[float]:
    """Return the relative errors of the predicted remaining time, from a quarter of a study on."""
    executor = cluster(case, SimulatedExecutor)
    study = optimizer(case, executor)
    limits = {"max_cost": float(case.length * min(case.workers, 8))}
    bohb.run(study, executor, bohb.Limits(**limits))  # type: ignore[arg-type]
    events, end = list(study.events), executor.now
    history, errors, due = History(), [], 0.25
    for event, following in zip(events, [*events[1:], None], strict=True):
        history.apply(event)
        if not (isinstance(event, TrialFinished) and isinstance(following, TrialStarted)):
            continue
        now = event.outcome.finished or 0.0
        if due <= now / end < 0.97:
            due = now / end + 0.05
            left = seconds_to_end(history, learnt(history), limits, case.workers, now, now)
            assert left is not None
            errors.append(abs(left / (end - now) - 1))
    return errors


def median_error(family: str, workers: int) -> dict[str, Any]:
    """Return the median error of the estimates for the problems of a family."""
    length = 30 if workers == 1 else 10
    names = [name for name in PROBLEMS if name.startswith(family)]
    errors = [error for name in names for seed in range(100, 103) for error in eta(Case(name, workers, length, seed))]
    return {"family": family, "workers": workers, "estimates": len(errors), "median_error": _median(errors)}


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def regret_ratio(rows: Sequence[dict[str, Any]]) -> tuple[str, float, int, int, int]:
    """Return the geometric mean of regrets, planned over stopped, and how often planning was better, equal, worse.

    The text has the mean and its 95 % interval, by the bootstrap over studies.
    """
    logs, better, equal, worse = [], 0, 0, 0
    for row in rows:
        planned, stopped = row["planned_regret"], row["stopped_regret"]
        if planned is None or stopped is None:
            continue
        logs.append(math.log(max(planned, 1e-4) / max(stopped, 1e-4)))
        better, equal, worse = better + (planned < stopped), equal + (planned == stopped), worse + (planned > stopped)
    draws = np.random.default_rng(0).choice(logs, (2000, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(draws, (0.025, 0.975)))
    mean = math.exp(statistics.fmean(logs))
    return f"{mean:.2f} ({low:.2f} to {high:.2f})", mean, better, equal, worse


def claims(
    rows: Sequence[dict[str, Any]], real_rows: Sequence[dict[str, Any]], etas: Sequence[dict[str, Any]]
) -> list[tuple[str, str, bool]]:
    """Return what was aimed at, what was measured, and whether it was met."""
    ends, real_ends = [row["planned_end"] for row in rows], [row["end"] for row in real_rows]
    used, real_used = [row["planned_used"] for row in rows], [row["used"] for row in real_rows]
    text, ratio, better, equal, worse = regret_ratio(rows)
    errors = [row["median_error"] for row in etas if row["median_error"] is not None]
    largest = sum(row["planned_largest"] for row in rows), sum(row["stopped_largest"] for row in rows)
    n = len(rows)

    def shares(values: Sequence[float]) -> str:
        enough = sum(value >= USED for value in values)
        return f"mean {statistics.fmean(values):.1%}, lowest {min(values):.1%}; {enough} of {len(values)} at least 90 %"

    found = [
        (
            "simulated: no end later than the deadline + 2 %",
            f"latest {max(ends):.1%} of the deadline",
            max(ends) <= 1 + LATE,
        ),
        ("simulated: at least 90 % of worker time in finished trials", shares(used), min(used) >= USED),
        (
            "simulated: regret no worse than when stopped at once",
            f"geometric mean {text} times; {better} better, {equal} equal, {worse} worse",
            ratio <= 1,
        ),
        (
            "simulated: the largest budget is seen",
            f"{largest[0]} of {n} (stopped at once: {largest[1]})",
            largest[0] == n,
        ),
        (
            "simulated: every decision can be replayed",
            f"{sum(r['replayed'] for r in rows)} of {n}",
            all(r["replayed"] for r in rows),
        ),
    ]
    if real_rows:
        found += [
            (
                "real: no end later than the deadline + 2 %",
                f"latest {max(real_ends):.1%} of the deadline",
                max(real_ends) <= 1 + LATE,
            ),
            ("real: at least 90 % of worker time in finished trials", shares(real_used), min(real_used) >= USED),
        ]
    if errors:
        found.append(
            (
                "median error of the remaining time at most 10 %, in each of the six groups",
                ", ".join(f"{e:.1%}" for e in errors),
                max(errors) <= ETA_ERROR,
            )
        )
    return found


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.fmean(row[key] for row in rows)


def _geometric(rows: Sequence[dict[str, Any]], key: str) -> float:
    return math.exp(statistics.fmean(math.log(max(row[key], 1e-4)) for row in rows if row[key] is not None))


def page(
    found: Sequence[tuple[str, str, bool]], rows: Sequence[dict[str, Any]], etas: Sequence[dict[str, Any]], load: float
) -> str:
    """Return the results as Markdown."""
    lines = opening(
        "Deadlines",
        "Do studies with a deadline end in time, and do they use the time that they have?",
        [
            f"All {len(rows)} simulated studies ended at the latest after {max(r['planned_end'] for r in rows):.1%} of "
            "the time until the deadline.",
            f"Finished trials used {_mean(rows, 'planned_used'):.1%} of the workers' time, and "
            f"{_mean(rows, 'stopped_used'):.1%} if a study is stopped at the deadline without planning.",
            f"The regret is {regret_ratio(rows)[0]} times that of stopped studies.",
        ],
    )
    lines += wrapped(
        "`make bench-deadlines` (`benchmarks/deadlines.py`) writes this page and explains what is run. "
        f"{len(rows)} of {STUDIES} simulated studies were run. While the real ones ran, {load:.0f} processes competed "
        "for two cores."
    )
    lines += ["", "| aim | measured | |", "|---|---|---|"]
    lines += [f"| {aim} | {measured} | {'met' if met else 'NOT MET'} |" for aim, measured, met in found]
    lines += ["", "## Worker time and regret", ""]
    lines += [
        "Means over studies; regrets as geometric means, their ratios with 95 % intervals.",
        "",
        "| family | workers | studies | time used | when stopped at once | regret | when stopped at once | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        for workers in WORKERS:
            group = [r for r in rows if r["problem"].startswith(family) and r["workers"] == workers]
            if group:
                lines.append(
                    f"| {family} | {workers} | {len(group)} "
                    f"| {_mean(group, 'planned_used'):.1%} | {_mean(group, 'stopped_used'):.1%} "
                    f"| {_geometric(group, 'planned_regret'):.4f} | {_geometric(group, 'stopped_regret'):.4f} "
                    f"| {regret_ratio(group)[0]} |"
                )
    lines += [
        "",
        "## The estimate of the end",
        "",
        "| family | workers | estimates | median error |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {r['family']} | {r['workers']} | {r['estimates']} | {r['median_error']:.1%} |"
        for r in etas
        if r["median_error"] is not None
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what was not run before, and write deadlines.json, .csv and .md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "deadlines")
    parser.add_argument("--part", choices=["simulated", "real", "eta"], help="default: all")
    parser.add_argument("--real", action="store_true", help="run the real studies again and keep the other results")
    parser.add_argument("--smoke", action="store_true", help="four simulated studies, one real one of two seconds")
    options = parser.parse_args()
    logging.getLogger("bohb").setLevel(logging.ERROR)
    todo: dict[str, list[Callable[[], dict[str, Any]]]] = {
        "simulated": [partial(simulated, case) for case in cases(4 if options.smoke else STUDIES)],
        "real": [partial(real, s, 2.0 if options.smoke else REAL_SECONDS) for s in range(1 if options.smoke else 10)],
        "eta": [] if options.smoke else [partial(median_error, f, w) for w in WORKERS for f in FAMILIES],
    }
    if options.real:
        stored = json.loads((options.out / "deadlines.json").read_text())
        results = {**stored, "real": [measure() for measure in todo["real"]]}
    else:
        results = {part: _measured(measures, part, options) for part, measures in todo.items()}
    rows, real_rows, etas = (results[part] for part in todo)
    found = claims(rows, real_rows, etas)
    results = {"claims": found, "simulated": rows, "real": real_rows, "eta": etas}
    write(options.out, "deadlines", provenance(range(len(rows)), ("bohb", "numpy", "scipy")), results, rows)
    text = page_of(results)
    (options.out / "deadlines.md").write_text(text)
    print(text)


def page_of(body: Mapping[str, Any]) -> str:
    """Return docs/results/deadlines.md."""
    load = max((row["load"] for row in body["real"]), default=0.0)
    return page(body["claims"], body["simulated"], body["eta"], load)


def _measured(
    measures: Sequence[Callable[[], dict[str, Any]]], part: str, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the results of a part that are in the cache, after measuring what is missing if the part was asked for."""
    found = []
    for index, measure in enumerate(measures):
        done = options.cache / f"{part}-{index}.json"
        if not done.exists() and options.part in (None, part):
            done.parent.mkdir(parents=True, exist_ok=True)
            done.write_text(json.dumps(measure()))
        if done.exists():
            found.append(json.loads(done.read_text()))
    return found


if __name__ == "__main__":
    main()
