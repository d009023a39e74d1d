"""Tests that every executor must pass, on the real engine, as pytest classes to subclass.

class TestMyEngine(ExecutorContract):
    @pytest.fixture
    def place(self):
        return MyPlace()

Their objective misbehaves as its configuration asks. The functions that wait for it always have a deadline.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil  # type: ignore[import-untyped]
import pytest

from bohb.core.trial import Lost, Origin, Outcome, Status, Trial
from bohb.errors import BohbError
from bohb.executors.base import Done, Executor, Objective
from bohb.executors.engines.engine import INLINE_BYTES, EngineBroken

PATIENCE = 120.0  # seconds after which a test counts as hanging
T = TypeVar("T")

# what an objective does, and the status of its trial
ENDS = {"fine": Status.OK, "nothing": Status.BAD_RESULT, "again": Status.RETRY}
ENDS |= dict.fromkeys(("raise", "unpicklable", "base", "exit", "segfault"), Status.CRASHED)


def make_trial(number: int, checkpoint_dir: Path | None = None, attempt: int = 1, **config: Any) -> Trial:
    """Return a trial on budget 1 with this configuration."""
    return Trial(number, config, 1.0, number, 0, 0, 7, Origin.RANDOM, attempt=attempt, checkpoint_dir=checkpoint_dir)


def acting(ballast: bytes = b"") -> Objective:
    """Return an objective that is pickled by value, so that workers need not import the tests.

    ballast: bytes that make it large.
    """

    class TwoArguments(Exception):
        """Cannot be unpickled: its arguments are not those of its constructor."""

        def __init__(self, code: int, place: str) -> None:
            super().__init__(f"code {code} at {place}")

    def note(path: str) -> None:
        import os

        with open(f"{path}.part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{path}.part", path)

    def act(trial: Trial) -> Any:
        import ctypes
        import sys
        import time

        match trial.config["act"]:
            case "raise":
                print("some words")  # noqa: T201 - the output of a trial is kept
                raise ValueError("this is bad")
            case "unpicklable":
                raise TwoArguments(3, "home")
            case "base":
                raise BaseException("not even an Exception")
            case "again":
                from bohb.errors import Retry

                raise Retry("no GPU here")
            case "exit":
                sys.exit(3)
            case "segfault":
                ctypes.string_at(0)
            case "nothing":
                return None
            case "hang":
                note(trial.config["note"])
                time.sleep(600)
            case "sleep":
                time.sleep(trial.config["seconds"])
            case "grow":
                kept = []
                while True:
                    kept.append(bytearray(b"x" * 2**24))
                    time.sleep(0.01)
            case "ballast":
                return len(ballast)
        return trial.number

    return act


def collect(executor: Executor, count: int) -> dict[int, Outcome | Lost]:
    """Return the results of the next `count` trials, by number."""
    done: list[Done] = []
    deadline = time.monotonic() + PATIENCE
    while len(done) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(done)} of {count} trials ended within {PATIENCE} s"
        done.extend(executor.wait(left))
    assert len({one.trial.number for one in done}) == len(done) == count
    return {one.trial.number: one.result for one in done}


def run_all(executor: Executor, trials: Iterable[Trial]) -> dict[int, Outcome | Lost]:
    """Submit all trials at once, regardless of the number of slots, and return their results by number."""
    submitted = list(trials)
    for trial in submitted:
        executor.submit(trial)
    return collect(executor, len(submitted))


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """Return the first truthy value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)
    return value


def noted(path: Path) -> int:
    """Return the process id of a trial, once it has begun."""
    until(path.exists, f"a trial writes {path.name}")
    return int(path.read_text())


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie counts as dead."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def guard_of(pid: int) -> int:
    """Return the guard of a trial's process."""
    return int(psutil.Process(pid).ppid())


def host_of(pid: int) -> int:
    """Return the engine's worker, which has started the guard of a trial's process."""
    return guard_of(guard_of(pid))


class Place(Protocol):
    """An engine with two workers, and a way to make executors on it.

    replaces: whether workers that die are replaced; if not, the engine is broken then.
    """

    replaces: bool

    def executor(self, objective: Objective, **options: Any) -> Executor:
        """Return a new executor; the options are fields of `TrialOptions`."""

    def host_of(self, pid: int) -> int:
        """Return the process to kill so that this trial loses its worker: `host_of` or `guard_of`."""

    def works(self) -> bool:
        """Whether the engine can still be used."""


Make = Callable[..., Executor]


