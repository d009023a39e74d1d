"""HpBandSter's BOHB and HyperBand, step by step.

Optimizers, brackets and config generators are HpBandSter's own. Only its Dispatcher is replaced, which would start a
Pyro server: `ask` is one turn of the loop in `Master.run` with brackets without end, `tell` is its `job_callback`. The
rungs are those of the task: HpBandSter's own formula, floor(log()), would lose the lowest of 1 … 243.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
from hpbandster.core import master  # type: ignore[import-not-found]
from hpbandster.core.dispatcher import Job  # type: ignore[import-not-found]
from hpbandster.optimizers import BOHB, HyperBand  # type: ignore[import-not-found]

from benchmarks.rivals.space import configspace
from benchmarks.rivals.wire import Run, Task, serve

OPTIMIZERS = {"hpbandster": BOHB, "hpbandster-hyperband": HyperBand}


class NoDispatcher:
    """What Master starts instead of a server: nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def run(self) -> None: ...


class Stepped:
    """A Master without end, one decision at a time; keys are HpBandSter's ids of configurations."""

    def __init__(self, task: Task) -> None:
        np.random.seed(task.seed)  # noqa: NPY002 - HpBandSter draws from the global state
        master.Dispatcher = NoDispatcher
        rungs = len(task.budgets)
        self._master = OPTIMIZERS[task.method](
            configspace=configspace(task), eta=task.eta, min_budget=0.5, max_budget=1, run_id="rival"
        )
        self._master.max_SH_iter = rungs
        self._master.budgets = np.array(task.budgets, dtype=float)
        self._rungs = {float(budget): rung for rung, budget in enumerate(task.budgets)}

    def ask(self) -> Run:
        brackets = self._master.iterations
        while True:
            for index in self._master.active_iterations():
                found = brackets[index].get_next_run()
                if found is not None:
                    return self._run(*found)
            brackets.append(self._master.get_next_iteration(len(brackets), {"result_logger": None}))

    def _run(self, key: tuple[int, int, int], config: dict[str, Any], budget: float) -> Run:
        rung = self._rungs[float(budget)]
        first = len(self._rungs) - len(self._master.iterations[key[0]].budgets) + key[1]
        return Run(key, config, rung, rung - 1 if rung > first else None)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        bracket = self._master.iterations[run.key[0]]
        job = Job(run.key, config=run.config, budget=bracket.data[run.key].budget)
        job.result = None if loss is None else {"loss": loss, "info": {"cost": cost}}
        bracket.register_result(job)
        self._master.config_generator.new_result(job)


if __name__ == "__main__":
    logging.getLogger("hpbandster").setLevel(logging.CRITICAL)  # it prints all data at each infinite density
    warnings.simplefilter("ignore")  # division by zero in its categorical kernel
    serve(Stepped)
