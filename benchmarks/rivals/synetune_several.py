"""Syne Tune's MO-ASHA (Schmucker et al. 2021): several objectives, trials are stopped on rungs."""

from __future__ import annotations

import datetime
import logging
from collections import deque
from typing import Any

import numpy as np
from syne_tune.backend.trial_status import Trial  # type: ignore[import-not-found]
from syne_tune.optimizer.scheduler import SchedulerDecision  # type: ignore[import-not-found]
from syne_tune.optimizer.schedulers.multiobjective.moasha import MOASHA  # type: ignore[import-not-found]

from benchmarks.rivals.synetune import domain
from benchmarks.rivals.wire import Run, Task, serve


class Moasha:
    """The scheduler as it comes, told what its Tuner would tell it; keys are Syne Tune's trials."""

    def __init__(self, task: Task) -> None:
        np.random.seed(task.seed)  # noqa: NPY002 - some draws use the global state
        self._eta, self._top = task.eta, len(task.budgets) - 1
        self._metrics = [f"loss{i}" for i in range(task.objectives)]
        self._scheduler: Any = MOASHA(
            {parameter.name: domain(parameter) for parameter in task.parameters},
            metrics=self._metrics,
            time_attr="budget",
            max_t=task.eta**self._top,
            reduction_factor=task.eta,
            random_seed=task.seed,
        )
        self._started = 0
        self._going_on: deque[Run] = deque()

    def ask(self) -> Run | None:
        if self._going_on:
            return self._going_on.popleft()
        suggestion = self._scheduler.suggest()
        if suggestion is None:
            return None
        trial = Trial(self._started, suggestion.config, datetime.datetime.now())
        self._started += 1
        self._scheduler.on_trial_add(trial)
        return Run(trial, trial.config, 0)

    def tell_several(self, run: Run, losses: list[float], excesses: list[float], cost: float) -> None:  # noqa: ARG002 - a rival's signature
        result = {**dict(zip(self._metrics, losses)), "budget": self._eta**run.rung}  # noqa: B905 - Python 3.9
        if self._scheduler.on_trial_result(run.key, result) == SchedulerDecision.CONTINUE and run.rung < self._top:
            self._going_on.append(run._replace(rung=run.rung + 1, previous=run.rung))
        else:
            self._scheduler.on_trial_remove(run.key)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        raise NotImplementedError("MO-ASHA needs several objectives")


if __name__ == "__main__":
    logging.getLogger("syne_tune").setLevel(logging.ERROR)
    serve(Moasha)
