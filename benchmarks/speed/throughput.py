"""Measure no-op evaluations per second of whole studies, compared with HpBandSter 0.7.4 and Optuna on SQLite.

    python -m benchmarks.speed.throughput                       # everything, three runs each, about ten minutes
    python -m benchmarks.speed.throughput --trials 500 --repeats 1 --peers "" --out /tmp/throughput

Six continuous dimensions, budgets 1 to 27. Figures are medians of --repeats new processes with one BLAS thread.
HpBandSter runs in the environment that `make hpbandster-env` creates and communicates over loopback only.
Writes throughput.json and throughput.csv.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks.report import provenance, table, verdict, versions, write

ROOT = Path(__file__).parents[2]
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
NAMES = [f"float_{i}" for i in range(6)]
MIN_BUDGET, MAX_BUDGET = 1, 27
LOOPBACK = "127.0.0.1"


def child(python: Path, module: str, arguments: list[str], limit: float) -> dict[str, Any]:
    """Run a module in a new process; return the JSON that it prints, or {"skipped": reason}."""
    if not python.exists():
        return {"skipped": f"no {python}"}
    command = [str(python), "-m", module, *arguments]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"skipped": f"over {limit:g} s"}
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        return {"skipped": f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"}
    body: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # peers print as well
    return body


class Stopwatch:
    """Measures wall time, and CPU time of this process (`own`) and of its ended children (`others`)."""

    def __init__(self) -> None:
        self._start = self._now()

    def read(self) -> dict[str, float]:
        return {name: now - self._start[name] for name, now in self._now().items()}

    @staticmethod
    def _now() -> dict[str, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "wall": time.monotonic(),
            "own": time.process_time(),
            "others": children.ru_utime + children.ru_stime,
        }


def objective(trial: Any) -> float:
    """Return a loss that depends on the configuration."""
    return float(trial.config[NAMES[0]])


def run_bohb(workers: int, journal: Path | None, trials: int, seed: int) -> dict[str, Any]:
    """Time `bohb.minimize`, including start and end of the workers; 0 workers: in this process."""
    import bohb

    watch = Stopwatch()
    study = bohb.minimize(
        objective,
        dict.fromkeys(NAMES, (0.0, 1.0)),
        min_budget=MIN_BUDGET,
        max_budget=MAX_BUDGET,
        seed=seed,
        preset="paper",
        workers=workers or None,
        journal=journal,
        max_trials=trials,
        progress=False,
    )
    body: dict[str, Any] = watch.read()
    history = study.history
    finished = sorted(outcome.finished or 0.0 for outcome in history.outcomes.values() if outcome.ok)
    if len(finished) != trials:
        raise RuntimeError(f"{len(finished)} of {trials} trials succeeded")
    half = trials // 2
    steady = (trials - half) / (finished[-1] - finished[half - 1])  # the second half: all workers have started
    return {**body, "evaluations": trials, "steady": steady}


def run_hpbandster(workers: int, brackets: int, seed: int) -> dict[str, Any]:
    """Time `BOHB.run` with worker threads in this process, after all have registered, without a result logger."""
    import ConfigSpace
    import numpy as np
    from hpbandster.core.nameserver import NameServer  # type: ignore[import-not-found]
    from hpbandster.core.worker import Worker  # type: ignore[import-not-found]
    from hpbandster.optimizers import BOHB  # type: ignore[import-not-found]

    class NoOp(Worker):  # type: ignore[misc]
        """Evaluates `objective`."""

        def compute(self, config: dict[str, float], **_: Any) -> dict[str, Any]:
            return {"loss": float(config[NAMES[0]]), "info": {}}

    warnings.simplefilter("ignore")
    quiet = logging.getLogger("quiet")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    np.random.seed(seed)  # noqa: NPY002 - HpBandSter draws from the global state
    space: Any = ConfigSpace.ConfigurationSpace(seed=seed)
    for name in NAMES:
        space.add_hyperparameter(ConfigSpace.hyperparameters.UniformFloatHyperparameter(name, 0.0, 1.0))
    server = NameServer(run_id="throughput", host=LOOPBACK, port=0)
    host, port = server.start()
    place = {"run_id": "throughput", "nameserver": host, "nameserver_port": port, "host": LOOPBACK, "logger": quiet}
    optimizer = BOHB(space, min_budget=MIN_BUDGET, max_budget=MAX_BUDGET, **place)
    for i in range(workers):
        NoOp(id=i, **place).run(background=True)
    optimizer.wait_for_workers(workers)
    watch = Stopwatch()
    result = optimizer.run(n_iterations=brackets, min_n_workers=workers)
    body: dict[str, Any] = watch.read()
    optimizer.shutdown(shutdown_workers=True)
    server.shutdown()
    return {**body, "evaluations": len(result.get_all_runs())}


def run_optuna(storage: Path, trials: int, seed: int) -> dict[str, Any]:
    """Time `study.optimize` with one job and without budgets, which its TPE does not have."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    study = optuna.create_study(storage=f"sqlite:///{storage}", sampler=optuna.samplers.TPESampler(seed=seed))

    def suggest(trial: Any) -> float:
        config = {name: trial.suggest_float(name, 0.0, 1.0) for name in NAMES}
        return float(config[NAMES[0]])

    watch = Stopwatch()
    study.optimize(suggest, n_trials=trials, n_jobs=1)
    return {**watch.read(), "evaluations": len(study.trials)}


