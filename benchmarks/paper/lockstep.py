"""Run many studies at once, whose evaluations are computed together.

Every study runs in a process of its own, with one evaluation at a time, exactly as in `harness.simulate`. Its problem
sends each evaluation to the main process, which computes all that are waiting in batches. Finished evaluations are
appended to a file; a later call replays them and goes on.
"""

from __future__ import annotations

import json
import lzma
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol

from benchmarks.harness import simulate
from benchmarks.methods import connect
from benchmarks.problem import Config, Evaluation, Problem
from benchmarks.problems import problem_of

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """One run of one method on one problem."""

    problem: str
    method: str
    seed: int


class Evaluator(Protocol):
    """Computes evaluations together; every study has at most one at a time."""

    def __len__(self) -> int:
        """Return the number of evaluations that have not finished."""
        ...

    def add(self, study: Study, config: Config, budget: float) -> None:
        """Start an evaluation."""
        ...

    def advance(self) -> Mapping[Study, Row]:
        """Work for a moment, and return the rows of finished evaluations; `loss` is None if one failed."""
        ...


class Remote:
    """A problem whose evaluations are computed by another process, unless they are stored."""

    def __init__(self, problem: Problem, connection: Connection, stored: Sequence[Row]) -> None:
        self.name, self.parameters, self.budgets = problem.name, problem.parameters, problem.budgets
        self.regret = problem.regret
        self._connection, self._stored = connection, iter(stored)

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - batches share a seed
        row = next(self._stored, None)
        if row is None:
            self._connection.send((dict(config), budget))
            row = self._connection.recv()
        elif (row["config"], row["budget"]) != (dict(config), budget):
            raise ValueError(f"{row} is stored, but now the study asks for {config} on {budget}: start a new file")
        return Evaluation(row["loss"], budget)


def run(
    studies: Sequence[Study],
    full_evaluations: float,
    prepare: Callable[[], Evaluator],
    path: Path,
    seconds: float,
) -> list[Study]:
    """Run studies until all have ended or the time is up; return those that have not ended.

    full_evaluations: the length of a study.
    prepare: returns the evaluator; it is called after the processes were started, because a GPU cannot be forked.
    path: the file of finished evaluations.
    seconds: how long to work.
    """
    deadline = time.monotonic() + seconds
    stored = read(path)
    crew = _Crew()
    try:
        for study in studies:
            if not any("cpu_seconds" in row for row in stored.get(study, ())):
                crew.start(study, full_evaluations, stored.get(study, ()))
        with path.open("a") as file:
            if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
                file.write("\n")  # the last line was truncated, and must not swallow the next one
            evaluator = prepare()
            asked: dict[Study, tuple[Config, float]] = {}
            while crew.connections and time.monotonic() < deadline:
                for study, request in crew.requests(0.0 if len(evaluator) else 1.0):
                    if isinstance(request, float):
                        _write(file, study, {"cpu_seconds": request})
                    else:
                        asked[study] = request
                        evaluator.add(study, *request)
                for study, row in evaluator.advance().items():
                    config, budget = asked[study]
                    _write(file, study, {"config": config, "budget": budget, **row})
                    crew.connections[study].send(row)
        return list(crew.connections)
    finally:
        crew.end()


def read(path: Path) -> dict[Study, list[Row]]:
    """Return the rows of every study in a file, in their order; a truncated line is ignored.

    path: lines of JSON, compressed if its name ends with .xz; an absent file has no rows.
    """
    rows: dict[Study, list[Row]] = {}
    for line in text_of(path).splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        rows.setdefault(Study(**row.pop("study")), []).append(row)
    return rows


def text_of(path: Path) -> str:
    """Return the contents of a file, which is compressed if its name ends with .xz."""
    content = path.read_bytes()
    return (lzma.decompress(content) if path.suffix == ".xz" else content).decode()


def compress(path: Path, to: Path, without: str) -> None:
    """Write a compressed copy of a file of evaluations, sorted by study.

    without: the key of values that neither a report nor a continued run reads.
    """
    rows = read(path)
    lines = [
        json.dumps({"study": asdict(study), **{key: value for key, value in row.items() if key != without}}) + "\n"
        for study in sorted(rows, key=astuple)
        for row in rows[study]
    ]
    to.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def _write(file: Any, study: Study, row: Row) -> None:
    file.write(json.dumps({"study": asdict(study), **row}) + "\n")
    file.flush()


class _Crew:
    """The processes of all studies that have not ended."""

    def __init__(self) -> None:
        self.connections: dict[Study, Connection] = {}
        self._processes: list[Any] = []
        self._context = get_context("fork")

    def start(self, study: Study, full_evaluations: float, stored: Sequence[Row]) -> None:
        ours, theirs = self._context.Pipe()
        inherited = [*self.connections.values(), ours]
        arguments = (study, full_evaluations, stored, theirs, inherited)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self.connections[study] = ours
        self._processes.append(process)

    def requests(self, seconds: float) -> Iterable[tuple[Study, Any]]:
        """Yield what studies have sent; wait for the first message for at most this time."""
        ready = set(wait(list(self.connections.values()), seconds))
        for study, connection in list(self.connections.items()):
            if connection not in ready:
                continue
            try:
                request = connection.recv()
            except EOFError:
                print(f"# {study} has failed", file=sys.stderr, flush=True)
                del self.connections[study]
                continue
            if isinstance(request, float):
                del self.connections[study]
            yield study, request

    def end(self) -> None:
        """Close all connections, at which the studies end, and make sure that they do."""
        for connection in self.connections.values():
            connection.close()
        for process in self._processes:
            process.join(5)
            if process.exitcode is None:
                process.kill()
                process.join()


def _work(
    study: Study, full_evaluations: float, stored: Sequence[Row], connection: Connection, inherited: list[Connection]
) -> None:
    """Run one study in its process; send the CPU seconds of the method at its end."""
    for other in inherited:  # otherwise this process would keep the connections of other studies open
        other.close()
    problem = problem_of(study.problem)
    remote = Remote(problem, connection, [row for row in stored if "budget" in row])
    method = connect(study.method, problem, seed=study.seed, full_evaluations=full_evaluations)
    try:
        simulate(method, remote, seed=study.seed, full_evaluations=full_evaluations)
    except (EOFError, ConnectionError):  # the time is up
        return
    finally:
        method.close()
    connection.send(sum(os.times()[:4]))
