"""Optuna: TPE and a Gaussian process on the largest budget, and TPE with the Hyperband pruner.

Conditions are Optuna's own way, define by run: only active parameters are suggested.
"""

from __future__ import annotations

from typing import Any

import optuna
from optuna.trial import Trial, TrialState

from benchmarks.rivals.wire import BlackBox, Climber, Config, Parameter, Rival, Task, is_active, serve


class Study:
    """A study in memory with a sampler as it comes; keys are Optuna's trials."""

    def __init__(self, task: Task) -> None:
        top = len(task.budgets) - 1
        pruner = optuna.pruners.HyperbandPruner(1, task.eta**top, task.eta) if top else None
        kind = optuna.samplers.GPSampler if task.method == "optuna-gp" else optuna.samplers.TPESampler
        # The pruner derives a trial's bracket from the study's name: a fixed one makes runs repeatable.
        self._study = optuna.create_study(study_name=f"rival-{task.seed}", sampler=kind(seed=task.seed), pruner=pruner)
        self._task = task

    def suggest(self) -> tuple[Trial, Config]:
        trial = self._study.ask()
        config: Config = {}
        for parameter in self._task.parameters:
            if is_active(parameter, config):
                config[parameter.name] = suggest(trial, parameter)
        return trial, config

    def observe(self, trial: Trial, loss: float | None, cost: float) -> None:  # noqa: ARG002 - a rival's signature
        self._study.tell(trial, loss, state=TrialState.FAIL if loss is None else TrialState.COMPLETE)

    def goes_on(self, trial: Trial, rung: int, loss: float | None, cost: float) -> bool:
        if loss is not None:
            trial.report(loss, self._task.eta**rung)
            if rung + 1 < len(self._task.budgets):
                if not trial.should_prune():
                    return True
                self._study.tell(trial, state=TrialState.PRUNED)
                return False
        self.observe(trial, loss, cost)
        return False


def suggest(trial: Trial, parameter: Parameter) -> Any:
    """A value of one parameter."""
    if parameter.kind == "categorical":
        return trial.suggest_categorical(parameter.name, parameter.choices)
    if parameter.kind == "int":
        return trial.suggest_int(parameter.name, int(parameter.low), int(parameter.high), log=parameter.log)
    return trial.suggest_float(parameter.name, parameter.low, parameter.high, log=parameter.log)


def build(task: Task) -> Rival:
    study = Study(task)
    return Climber(task, study) if task.method == "optuna-tpe-hyperband" else BlackBox(task, study)


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    serve(build)
