"""Run trials and wait for their results, always with a deadline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bohb.core.trial import Outcome
from bohb.executors.base import Done, Executor
from bohb.testing.executors import PATIENCE, alive, make_trial, run_all, until

__all__ = ["alive", "collect", "make_trial", "noted", "run_all", "run_one", "still_works", "until"]


def collect(executor: Executor, count: int) -> list[Done]:
    """Return the next `count` trials that end."""
    done: list[Done] = []
    deadline = time.monotonic() + PATIENCE
    while len(done) < count:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(done)} of {count} trials ended within {PATIENCE} s"
        done.extend(executor.wait(left))
    return done


def run_one(executor: Executor, number: int = 0, **config: Any) -> Outcome:
    """Return the outcome of one trial that must not be lost."""
    result = run_all(executor, [make_trial(number, **config)])[number]
    assert isinstance(result, Outcome), result
    return result


def noted(path: Path) -> list[int]:
    """Return the process ids that a trial has written."""
    until(path.exists, "the trial starts")
    return [int(pid) for pid in path.read_text().split()]


def still_works(executor: Executor) -> bool:
    """Whether all of four harmless trials succeed."""
    results = run_all(executor, [make_trial(n, act="fine") for n in range(4)])
    return all(isinstance(result, Outcome) and result.ok for result in results.values())
