"""Measure what it costs to open a stored study of many trials and to continue it.

    python -m benchmarks.speed.resume                          # 10 000 and 100 000 trials, about five minutes
    python -m benchmarks.speed.resume --sizes 10000 --repeats 1 --out /tmp/resume

Figures are medians of --repeats new processes with one BLAS thread, each on a new copy of the file.
Writes resume.json and resume.csv.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import provenance, table, verdict, write
from benchmarks.speed.throughput import MAX_BUDGET, MIN_BUDGET, ROOT, Stopwatch, child

# This process imports little, because it starts the others, and on Linux the peak memory of a new process includes that
# of the process that started it.
if TYPE_CHECKING:
    from bohb import BOHB, Trial
    from bohb.core.events import Event

BATCH = 64  # trials that run at the same time while the study is built
WAYS = ("BOHB(…, journal)", "from_journal")
MIB = 2**20


def arguments_of(seed: int) -> dict[str, Any]:
    """Return the arguments of the stored study: the paper's settings."""
    return {"min_budget": MIN_BUDGET, "max_budget": MAX_BUDGET, "seed": seed, "preset": "paper"}


def space() -> dict[str, Any]:
    """Return the space mixed16: 8 binary and 8 continuous dimensions."""
    from benchmarks.problems import CountingOnes

    return CountingOnes(8, 8).space


def build(path: Path, trials: int, seed: int) -> dict[str, Any]:
    """Store a study of finished trials with random losses, as 64 workers would leave it.

    Configurations are random, because a model would take hours. But two thirds of the new ones are stored as if the
    model had proposed them, outcomes have times and a worker, and the settings are the paper's: events have the usual
    size, and the next proposals come from the model.
    """
    import numpy as np

    from bohb import BOHB, Outcome, Settings, Status
    from bohb.core.events import StudyCreated
    from bohb.journal import SqlJournal

    rng = np.random.default_rng(seed)
    optimizer = BOHB(space(), random_fraction=1, **arguments_of(seed))
    left = trials
    while left:
        asked = optimizer.ask_many(min(BATCH, left))
        losses = rng.random(len(asked)).tolist()
        now = time.time()
        optimizer.tell_many(
            (trial, Outcome(Status.OK, loss=loss, started=now, finished=now, worker=f"localhost/{slot}"))
            for slot, (trial, loss) in enumerate(zip(asked, losses, strict=True))
        )
        left -= len(asked)
    events = [as_if_proposed(event) for event in optimizer.events]
    assert isinstance(events[0], StudyCreated)
    events[0] = replace(events[0], settings=Settings().to_json())
    with SqlJournal(path) as journal:
        for start in range(0, len(events), 1000):
            journal.append(events[start : start + 1000], start)
    return {"events": len(events), "bytes": path.stat().st_size}


def as_if_proposed(event: Event) -> Event:
    """Turn two of three starts of random trials into starts of model-based ones; keep other events."""
    from bohb import Origin
    from bohb.core.events import TrialStarted

    match event:
        case TrialStarted(trial) if trial.origin is Origin.RANDOM and trial.number % 3:
            numbers = {"log_ratio": 2.76037935, "model_budget": 27.0, "model_points": 1000, "good_points": 150}
            return replace(event, trial=replace(trial, origin=Origin.MODEL, reason=numbers))
        case _:
            return event


