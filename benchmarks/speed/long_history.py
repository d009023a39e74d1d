"""Measure the CPU time of the runner per evaluation, with 10 000 observations in the history.

    python -m benchmarks.speed.long_history                                        # a few minutes
    python -m benchmarks.speed.long_history --smoke --out /tmp/long_history

A journal of --size finished trials (as in `speed.resume`: 8 binary and 8 continuous dimensions, budgets 1 to 27)
is opened, then the runner performs --trials no-op trials (`bohb.run` with checkpoints, like `minimize`), in this
process and with local workers, with the model and without (random_fraction=1). The figure is the CPU time of the
runner's process from the first new trial to the end of the last; `speed.resume` measures opening the journal. Figures
are medians of --runs new processes with one BLAS thread. Writes throughput_history.json and throughput_history.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import provenance, table, verdict, write
from benchmarks.speed.resume import arguments_of, build, space
from benchmarks.speed.throughput import ROOT, Stopwatch, child

if TYPE_CHECKING:
    from bohb.core.events import Event

STORAGES = ("memory", "sqlite")
MODELS = {"paper's third": 1 / 3, "no model": 1.0}  # the fraction of random configurations
GOAL_MS = 2.0


def objective(trial: Any) -> float:
    """Return a loss that depends on the configuration."""
    return float(trial.config["float_0"])


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one figure in this process."""
    import bohb
    from bohb.executors.base import Executor
    from bohb.executors.evaluate import InlineExecutor
    from bohb.executors.local.executor import LocalExecutor
    from bohb.journal import Journal, MemoryJournal, SqlJournal
    from bohb.running.checkpoints import Checkpoints

    with tempfile.TemporaryDirectory(prefix="long-history-") as directory:
        events = stored_events(args.journal, args.random_fraction)
        journal: Journal = MemoryJournal(events)
        if args.storage == "sqlite":
            journal = SqlJournal(Path(directory) / "study.db")
            journal.append(events, 0)
        optimizer = bohb.BOHB(space(), journal=journal, random_fraction=args.random_fraction, **arguments_of(args.seed))
        optimizer.model()  # the first fit belongs to opening
        checkpoints = Checkpoints(Path(directory) / "checkpoints", "study")
        executor: Executor = LocalExecutor(objective, args.workers) if args.workers else InlineExecutor(objective)
        before = len(optimizer.history.outcomes)
        load = os.getloadavg()[0]
        watch = Stopwatch()
        history = bohb.run(optimizer, executor, bohb.Limits(max_trials=before + args.trials), checkpoints).history
        body = watch.read()
    run = len(history.outcomes) - before
    if run != args.trials or history.n_failed:
        raise RuntimeError(f"{run} of {args.trials} trials ended, {history.n_failed} of all failed")
    proposed = sum(history.trials[n].origin is bohb.Origin.MODEL for n in range(before, before + run))
    return {**body, "load_before": load, "observations": before, "proposed": proposed, "events": len(events)}


def stored_events(path: Path, random_fraction: float) -> list[Event]:
    """Return the events of a journal, with this fraction of random configurations in the settings."""
    from bohb.core.events import StudyCreated
    from bohb.journal import SqlJournal

    with SqlJournal(path, read_only=True) as journal:
        created, *events = journal.read()
    assert isinstance(created, StudyCreated)
    return [replace(created, settings={**created.settings, "random_fraction": random_fraction}), *events]


def measure_all(args: argparse.Namespace, journal: Path) -> list[dict[str, Any]]:
    """Measure every figure --runs times, in turns, so that a busy minute does not affect only one."""
    results: list[dict[str, Any]] = [
        {"workers": workers, "storage": storage, "model": model, "runs": []}
        for workers, storage, model in product(args.workers_list, args.storages, MODELS)
    ]
    for i in range(args.runs):
        for result in results:
            arguments = ["--one", "--journal", str(journal), "--workers", str(result["workers"])]
            arguments += ["--storage", result["storage"], "--random-fraction", str(MODELS[result["model"]])]
            arguments += ["--trials", str(args.trials), "--seed", str(args.seed)]
            body = child(Path(sys.executable), "benchmarks.speed.long_history", arguments, args.limit)
            if "skipped" in body:
                raise RuntimeError(f"{arguments}: {body['skipped']}")
            result["runs"].append(body)
            case = [result[name] for name in ("workers", "storage", "model")]
            print(f"# {i} {case}: {1e3 * body['own'] / args.trials:.2f} ms", file=sys.stderr, flush=True)
    return results


def row_of(result: dict[str, Any], trials: int) -> dict[str, Any]:
    """Return one line of the table: medians over the runs."""

    def median(figure: Any) -> float:
        return float(statistics.median(figure(run) for run in result["runs"]))

    return {
        "where": f"{result['workers']} workers" if result["workers"] else "in process",
        "storage": result["storage"],
        "random": result["model"],
        "observations": result["runs"][0]["observations"],
        "trials": trials,
        "proposed by the model": median(lambda run: run["proposed"]),
        "runner CPU ms each": median(lambda run: 1e3 * run["own"] / trials),
        "wall ms each": median(lambda run: 1e3 * run["wall"] / trials),
        "load before": median(lambda run: run["load_before"]),
    }


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000, help="finished trials in the journal")
    parser.add_argument("--trials", type=int, default=1000, help="further trials to run")
    parser.add_argument(
        "--workers-list", type=lambda text: [int(n) for n in text.split(",")], default=[0, 2], help="0: in process"
    )
    parser.add_argument("--storages", type=lambda text: text.split(","), default=list(STORAGES))
    parser.add_argument("--runs", type=int, default=3, help="runs per figure; the median is shown")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=180, help="time limit of a run in seconds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--smoke", action="store_true", help="300 observations, in process, no file, 30 trials, once")
    parser.add_argument("--one", action="store_true", help="measure one figure, in this process, and print JSON")
    parser.add_argument("--journal", type=Path, help="with --one")
    parser.add_argument("--workers", type=int, default=0, help="with --one")
    parser.add_argument("--storage", choices=STORAGES, default="memory", help="with --one")
    parser.add_argument("--random-fraction", type=float, default=1 / 3, help="with --one")
    args = parser.parse_args(arguments)
    if args.smoke:
        args.size, args.trials, args.workers_list, args.storages, args.runs = 300, 30, [0], ["memory"], 1
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    if args.one:
        print(json.dumps(run_one(args)))
        return
    with tempfile.TemporaryDirectory(prefix="long-history-") as directory:
        journal = Path(directory) / "study.db"
        build(journal, args.size, args.seed)
        results = measure_all(args, journal)
    rows = [row_of(result, args.trials) for result in results]
    verdicts = [
        verdict(
            row["runner CPU ms each"] < GOAL_MS,
            f"{row['where']}, {row['storage']}, {row['random']}: under {GOAL_MS:g} ms of CPU per evaluation",
            f"{row['runner CPU ms each']:.2f} ms with {row['observations']} observations",
        )
        for row in rows
    ]
    print(table(rows), "", *verdicts, sep="\n")
    source = provenance([args.seed], ["bohb", "numpy", "scipy"])
    write(args.out, "throughput_history", source, {"claims": verdicts, "results": results}, rows)


if __name__ == "__main__":
    main()
