"""DEHB by ask and tell. Only its first round of brackets promotes; later ones evolve each rung from the one below."""

from __future__ import annotations

import math

from dehb import DEHB  # type: ignore[import-not-found]

from benchmarks.rivals.space import configspace, plain
from benchmarks.rivals.wire import Run, Task, serve


class Evolution:
    """DEHB as it comes, without Dask: one process that asks serves any number of workers. Keys are its jobs."""

    def __init__(self, task: Task) -> None:
        if len(task.budgets) < 2:
            raise ValueError(f"budgets={task.budgets!r}: DEHB needs at least two")
        # The smallest budget is a little lower, as floor(log()) would lose the lowest of six rungs (1 … 243).
        self._dehb = DEHB(
            cs=configspace(task),
            min_fidelity=1 - 1e-6,
            max_fidelity=task.eta ** (len(task.budgets) - 1),
            eta=task.eta,
            n_workers=1,
            seed=task.seed,
            save_freq="end",
            log_level="ERROR",
        )
        self._task = task
        self._reached: dict[int, list[int]] = {}

    def ask(self) -> Run:
        job = self._dehb.ask()
        rung = self._task.rung(float(job["fidelity"]))
        below = [reached for reached in self._reached.get(int(job["config_id"]), []) if reached < rung]
        return Run(job, plain(job["config"]), rung, max(below, default=None))

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        self._reached.setdefault(int(run.key["config_id"]), []).append(run.rung)
        self._dehb.tell(run.key, {"fitness": math.inf if loss is None else loss, "cost": cost})


if __name__ == "__main__":
    serve(Evolution)
