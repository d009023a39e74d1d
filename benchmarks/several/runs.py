"""Perform runs and store them by everything that decides them, so that the study can be resumed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from threadpoolctl import threadpool_limits

from benchmarks.fingerprint import code_digest, deciding_files
from benchmarks.rivals import version
from benchmarks.rivals.connection import RivalFailed
from benchmarks.several.methods import OURS, connect
from benchmarks.several.problems import problem_of

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "benchmarks" / "several"


class Row(NamedTuple):
    """One evaluation: the budget spent so far and its own, both in full evaluations, and its values.

    at_top: the second value of the configuration on the largest budget, whether it was evaluated there or not.
    """

    spent: float
    budget: float
    error: float
    second: float
    at_top: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run: everything its result depends on, except the code."""

    problem: str
    method: str
    seed: int
    full_evaluations: float

    @property
    def key(self) -> str:
        """The key of its stored result."""
        return json.dumps([self.problem, self.method, self.seed, self.full_evaluations, decisive(self.method)])


def execute(run: Run) -> list[Row]:
    """Perform one run with one worker; a promoted configuration is charged only for the added budget."""
    problem = problem_of(run.problem)
    method = connect(run.method, problem, run.seed, run.full_evaluations)
    top, spent, rows = problem.budgets[-1], 0.0, list[Row]()
    try:
        with threadpool_limits(1, user_api="blas"):
            while (asked := method.ask()) is not None:
                spent += (asked.budget - (asked.previous or 0.0)) / top
                if spent > run.full_evaluations * (1 + 1e-9):
                    break
                values = problem.evaluate(asked.config, asked.budget)
                method.tell(asked.number, values)
                at_top = problem.evaluate(asked.config, top).second
                rows.append(Row(spent, asked.budget / top, values.error, values.second, at_top))
    finally:
        method.close()
    return rows


def run_all(runs: Iterable[Run], jobs: int) -> dict[Run, list[Row]]:
    """Return the results of all runs; compute and store those that are missing. Rivals that fail are left out."""
    wanted = list(runs)
    CACHE.mkdir(parents=True, exist_ok=True)
    stored = _stored()
    results = {run: stored[run.key] for run in wanted if run.key in stored}
    missing = [run for run in wanted if run not in results]
    print(f"# {len(results)} runs stored, {len(missing)} to do", file=sys.stderr, flush=True)
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(execute, run): run for run in missing}
        for done, future in enumerate(as_completed(futures), 1):
            run, failure = futures[future], future.exception()
            print(f"# {done}/{len(missing)} {run} {'failed' if failure else ''}", file=sys.stderr, flush=True)
            if isinstance(failure, RivalFailed):
                print(f"# left out: {failure}", file=sys.stderr, flush=True)
                continue
            results[run] = future.result()
            with (CACHE / "runs.jsonl").open("a") as file:
                file.write(json.dumps({"key": run.key, "rows": results[run]}) + "\n")
    return results


def last_stored(runs: Iterable[Run]) -> tuple[dict[Run, list[Row]], dict[str, str]]:
    """Return the stored results of runs, and what decided them by method; nothing is run.

    Of each method only the runs count that the same code and version decided as its last stored run.
    """
    known: dict[tuple[str, str], list[Row]] = {}
    decided: dict[str, str] = {}
    for key, rows in _stored().items():
        *what, decisive = json.loads(key)
        decided[what[1]] = decisive
        known[json.dumps(what), decisive] = rows
    found: dict[Run, list[Row]] = {}
    for run in runs:
        what = [run.problem, run.method, run.seed, run.full_evaluations]
        place = json.dumps(what), decided.get(run.method, "")
        if place in known:
            found[run] = known[place]
    return found, decided


def _stored() -> dict[str, list[Row]]:
    path = CACHE / "runs.jsonl"
    entries = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {entry["key"]: [Row(*row) for row in entry["rows"]] for entry in entries}


@cache
def decisive(method: str) -> str:
    """Return a fingerprint of what decides a run."""
    common = code_digest([HERE / "problems.py", HERE / "methods.py", HERE.parent / "problems" / "yahpo.py"])
    return f"{common} {code_digest(deciding_files()) if method in OURS else version(method)}"
