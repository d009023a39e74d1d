"""Pools with the interface of concurrent.futures: of threads, of processes, loky's, mpi4py's."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import BrokenExecutor, Executor
from typing import Any

from bohb.errors import InvalidArgument
from bohb.executors.engines import task
from bohb.executors.engines.executor import Answers, EngineBroken, Trouble
from bohb.executors.engines.order import Order


class PoolEngine:
    """Trials as tasks of a pool, which stays the user's: it is never shut down here."""

    warm = True

    def __init__(self, pool: Executor) -> None:
        self._pool = pool
        self._broken: str | None = None
        # MPI starts its workers where its own launcher was told to
        self.local = not type(pool).__module__.startswith("mpi4py")

    @property
    def slots(self) -> int:
        """How many workers the pool has."""
        count = getattr(self._pool, "num_workers", None) or getattr(self._pool, "_max_workers", None)
        if not isinstance(count, int):
            raise InvalidArgument(f"{self._pool!r} does not say how many tasks it runs at once; give workers=")
        return count

    @property
    def trouble(self) -> Trouble | None:
        """A pool that has lost a process stays broken."""
        return None if self._broken is None else Trouble(self._broken, final=True)

    def submit(self, order: Order, body: dict[str, Any], payload: bytes | None) -> Answers:
        """Queue a trial."""
        try:
            return self._pool.submit(task.run, order, body, payload)
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            name = type(self._pool).__name__
            self._broken = (
                f"the {name} given as executor= takes no more tasks ({type(error).__name__}: {error}); "
                "make a new one, or use workers= or Dask, which replace workers that die"
            )
            raise EngineBroken(self._broken) from error

    def cancel(self, futures: Collection[Answers]) -> None:
        """Take back what has not begun; what runs sees that the lifeline has gone."""
        for future in list(futures):
            future.cancel()

    def close(self, session: str) -> None:
        """For threads of this process; other processes notice by themselves."""
        task.close(session)
