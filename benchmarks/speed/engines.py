"""Measure no-op evaluations per second with local workers, Dask and Ray, and bare tasks of these engines.

    python -m benchmarks.speed.engines                                       # three runs each, a few minutes
    python -m benchmarks.speed.engines --smoke --out /tmp/engines

Each engine has --workers worker processes on this machine, with one BLAS thread each, and is used from a new process.
This process first runs bare tasks that do nothing, one per worker at a time and then all at once. Then it runs a whole
study (`bohb.minimize`), whose trials run in supervised child processes of the engine's workers. "local" compares
`minimize(workers=…)` with a `ProcessPoolExecutor`. Ray always binds to the machine's external address, so it runs in a
network namespace with loopback only (`unshare --net`; needs root). Writes throughput_engines.json and .csv.
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
    """An engine without bohb: starts tasks that do nothing, and waits for the first of several.

    keywords: arguments with which `minimize` uses the same engine.
    """

    submit: Callable[[int], Any]
    wait: Callable[[list[Any]], tuple[list[Any], list[Any]]]
    keywords: dict[str, Any]


def nothing(number: int) -> int:
    """Do nothing."""
    return number


@contextmanager
def local(workers: int) -> Iterator[Bare]:
    """A pool of processes; the study starts its own workers."""

    def wait(tasks: list[Any]) -> tuple[list[Any], list[Any]]:
        done, left = futures.wait(tasks, return_when=futures.FIRST_COMPLETED)
        return list(done), list(left)

    with futures.ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield Bare(lambda i: pool.submit(nothing, i), wait, {"workers": workers})


@contextmanager
def dask(workers: int) -> Iterator[Bare]:
    """A scheduler and workers with one thread each, in separate processes on loopback."""
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
    """A cluster on this machine."""
    import ray as engine

    engine.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
    task = engine.remote(nothing)
    try:
        yield Bare(task.remote, lambda tasks: engine.wait(tasks, num_returns=1), {"executor": "ray://auto"})
    finally:
        engine.shutdown()


def rush(bare: Bare, tasks: int, window: int) -> dict[str, float]:
    """Run `tasks` tasks, at most `window` at a time."""
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
    """Run a whole study, including the start and the end of its child processes."""
    import bohb

    watch = Stopwatch()
    with tempfile.TemporaryDirectory(prefix="engines-") as directory:
        found = bohb.minimize(
            objective,
            dict.fromkeys(NAMES, (0.0, 1.0)),
            min_budget=MIN_BUDGET,
            max_budget=MAX_BUDGET,
            seed=seed,
            preset="paper",
            directory=directory,
            max_trials=trials,
            progress=False,
            **keywords,
        )
    body = watch.read()
    finished = sorted(outcome.finished or 0.0 for outcome in found.history.outcomes.values() if outcome.ok)
    if len(finished) != trials:
        raise RuntimeError(f"{len(finished)} of {trials} trials succeeded")
    half = trials // 2
    return {**body, "steady": (trials - half) / (finished[-1] - finished[half - 1])}


def run_one(engine: str, args: argparse.Namespace) -> dict[str, Any]:
    """Measure one engine in this process: warm it up, run bare tasks, then a study."""
    warnings.simplefilter("ignore")
    start = {"local": local, "dask": dask, "ray": ray}[engine]
    with start(args.workers) as bare:
        rush(bare, 20 * args.workers, args.workers)
        study(bare.keywords, 10 * args.workers, args.seed)  # imports, and other work that is done once per process
        load = os.getloadavg()[0]
        windowed, bulk = rush(bare, args.tasks, args.workers), rush(bare, args.tasks, args.tasks)
        body = {"windowed": windowed, "bulk": bulk, "study": study(bare.keywords, args.trials, args.seed)}
    return {**body, "load_before": load, "versions": versions(PACKAGES)}


def child(engine: str, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Call `run_one` in a new process; return its result, or {"skipped": reason}."""
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
    """Measure every engine --runs times, in turns, so that a busy minute does not affect only one."""
    runs: dict[str, list[dict[str, Any]]] = {engine: [] for engine in args.engines}
    for i in range(args.runs):
        for engine in args.engines:
            began = time.monotonic()
            runs[engine].append(child(engine, args, args.seed + i))
            state = runs[engine][-1].get("skipped", "measured")
            print(f"# {i} {engine}: {state}, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return runs


def row_of(engine: str, runs: list[dict[str, Any]], args: argparse.Namespace) -> dict[str, Any]:
    """Return one line of the table: medians over the runs that were not skipped."""
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
    """Return what the runner costs in addition to the engine's own client."""
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
    parser.add_argument("--trials", type=int, default=1000, help="trials of the study")
    parser.add_argument("--runs", type=int, default=3, help="runs per engine; the median is shown")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; later runs count up")
    parser.add_argument("--limit", type=float, default=300, help="time limit of an engine in seconds")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--smoke", action="store_true", help="only local workers, one run, few tasks")
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
