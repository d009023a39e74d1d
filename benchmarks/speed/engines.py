"""No-op evaluations per second through local workers, Dask and Ray, beside what those engines do with bare tasks.

    python -m benchmarks.speed.engines                                       # three times each; some minutes
    python -m benchmarks.speed.engines --smoke --out /tmp/engines

Each engine has --workers worker processes on this machine, one BLAS thread each, and is driven from a fresh process.
That first runs bare tasks that do nothing, as many at a time as there are workers and then all at once, and after that
a whole study (`bohb.minimize`), whose trials run in our isolated children inside the engine's tasks. "local" is
`minimize(workers=…)` beside a `ProcessPoolExecutor`. Ray binds to the machine's outward address even when asked
otherwise, so it runs in a network namespace that has only loopback (`unshare --net`; needs root).
Writes throughput_engines.json and .csv.
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
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import provenance, table, verdict, versions, write
from benchmarks.speed.throughput import MAX_BUDGET, MIN_BUDGET, NAMES, ONE_THREAD, ROOT, Stopwatch, objective

ENGINES = ("local", "dask", "ray")
PACKAGES = ["bohb", "distributed", "ray", "numpy", "cloudpickle"]


class Bare(NamedTuple):
    """An engine without us: start a task that does nothing, and wait until one of several is done.

    keywords: with these `minimize` runs on the same engine.
    """

    submit: Callable[[int], Any]
    wait: Callable[[list[Any]], tuple[list[Any], list[Any]]]
    keywords: dict[str, Any]


def nothing(number: int) -> int:
    """A task that does nothing."""
    return number


@contextmanager
def local(workers: int) -> Iterator[Bare]:
    """A pool of processes; the study has workers of its own."""

    def wait(tasks: list[Any]) -> tuple[list[Any], list[Any]]:
        done, left = futures.wait(tasks, return_when=futures.FIRST_COMPLETED)
        return list(done), list(left)

    with futures.ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield Bare(lambda i: pool.submit(nothing, i), wait, {"workers": workers})


@contextmanager
def dask(workers: int) -> Iterator[Bare]:
    """A scheduler and workers of one thread each, all in processes of their own, on loopback."""
    engine: Any = import_module("distributed")  # partly typed
    processes: Any = import_module("distributed.deploy.subprocess")

    def wait(tasks: list[Any]) -> tuple[list[Any], list[Any]]:
        done, left = engine.wait(tasks, return_when="FIRST_COMPLETED")
        return list(done), list(left)

    with (
        processes.SubprocessCluster(
            host="127.0.0.1", dashboard_address=":0", n_workers=workers, threads_per_worker=1
        ) as cluster,
        engine.Client(cluster) as client,
    ):
        client.wait_for_workers(workers)
        yield Bare(lambda i: client.submit(nothing, i, pure=False), wait, {"executor": client})


@contextmanager
def ray(workers: int) -> Iterator[Bare]:
    """A cluster of this machine alone."""
    import ray as engine

    engine.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    task = engine.remote(nothing)
    try:
        yield Bare(task.remote, lambda tasks: engine.wait(tasks, num_returns=1), {"executor": "ray://auto"})
    finally:
        engine.shutdown()


def rush(bare: Bare, tasks: int, window: int) -> dict[str, float]:
    """So many tasks, at most `window` of them at a time."""
    watch = Stopwatch()
    running: list[Any] = []
    for i in range(tasks):
        if len(running) >= window:
            _, running = bare.wait(running)
        running.append(bare.submit(i))
    while running:
        _, running = bare.wait(running)
    return watch.read()


def study(keywords: dict[str, Any], trials: int, seed: int) -> dict[str, float]:
    """A whole study, from the start of its children to their end."""
    import bohb

    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="engines-") as directory:
        found = bohb.minimize(
            objective,
            dict.fromkeys(NAMES, (0.0, 1.0)),
            min_budget=MIN_BUDGET,
            max_budget=MAX_BUDGET,
            seed=seed,
            directory=directory,
            max_trials=trials,
            progress=False,
            **keywords,
        )
    body = watch.read()
    finished = sorted(outcome.finished or 0.0 for outcome in found.history.outcomes.values() if outcome.ok)
    if len(finished) != trials:
        raise RuntimeError(f"{len(finished)} of {trials} trials ended well")
    half = trials // 2
    return {**body, "steady": (trials - half) / (finished[-1] - finished[half - 1])}


def run_one(engine: str, args: argparse.Namespace) -> dict[str, Any]:
    """One engine, in this process: warm it up, then bare tasks, then a study."""
    warnings.simplefilter("ignore")
    start = {"local": local, "dask": dask, "ray": ray}[engine]
    with start(args.workers) as bare:
        rush(bare, 20 * args.workers, args.workers)
        study(bare.keywords, 10 * args.workers, args.seed)  # imports, and whatever else is done once per process
        load = os.getloadavg()[0]
        windowed, bulk = rush(bare, args.tasks, args.workers), rush(bare, args.tasks, args.tasks)
        body = {"windowed": windowed, "bulk": bulk, "study": study(bare.keywords, args.trials, args.seed)}
    return {**body, "load_before": load, "versions": versions(PACKAGES)}


def child(engine: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """What `run_one` found in a process of its own, or {"skipped": why}."""
    command = [sys.executable, "-m", "benchmarks.speed.engines", "--one", engine, "--seed", str(seed)]
    command += ["--workers", str(args.workers), "--tasks", str(args.tasks), "--trials", str(args.trials)]
    if engine == "ray":
        command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *command]
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=args.limit, check=False
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"over {args.limit:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"skipped": f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
    body: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return body


def measure_all(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Every engine as often as wanted, round by round, so that a busy minute does not hit one alone."""
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in args.engines}
    for i in range(args.runs):
        for engine in args.engines:
            began = time.monotonic()
            runs[engine].append(child(engine, args, args.seed + i))
            state = runs[engine][-1].get("skipped", "measured")
            print(f"# {i} {engine}: {state}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return runs


def row_of(engine: str, runs: list[dict[str, Any]], args: argparse.Namespace) -> dict[str, Any]:
    """One line of the table: medians over the runs that gave something."""
    good = [run for run in runs if "skipped" not in run]
    note = "; ".join(run["skipped"] for run in runs if "skipped" in run)

    def median(figure: Callable[[dict[str, Any]], float]) -> float | None:
        return statistics.median(figure(run) for run in good) if good else None

    return {
        "engine": engine,
        "workers": args.workers,
        "bare per s": median(lambda run: args.tasks / run["windowed"]["wall"]),
        "all at once": median(lambda run: args.tasks / run["bulk"]["wall"]),
        "study per s": median(lambda run: args.trials / run["study"]["wall"]),
        "2nd half per s": median(lambda run: run["study"]["steady"]),
        "added ms each": median(lambda run: 1e3 * (1 / run["study"]["steady"] - run["windowed"]["wall"] / args.tasks)),
        "bare CPU ms": median(lambda run: 1e3 * run["windowed"]["own"] / args.tasks),
        "runner CPU ms": median(lambda run: 1e3 * run["study"]["own"] / args.trials),
        "we add": median(lambda run: 1e3 * (run["study"]["own"] / args.trials - run["windowed"]["own"] / args.tasks)),
        "load before": median(lambda run: run["load_before"]),
        "note": note,
    }


def claim(row: dict[str, Any]) -> str:
    """What the runner adds to what the engine's own client takes."""
    detail = row["note"]
    if row["we add"] is not None:
        detail = f"{row['we add']:.2f} ms, the model included, to {row['bare CPU ms']:.2f} ms of the engine's own"
    holds = None if row["we add"] is None else row["we add"] < 2
    return verdict(holds, f"{row['engine']}: the runner adds less than 2 ms of CPU per evaluation", detail)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=1000, help="bare tasks")
    parser.add_argument("--trials", type=int, default=1000, help="of the study")
    parser.add_argument("--runs", type=int, default=3, help="per engine, the median is shown")
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the others follow")
    parser.add_argument("--limit", type=float, default=300, help="seconds one engine may take")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--smoke", action="store_true", help="local workers alone, once, few tasks")
    parser.add_argument("--one", help="measure only this engine, in this process, and print JSON")
    args = parser.parse_args(arguments)
    if args.smoke:
        args.engines, args.tasks, args.trials, args.runs = ["local"], 50, 50, 1
    unknown = sorted(set(args.engines) - set(ENGINES))
    if unknown:
        parser.error(f"--engines {unknown} are unknown; there are {list(ENGINES)}")
    return args


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse(arguments)
    if args.one:
        print(json.dumps(run_one(args.one, args)))
        return
    runs = measure_all(args)
    rows = [row_of(engine, runs[engine], args) for engine in args.engines]
    lines = [claim(row) for row in rows]
    print(table(rows), "", *lines, sep="\n")
    seeds = range(args.seed, args.seed + args.runs)
    write(args.out, "throughput_engines", provenance(seeds, PACKAGES), {"claims": lines, "runs": runs}, rows)


if __name__ == "__main__":
    main()
