"""Engines with two workers for the executor contract."""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from typing import Any

from bohb.executors.base import Executor, Objective
from bohb.executors.options import TrialOptions
from bohb.running.run_options import choose_executor
from bohb.testing.executors import guard_of, host_of


def on(where: Any, objective: Objective, workers: int | None = None, **options: Any) -> Executor:
    """Return an executor on an engine, as `minimize` would make it."""
    return choose_executor(objective, where, workers, TrialOptions(**options))


class LocalPlace:
    """Two worker processes without an engine."""

    replaces = True

    def executor(self, objective: Objective, **options: Any) -> Executor:
        return on(None, objective, 2, **options)

    def host_of(self, pid: int) -> int:
        return guard_of(pid)  # the parent of the guard is the runner itself

    def works(self) -> bool:
        return True


class PoolPlace:
    """A pool of concurrent.futures, which is replaced after a test has broken it."""

    def __init__(self, make: Callable[[], futures.Executor], replaces: bool = False) -> None:
        self.replaces = replaces
        self._make = make
        self.pool = make()

    def executor(self, objective: Objective, **options: Any) -> Executor:
        if not self.works():
            self.close()
            self.pool = self._make()
        return on(self.pool, objective, **options)

    def host_of(self, pid: int) -> int:
        return guard_of(pid) if isinstance(self.pool, futures.ThreadPoolExecutor) else host_of(pid)

    def works(self) -> bool:
        try:
            return self.pool.submit(abs, -3).result(timeout=120) == 3
        except futures.BrokenExecutor:
            return False

    def close(self) -> None:
        self.pool.shutdown()
