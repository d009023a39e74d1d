"""Perform runs and store their results by everything that decides them, so that every experiment can be resumed."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks.data import Missing
from benchmarks.fingerprint import code_digest, deciding_files
from benchmarks.harness import Accounting, Point, Protocol, Record, incumbents, simulate, trajectory
from benchmarks.methods import ABLATIONS, OURS, connect
from benchmarks.problem import Problem
from benchmarks.problems import problem_of

HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "benchmarks" / "runs"
PROTOCOLS: tuple[Protocol, ...] = ("authors", "largest")


@dataclass(frozen=True, slots=True)
class Run:
    """One run: everything its result depends on, except the code."""

    problem: str
    method: str
    seed: int
    full_evaluations: float
    workers: int = 1
    accounting: Accounting = "whole"
    max_cost: float | None = None

    @property
    def key(self) -> str:
        """The key of its stored result."""
        return json.dumps([*astuple(self), decisive(self.method, self.problem)])


@dataclass(frozen=True, slots=True)
class Result:
    """The stored result of a run.

    trajectories: the incumbents for each protocol, see `harness.incumbents`.
    time, spent: the simulated time and the budget (in full evaluations) at the end.
    seconds: CPU time of the run, including the process of a rival.
    whole: for runs with one worker and accounting "continue", the incumbents if every evaluation were charged its
        whole budget (the decisions would be the same). Empty for other runs.
    """

    trajectories: dict[Protocol, list[Point]]
    evaluations: int
    failures: int
    time: float
    spent: float
    seconds: float
    whole: dict[Protocol, list[Point]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Result:
        """Return the result from its JSON form."""
        return cls(**{**stored, **{kind: _points(stored.get(kind, {})) for kind in ("trajectories", "whole")}})

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**asdict(self), "trajectories": _rows(self.trajectories), "whole": _rows(self.whole)}


def _points(stored: Mapping[str, Any]) -> dict[Protocol, list[Point]]:
    return {name: [Point(*row) for row in stored[name]] for name in PROTOCOLS if name in stored}


def _rows(trajectories: Mapping[Protocol, Sequence[Point]]) -> dict[str, Any]:
    return {name: [astuple(point) for point in points] for name, points in trajectories.items()}


def execute(run: Run) -> Result:
    """Perform one run."""
    before = os.times()
    problem = problem_of(run.problem)
    method = connect(run.method, problem, seed=run.seed, full_evaluations=run.full_evaluations, workers=run.workers)
    try:
        # Matrices are small: more threads only wait for each other.
        with threadpool_limits(1, user_api="blas"):
            records = simulate(
                method,
                problem,
                seed=run.seed,
                full_evaluations=run.full_evaluations,
                workers=run.workers,
                accounting=run.accounting,
                max_cost=run.max_cost,
            )
    finally:
        method.close()
    after = os.times()
    both = run.workers == 1 and run.accounting == "continue"
    return Result(
        trajectories=_trajectories(problem, records),
        whole=_trajectories(problem, charged_whole(records)) if both else {},
        evaluations=len(records),
        failures=sum(record.loss is None for record in records),
        time=records[-1].time if records else 0.0,
        spent=records[-1].spent / problem.budgets[-1] if records else 0.0,
        seconds=round(sum(after[:4]) - sum(before[:4]), 3),
    )


def _trajectories(problem: Problem, records: Sequence[Record]) -> dict[Protocol, list[Point]]:
    return {name: trajectory(problem, incumbents(records, name)) for name in PROTOCOLS}


def charged_whole(records: Sequence[Record]) -> list[Record]:
    """Return the records as if every evaluation had been charged its whole budget."""
    spent = itertools.accumulate(record.budget for record in records)
    return [replace(record, spent=total) for record, total in zip(records, spent, strict=True)]


def run_all(runs: Iterable[Run], jobs: int, folder: Path = CACHE) -> dict[Run, Result]:
    """Return the results of all runs; compute and store those that are missing, in one file per problem.

    Runs whose rival fails are reported and left out.
    """
    wanted = list(dict.fromkeys(runs))
    folder.mkdir(parents=True, exist_ok=True)
    results = kept(wanted, folder)
    missing = [run for run in wanted if run not in results]
    print(f"# {len(results)} runs stored in {folder}, {len(missing)} to do", file=sys.stderr, flush=True)
    for done, (run, result) in enumerate(_compute(missing, jobs), 1):
        if isinstance(result, Exception):
            print(f"# left out: {run}: {result}", file=sys.stderr, flush=True)
            continue
        results[run] = result
        with (folder / f"{run.problem}.jsonl").open("a") as file:
            file.write(json.dumps({"key": run.key, "result": result.to_json()}) + "\n")
        line = f"# {done}/{len(missing)} {run.problem} {run.method} seed {run.seed}: {result.seconds:.1f} s"
        print(line, file=sys.stderr, flush=True)
    return {run: results[run] for run in wanted if run in results}


def kept(runs: Iterable[Run], folder: Path = CACHE) -> dict[Run, Result]:
    """Return the stored results among the given runs."""
    wanted = list(dict.fromkeys(runs))
    stored = {problem: _stored(folder / f"{problem}.jsonl") for problem in {run.problem for run in wanted}}
    found = {run: stored[run.problem][run.key] for run in wanted if run.key in stored[run.problem]}
    identities = {_identity(key) for results in stored.values() for key in results}
    stale = sum(_identity(run.key) in identities for run in wanted if run not in found)
    if stale:
        print(f"# {stale} more runs are stored, but other code made them: not used", file=sys.stderr, flush=True)
    return found


def _identity(key: str) -> str:
    """Return the key of a run without the fingerprint of the code."""
    return json.dumps(json.loads(key)[:-1])


def _compute(runs: Sequence[Run], jobs: int) -> Iterable[tuple[Run, Result | Exception]]:
    """Yield each run with its result when it ends; in this process if `jobs` is 1."""
    from benchmarks.rivals.connection import RivalFailed

    if jobs == 1:
        for run in runs:
            try:
                yield run, execute(run)
            except RivalFailed as error:
                yield run, error
        return
    # Child processes read these before they import numpy.
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(execute, run): run for run in runs}
        for future in as_completed(futures):
            failure = future.exception()
            if isinstance(failure, RivalFailed):
                yield futures[future], failure
                continue
            if failure is not None:
                pool.shutdown(cancel_futures=True)
            yield futures[future], future.result()


def _stored(path: Path) -> dict[str, Result]:
    """Return the results stored in a file; truncated lines are ignored."""
    kept: dict[str, Result] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        kept[entry["key"]] = Result.from_json(entry["result"])
    return kept


def require(methods: Iterable[str]) -> None:
    """Raise `Missing` if the environment of a method is missing."""
    from benchmarks.rivals import MissingEnvironment, find, python

    for name in methods:
        if name.partition(":")[0] in OURS or name in ABLATIONS:
            continue
        try:
            python(find(name))
        except MissingEnvironment as error:
            raise Missing(f"{name} cannot run: {error}") from error


@cache
def problem_digest(problem: str) -> str:
    """Return a fingerprint of a problem and the harness."""
    module = sys.modules[type(problem_of(problem)).__module__].__file__
    assert module is not None
    more = getattr(problem_of(problem), "sources", ())  # other files that its losses depend on
    return code_digest((HERE / "problem.py", HERE / "harness.py", Path(module), *more))


@cache
def decisive(method: str, problem: str) -> str:
    """Return a fingerprint of what decides a run: the harness, the problem, and our code or the rival's version."""
    common = problem_digest(problem)
    base = method.partition(":")[0]
    if base in OURS or base in ABLATIONS:
        files = [HERE / "methods.py", HERE / "better" / "without.py", *deciding_files()]
        if base in ABLATIONS:
            files.append(HERE.parent / (ABLATIONS[base][0].replace(".", "/") + ".py"))
        return f"{common} {code_digest(files)}"
    from benchmarks.rivals import version

    return f"{common} {version(base)}"