def peak() -> float:
    """Return the peak resident set of this process in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes there, KiB on Linux
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


def imported() -> dict[str, Any]:
    """Return the memory of a process that has only imported what opening a study needs."""
    import bohb
    import bohb.core.space.configspace  # otherwise imported on first use
    from bohb.journal import SqlJournal

    return {"peak": peak(), "opens": [bohb.BOHB.__name__, SqlJournal.__name__]}


def open_study(path: Path, way: str, seed: int) -> tuple[BOHB, dict[str, Any]]:
    """Return the resumed study and its cost, without imports."""
    import bohb.core.space.configspace  # noqa: F401 - as in `imported`
    from bohb import BOHB
    from bohb.journal import SqlJournal

    domains = space()
    watch = Stopwatch()
    if way == WAYS[0]:
        optimizer = BOHB(domains, journal=SqlJournal(path), **arguments_of(seed))
    else:
        optimizer = BOHB.from_journal(SqlJournal(path))
    return optimizer, {"open": watch.read(), "peak": peak()}


def resume(path: Path, way: str, asks: int, seed: int) -> dict[str, Any]:
    """Open a study, then run `asks` no-op trials one by one: each model-based ask follows a tell, so it refits."""
    import numpy as np

    from bohb import Origin

    optimizer, body = open_study(path, way, seed)
    told = len(optimizer.history.outcomes)
    losses = np.random.default_rng(seed).random(asks).tolist()
    seconds: list[float] = []
    first: dict[str, float] | None = None
    for loss in losses:
        trial, cost = timed_ask(optimizer)
        seconds.append(cost["wall"])
        if first is None and trial.origin is Origin.MODEL:
            first = cost
        optimizer.tell(trial, loss)
    if first is None:
        raise RuntimeError(f"none of {asks} trials was proposed by the model; ask for more")
    p99 = float(np.quantile(seconds, 0.99))
    return {**body, "first": first, "p99": p99, "worst": max(seconds), "peak_later": peak(), "trials": told}


def timed_ask(optimizer: BOHB) -> tuple[Trial, dict[str, float]]:
    """Return the next trial, stored in the journal, and its cost."""
    watch = Stopwatch()
    trial = optimizer.ask()
    return trial, watch.read()


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """Perform one step in this process."""
    match args.one:
        case "build":
            return build(args.path, args.sizes[0], args.seed)
        case "import":
            return imported()
        case "resume":
            return resume(args.path, args.way, args.asks, args.seed)
        case _:
            raise ValueError(f"--one={args.one!r} is not a step")


def step(args: argparse.Namespace, one: str, *more: str) -> dict[str, Any]:
    """Perform one step in a new process and return its JSON."""
    arguments = ["--one", one, "--seed", str(args.seed), "--asks", str(args.asks), *more]
    body = child(Path(sys.executable), "benchmarks.speed.resume", arguments, args.limit)
    if "skipped" in body:
        raise SystemExit(f"{one} {' '.join(more)}: {body['skipped']}")
    print(f"# {one} {' '.join(more)}: {json.dumps(body)}", file=sys.stderr, flush=True)
    return body


def measure_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one result per size and way of opening."""
    bare = [step(args, "import")["peak"] for _ in range(args.repeats)]
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="resume-", dir=args.disk) as directory:
        for size in args.sizes:
            built = Path(directory) / f"{size}.db"
            stored = step(args, "build", "--path", str(built), "--sizes", str(size))
            here = [{"size": size, "way": way, **stored, "bare": bare, "runs": []} for way in WAYS]
            for _ in range(args.repeats):
                for result in here:
                    load = os.getloadavg()[0]
                    with tempfile.TemporaryDirectory(dir=directory) as place:  # a run leaves a log beside its file
                        copy = shutil.copy(built, place)
                        run = step(args, "resume", "--path", str(copy), "--way", result["way"])
                    result["runs"].append({**run, "load_before": load})
            results += here
            built.unlink()
    return results


def rows_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table: medians over the runs, and the worst p99."""
    rows = []
    for r in results:
        runs = r["runs"]
        bare = statistics.median(r["bare"])
        rows.append(
            {
                "trials": r["size"],
                "events": r["events"],
                "file MiB": r["bytes"] / MIB,
                "way": r["way"],
                "open CPU s": statistics.median(run["open"]["own"] for run in runs),
                "open wall s": statistics.median(run["open"]["wall"] for run in runs),
                "first model ask CPU ms": 1e3 * statistics.median(run["first"]["own"] for run in runs),
                "wall ms": 1e3 * statistics.median(run["first"]["wall"] for run in runs),
                "ask p99 wall ms": 1e3 * max(run["p99"] for run in runs),
                "memory MiB": statistics.median(run["peak"] for run in runs) - bare,
                "after asks MiB": statistics.median(run["peak_later"] for run in runs) - bare,
                "load before": statistics.median(run["load_before"] for run in runs),
            }
        )
    return rows


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """Compare the measurements with the documented limits."""
    promised = (
        (10_000, "open CPU s", 1.0, "under 1 s of CPU time"),
        (100_000, "open CPU s", 10.0, "under 10 s of CPU time"),
        (100_000, "memory MiB", 500e6 / MIB, "under 500 MB"),
        (100_000, "open wall s", 5.0, "replayed within 5 s"),
        (100_000, "ask p99 wall ms", 250.0, "then ask p99 within 250 ms"),
    )
    lines = []
    for size, column, limit, claim in promised:
        for way in WAYS:
            value = next((row[column] for row in rows if (row["trials"], row["way"]) == (size, way)), None)
            holds = None if value is None else value < limit
            unit = column.rsplit(" ", 1)[1]
            detail = "not measured" if value is None else f"{value:.3g} {unit}"
            lines.append(verdict(holds, f"{size} trials, {way}: {claim}", detail))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[10**4, 10**5])
    parser.add_argument("--asks", type=int, default=200, help="trials asked for after opening")
    parser.add_argument("--repeats", type=int, default=3, help="runs per figure; the median is shown")
    parser.add_argument("--limit", type=float, default=600, help="time limit of a step in seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--disk", type=Path, help="a directory on the disk to measure (default: the temporary directory)"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--one", help="do only this step (build, import, resume), in this process, and print JSON")
    parser.add_argument("--path", type=Path, help="with --one: the journal")
    parser.add_argument("--way", choices=WAYS, default=WAYS[0], help="with --one resume")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run_one(args)))
        return
    results = measure_all(args)
    rows = rows_of(results)
    told = goals(rows)
    print(table(rows), "", *told, sep="\n")
    source = provenance([args.seed], ["bohb", "ConfigSpace", "numpy", "scipy"])
    write(args.out, "resume", source, {"results": results, "goals": told}, rows)


if __name__ == "__main__":
    main()
