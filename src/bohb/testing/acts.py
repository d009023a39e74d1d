"""An objective that misbehaves as its configuration asks, and functions that wait for it, always with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import psutil  # type: ignore[import-untyped]

from bohb.core.trial import Origin, Outcome, Trial
from bohb.executors.base import Done, Executor, Lost, Objective

PATIENCE = 60.0  # seconds after which a test counts as hanging
T = TypeVar("T")


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


def collect(executor: Executor, count: int, seconds: float = PATIENCE) -> dict[int, Outcome | Lost]:
    """Return the results of the next `count` trials, by number."""
    done: list[Done] = []
    deadline = time.monotonic() + seconds
    while len(done) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(done)} of {count} trials ended within {seconds} s"
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
