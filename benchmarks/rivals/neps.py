"""NePS by ask and tell: "neps-hyperband", its own choice where there are budgets but no priors, and "neps-priorband".

Without priors, PriorBand draws uniformly or near the incumbent. Its Gaussian process is left out, see README.md. Spaces
with conditions would need another of its optimizers; here it sees values for all parameters.
"""

from __future__ import annotations

import random
from typing import Any

import neps  # type: ignore[import-not-found]
import numpy as np
import torch
from neps.optimizers import algorithms  # type: ignore[import-not-found]

from benchmarks.rivals.wire import Parameter, Run, Task, serve

BUDGET = "neps_budget"
OPTIMIZERS = {"neps-hyperband": algorithms.hyperband, "neps-priorband": algorithms.priorband}


class Brackets:
    """One of NePS's bracket optimizers; keys are its trials."""

    def __init__(self, task: Task) -> None:
        random.seed(task.seed)
        np.random.seed(task.seed)  # noqa: NPY002 - NePS draws from the global states
        torch.manual_seed(task.seed)
        torch.set_num_threads(1)
        self._task = task
        attributes = {parameter.name: domain(parameter) for parameter in task.parameters}
        # The smallest budget is a little lower, as floor(log()) would lose the lowest of six rungs (1 … 243).
        attributes[BUDGET] = neps.FloatFidelity(1 - 1e-6, float(task.eta ** (len(task.budgets) - 1)))
        space = type("Space", (neps.PipelineSpace,), attributes)()
        self._neps = neps.AskAndTell(OPTIMIZERS[task.method](space, eta=task.eta))

    def ask(self) -> Run:
        trial = self._neps.ask()
        config = dict(trial.config)
        rung = self._task.rung(float(config.pop(BUDGET)))
        return Run(trial, config, rung, None if trial.metadata.previous_trial_id is None else rung - 1)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        failed = RuntimeError("the evaluation failed")
        self._neps.tell(run.key, failed if loss is None else {"objective_to_minimize": loss, "cost": cost})


def domain(parameter: Parameter) -> Any:
    """One parameter in NePS's terms."""
    if parameter.kind == "categorical":
        return neps.Categorical(parameter.choices)
    if parameter.kind == "int":
        return neps.Integer(int(parameter.low), int(parameter.high), log=parameter.log)
    return neps.Float(float(parameter.low), float(parameter.high), log=parameter.log)


if __name__ == "__main__":
    serve(Brackets)
