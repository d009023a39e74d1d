"""Syne Tune's ASHA, BOHB and ASHA with conformal quantile regression: all stop trials and never pause one.

Syne Tune knows no conditions, so it sees values for all parameters.
"""

from __future__ import annotations

import datetime
import logging
from typing import Any

import numpy as np
from syne_tune import config_space  # type: ignore[import-not-found]
from syne_tune.backend.trial_status import Trial  # type: ignore[import-not-found]
from syne_tune.optimizer.baselines import ASHA, ASHACQR, BOHB  # type: ignore[import-not-found]
from syne_tune.optimizer.scheduler import SchedulerDecision  # type: ignore[import-not-found]

from benchmarks.rivals.wire import Climber, Config, Parameter, Task, serve

SCHEDULERS = {"synetune-asha": ASHA, "synetune-bohb": BOHB, "synetune-cqr": ASHACQR}


class Scheduler:
    """One of Syne Tune's schedulers as it comes, told what its Tuner would tell it; keys are Syne Tune's trials."""

    def __init__(self, task: Task) -> None:
        np.random.seed(task.seed)  # noqa: NPY002 - the choice of a bracket draws from the global state
        self._eta = task.eta
        self._scheduler = SCHEDULERS[task.method](
            {parameter.name: domain(parameter) for parameter in task.parameters},
            metric="loss",
            time_attr="budget",
            max_t=task.eta ** (len(task.budgets) - 1),
            reduction_factor=task.eta,
            random_seed=task.seed,
        )
        self._started = 0

    def suggest(self) -> tuple[Any, Config] | None:
        suggestion = self._scheduler.suggest()
        if suggestion is None:
            return None
        trial = Trial(self._started, suggestion.config, datetime.datetime.now())
        self._started += 1
        self._scheduler.on_trial_add(trial)
        return trial, trial.config

    def goes_on(self, trial: Any, rung: int, loss: float | None, cost: float) -> bool:  # noqa: ARG002 - a rival's signature
        if loss is None:
            self._scheduler.on_trial_error(trial)
            return False
        decision = self._scheduler.on_trial_result(trial, {"loss": loss, "budget": self._eta**rung})
        if decision == SchedulerDecision.CONTINUE:
            return True
        self._scheduler.on_trial_remove(trial)
        return False


def domain(parameter: Parameter) -> Any:
    """One parameter in Syne Tune's terms."""
    if parameter.kind == "categorical":
        return config_space.choice(list(parameter.choices))
    if parameter.kind == "int":
        whole = config_space.lograndint if parameter.log else config_space.randint
        return whole(int(parameter.low), int(parameter.high))
    real = config_space.loguniform if parameter.log else config_space.uniform
    return real(parameter.low, parameter.high)


if __name__ == "__main__":
    logging.getLogger("syne_tune").setLevel(logging.ERROR)
    serve(lambda task: Climber(task, Scheduler(task)))
