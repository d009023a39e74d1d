"""Pools with the interface of concurrent.futures: its thread and process pools, loky's, mpi4py's."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import BrokenExecutor, Executor
from typing import Any

from bohb.errors import InvalidArgument
from bohb.executors.engines import task
from bohb.executors.engines.executor import AnswerFuture, EngineBroken
from bohb.executors.resources import Resources


class PoolEngine:
    """Trials as tasks of a pool.

    pool: belongs to the user and is never shut down here.
    resources: only cores and memory, which limit the trial's process.
    """

    warm = ready = True
    shortage = None

    def __init__(self, pool: Executor, resources: Resources) -> None:
        resources.allow_only(f"a {type(pool).__name__}", "cpu", "memory")
        self._pool = pool
        # mpiexec may start its workers on other machines
        self.local = not type(pool).__module__.startswith("mpi4py")

    def slots(self, avoid: Collection[str]) -> int:  # noqa: ARG002 - all its workers are on one machine
        """Return the number of workers of the pool."""
        count = getattr(self._pool, "num_workers", None) or getattr(self._pool, "_max_workers", None)
        if not isinstance(count, int):
            raise InvalidArgument(f"{self._pool!r} does not know how many tasks it runs at once; give workers=")
        return count

    def submit(
        self,
        session: task.Session,
        body: dict[str, Any],
        payload: bytes | None,
        avoid: Collection[str],  # noqa: ARG002 - a pool cannot choose
    ) -> AnswerFuture:
        """Submit a trial to the pool."""
        try:
            return self._pool.submit(task.run, session, body, payload)
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            name = type(self._pool).__name__
            raise EngineBroken(
                f"the {name} given as executor= takes no more tasks ({type(error).__name__}: {error}); "
                "make a new one, or use workers= or Dask, which replace workers that die"
            ) from error

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Cancel tasks that have not begun; running ones notice that the lifeline is gone."""
        for future in list(futures):
            future.cancel()

    def close(self, session_id: str) -> None:
        """End the children of threads of this process; other processes notice the end of the session."""
        task.close(session_id)