class ExecutorContract:
    """The behaviour of every `Executor`. Subclasses provide a fixture `place`."""

    @pytest.fixture
    def make(self, place: Place) -> Any:
        """Return a function that makes executors, which are killed after the test."""
        made: list[Executor] = []

        def make(objective: Objective | None = None, **options: Any) -> Executor:
            made.append(place.executor(objective or acting(), **options))
            return made[-1]

        yield make
        for executor in made:
            executor.shutdown(kill=True)

    def test_whatever_an_objective_does_is_an_outcome_of_its_own_trial(self, make: Make) -> None:
        executor = make()
        acts = [*ENDS, "fine"]  # more than there are workers: a failure must not harm later trials
        found = run_all(executor, [make_trial(n, act=act) for n, act in reversed(list(enumerate(acts)))])
        for number, act in enumerate(acts):
            outcome = found[number]
            assert isinstance(outcome, Outcome), outcome
            assert outcome.status is ENDS[act], outcome
            assert outcome.loss == (number if act == "fine" else None)
            assert outcome.started is not None
            assert outcome.worker
        errors = {act: getattr(found[number], "error", "") for number, act in enumerate(acts)}
        assert errors["raise"] == "ValueError: this is bad"
        assert errors["unpicklable"] == "TwoArguments: code 3 at home"
        assert "SIGSEGV" in errors["segfault"]

    def test_limits_of_time_and_memory_hold_and_output_is_kept(self, make: Make, tmp_path: Path) -> None:
        # two executors: on a busy machine, growing may take longer than the time limit
        note = tmp_path / "note"
        for seconds in (1.0, 30.0):  # on a busy machine the first limit may pass before the trial has begun
            hung = run_all(make(trial_seconds=seconds), [make_trial(0, act="hang", note=str(note))])
            if note.exists():
                break
        executor = make(trial_memory=300 * 2**20, log_dir=tmp_path / "logs")
        found = hung | run_all(executor, [make_trial(1, act="grow"), make_trial(2, act="raise")])
        statuses = {number: getattr(outcome, "status", outcome) for number, outcome in found.items()}
        assert statuses == {0: Status.TIMEOUT, 1: Status.MEMORY, 2: Status.CRASHED}
        assert not alive(noted(note))
        assert getattr(found[2], "output", None) == "some words\n"
        assert (tmp_path / "logs" / "2.log").read_text() == "some words\n"

    def test_an_objective_of_any_size_reaches_the_workers(self, make: Make) -> None:
        size = 4 * INLINE_BYTES
        found = run_all(make(acting(os.urandom(size))), [make_trial(n, act="ballast") for n in range(3)])
        assert [getattr(outcome, "loss", outcome) for outcome in found.values()] == [size] * 3

    def test_a_trial_whose_process_is_killed_is_lost_and_its_neighbour_is_not(self, make: Make, tmp_path: Path) -> None:
        executor = make()
        executor.submit(make_trial(0, act="hang", note=str(tmp_path / "note")))
        executor.submit(make_trial(1, act="fine"))
        os.kill(noted(tmp_path / "note"), signal.SIGKILL)
        found = collect(executor, 2)
        assert isinstance(found[0], Lost)
        assert "SIGKILL" in found[0].reason
        assert getattr(found[1], "loss", None) == 1

    def test_kill_stops_running_and_waiting_trials_and_leaves_nothing(
        self, make: Make, place: Place, tmp_path: Path
    ) -> None:
        executor = make()
        for number in range(4):  # two run, two wait
            executor.submit(make_trial(number, act="hang", note=str(tmp_path / str(number))))
        until(lambda: len([p for p in tmp_path.iterdir() if p.suffix == ""]) >= 2, "two trials begin")
        began = [noted(path) for path in tmp_path.iterdir() if path.suffix == ""]
        executor.shutdown(kill=True)
        ended = time.time()
        assert executor.wait(0) == []
        until(lambda: not any(map(alive, began)), "the processes of the trials end")
        with pytest.raises(BohbError, match="shut down"):
            executor.submit(make_trial(9, act="fine"))
        assert place.works()
        assert not [p for p in tmp_path.iterdir() if p.stat().st_mtime > ended], "a trial began after the shutdown"

    def test_shutdown_lets_trials_finish_and_their_results_be_fetched(self, make: Make, place: Place) -> None:
        executor = make()
        for number in range(3):
            executor.submit(make_trial(number, act="sleep", seconds=0.2))
        executor.shutdown(kill=False)
        executor.shutdown(kill=False)
        assert sorted(done.trial.number for done in executor.wait(0)) == [0, 1, 2]
        assert place.works()

    def test_a_trial_whose_worker_dies_is_lost_and_the_rest_is_kept(
        self, make: Make, place: Place, tmp_path: Path
    ) -> None:
        executor = make()
        executor.submit(make_trial(0, act="hang", note=str(tmp_path / "note")))
        running = noted(tmp_path / "note")
        (tmp_path / "note").unlink()
        os.kill(place.host_of(running), signal.SIGKILL)
        [lost] = collect(executor, 1).values()
        assert isinstance(lost, Lost), lost
        until(lambda: not alive(running), "the trial ends with its worker")
        executor.submit(make_trial(1, act="fine"))
        if place.replaces:
            assert getattr(collect(executor, 1)[1], "loss", None) == 1
            return
        with pytest.raises(EngineBroken, match="takes no more tasks"):
            executor.wait(None)


class ElasticPlace(Place, Protocol):
    """An engine whose workers come and go."""

    def add(self) -> None:
        """Start one more worker."""

    def remove(self) -> None:
        """Stop one worker in an orderly way."""


class ElasticContract(ExecutorContract):
    """The additional behaviour of an executor on an engine whose number of workers changes."""

    def test_slots_follow_the_workers_and_trials_go_on(self, make: Make, place: ElasticPlace) -> None:
        executor = make()
        before = executor.slots
        place.add()
        until(lambda: executor.slots == before + 1, "the new worker is noticed")
        for number in range(6):
            executor.submit(make_trial(number, act="sleep", seconds=0.3))
        place.remove()
        until(lambda: executor.slots == before, "the removal is noticed")
        found = collect(executor, 6)
        again = [make_trial(n, act="fine") for n, result in found.items() if isinstance(result, Lost)]
        assert all(isinstance(result, Outcome) for result in run_all(executor, again).values())
