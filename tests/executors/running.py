"""Trials to run, and ways to wait for what becomes of them: always with a deadline, never by luck."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from bohb.core.trial import Origin, Outcome, Trial
from bohb.executors.base import Done, Executor, Lost

PATIENCE = 30.0  # seconds after which something hangs


def make_trial(number: int, attempt: int = 1, checkpoint_dir: Path | None = None, **config: Any) -> Trial:
    return Trial(number, config, 1.0, number, 0, 0, 7, Origin.RANDOM, attempt=attempt, checkpoint_dir=checkpoint_dir)


def collect(executor: Executor, count: int, seconds: float = PATIENCE) -> list[Done]:
    """The next `count` trials that come back."""
    done: list[Done] = []
    deadline = time.monotonic() + seconds
    while len(done) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(done)} of {count} trials came back within {seconds} s"
        done.extend(executor.wait(left))
    return done


def run_all(executor: Executor, trials: Iterable[Trial], seconds: float = PATIENCE) -> dict[int, Outcome | Lost]:
    """Submit them all; what became of each, by number."""
    submitted = list(trials)
    for trial in submitted:
        executor.submit(trial)
    done = collect(executor, len(submitted), seconds)
    assert sorted(d.trial.number for d in done) == sorted(t.number for t in submitted)
    return {d.trial.number: d.result for d in done}


def run_one(executor: Executor, seconds: float = PATIENCE, number: int = 0, **config: Any) -> Outcome:
    """The outcome of one trial that must not be lost."""
    result = run_all(executor, [make_trial(number, **config)], seconds)[number]
    assert isinstance(result, Outcome), result
    return result


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """The first truthy value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] != b"Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def noted(path: Path) -> list[int]:
    """The processes that a trial has written down."""
    until(path.exists, "the trial starts")
    return [int(pid) for pid in path.read_text().split()]


def still_works(executor: Executor) -> bool:
    """Whether all of four harmless trials succeed."""
    results = run_all(executor, [make_trial(n, act="fine") for n in range(4)])
    return all(isinstance(result, Outcome) and result.ok for result in results.values())