def run_one(args: argparse.Namespace) -> dict[str, Any]:
    """Measure one figure in this process."""
    with tempfile.TemporaryDirectory(prefix="throughput-", dir=args.disk) as directory:
        file = Path(directory) / "study.db"
        match args.one:
            case "bohb":
                journal = file if args.storage == "sqlite" else None
                body = run_bohb(args.workers, journal, args.trials, args.seed)
            case "hpbandster":
                body = run_hpbandster(args.workers, args.brackets, args.seed)
            case "optuna":
                body = run_optuna(file, args.optuna_trials, args.seed)
            case _:
                raise ValueError(f"--one={args.one!r} cannot be measured")
    return {**body, "versions": versions(["bohb", "ConfigSpace", "hpbandster", "numpy", "optuna", "SQLAlchemy"])}


def cases(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the cases: package, workers and storage."""
    ours: list[dict[str, Any]] = [
        {"package": "bohb", "workers": workers, "storage": storage}
        for storage in ("memory", "sqlite")
        for workers in args.workers_list
    ]
    peers: dict[str, list[dict[str, Any]]] = {
        "hpbandster": [{"package": "hpbandster", "workers": n, "storage": "memory"} for n in (1, 8)],
        "optuna": [{"package": "optuna", "workers": 0, "storage": "sqlite"}],
    }
    return ours + [case for name in args.peers for case in peers[name]]


def measure_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure each case --repeats times, in turns, so that a busy minute does not affect only one."""
    results: list[dict[str, Any]] = [{**case, "runs": []} for case in cases(args)]
    for i in range(args.repeats):
        for result in results:
            if "skipped" in result:
                continue
            python = args.hpbandster_python if result["package"] == "hpbandster" else Path(sys.executable)
            arguments = ["--one", result["package"], "--workers", str(result["workers"])]
            arguments += ["--storage", result["storage"], "--trials", str(args.trials), "--seed", str(args.seed + i)]
            arguments += ["--brackets", str(args.brackets), "--optuna-trials", str(args.optuna_trials)]
            arguments += ["--disk", str(args.disk)] if args.disk else []
            load = os.getloadavg()[0]
            body = child(python, "benchmarks.speed.throughput", arguments, args.limit)
            if "skipped" in body:
                result["skipped"] = body["skipped"]
            else:
                result["runs"].append({**body, "load_before": load})
            text = body.get("skipped") or f"{body['evaluations'] / body['wall']:.0f}/s"
            print(f"# {i} {result['package']} {result['workers']} {result['storage']}: {text}", file=sys.stderr)
    return results


def rows_of(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the table: medians over the runs."""

    def median(result: dict[str, Any], figure: Any) -> float | None:
        return statistics.median(figure(run) for run in result["runs"]) if result["runs"] else None

    return [
        {
            "package": r["package"],
            "workers": r["workers"] or "in process",
            "storage": r["storage"],
            "evaluations": median(r, lambda run: run["evaluations"]),
            "wall s": median(r, lambda run: run["wall"]),
            "per second": median(r, lambda run: run["evaluations"] / run["wall"]),
            "2nd half per s": median(r, lambda run: run["steady"]) if r["package"] == "bohb" else None,
            "CPU ms each": median(r, lambda run: 1e3 * (run["own"] + run["others"]) / run["evaluations"]),
            "of it coordinator": median(r, lambda run: 1e3 * run["own"] / run["evaluations"]),
            "load before": median(r, lambda run: run["load_before"]),
            "note": r.get("skipped", ""),
        }
        for r in results
    ]


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """Compare the measurements with the documented limits."""
    found = {(row["package"], row["workers"], row["storage"]): row["per second"] for row in rows}
    lines = []
    for workers, storage, least in ((64, "memory", 1000), (64, "sqlite", 100), ("in process", "sqlite", 100)):
        rate = found.get(("bohb", workers, storage))
        detail = "not measured" if rate is None else f"{rate:.0f} per second"
        claim = f"{workers} workers, {storage}" if workers == 64 else f"{workers}, {storage}"
        holds = None if rate is None else rate >= least
        lines.append(verdict(holds, f"{claim}: at least {least} no-op trials per second", detail))
    for theirs, ours in (
        (("hpbandster", 1, "memory"), ("bohb", "in process", "memory")),
        (("hpbandster", 8, "memory"), ("bohb", 8, "memory")),
        (("optuna", "in process", "sqlite"), ("bohb", "in process", "sqlite")),
    ):
        slow, fast = found.get(theirs), found.get(ours)
        if slow is not None and fast is not None:
            lines.append(
                f"{fast / slow:6.1f}×  bohb ({ours[1]}, {ours[2]}) over {theirs[0]} ({theirs[1]}, {theirs[2]})"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000, help="evaluations of each of our studies")
    parser.add_argument(
        "--workers-list",
        type=lambda text: [int(n) for n in text.split(",")],
        default=[0, 2, 8, 64],
        help="0: in process",
    )
    parser.add_argument("--peers", type=lambda text: text.split(",") if text else [], default=["hpbandster", "optuna"])
    parser.add_argument("--brackets", type=int, default=20, help="HpBandSter's n_iterations; 20 are 325 evaluations")
    parser.add_argument("--optuna-trials", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3, help="runs per figure; the median is shown")
    parser.add_argument("--limit", type=float, default=180, help="time limit of a run in seconds")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first run; later runs count up")
    parser.add_argument(
        "--disk", type=Path, help="a directory on the disk to measure (default: the temporary directory)"
    )
    parser.add_argument("--hpbandster-python", type=Path, default=ROOT / ".venvs/hpbandster/bin/python")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    parser.add_argument("--one", help="measure only this package, in this process, and print JSON")
    parser.add_argument("--workers", type=int, default=0, help="with --one")
    parser.add_argument("--storage", choices=("memory", "sqlite"), default="memory", help="with --one")
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run_one(args)))
        return
    results = measure_all(args)
    rows = rows_of(results)
    text = goals(rows)
    print(table(rows), "", *text, sep="\n")
    seeds = list(range(args.seed, args.seed + args.repeats))
    source = provenance(seeds, ["bohb", "ConfigSpace", "numpy", "optuna", "scipy", "SQLAlchemy"])
    write(args.out, "throughput", source, {"results": results, "goals": text}, rows)


if __name__ == "__main__":
    main()
