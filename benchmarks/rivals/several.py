"""Optuna with several objectives and constraints: its TPE (MOTPE, c-TPE) and NSGA-II on the largest budget."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial, TrialState

from benchmarks.rivals.optuna import suggest
from benchmarks.rivals.wire import Config, Run, Task, is_active, serve


class Study:
    """A study in memory with a sampler as it comes; keys are Optuna's trials."""

    def __init__(self, task: Task) -> None:
        constraints = {"constraints_func": excess} if task.constraints else {}
        kind: Any = optuna.samplers.NSGAIISampler if task.method == "optuna-nsga2" else optuna.samplers.TPESampler
        self._study = optuna.create_study(
            sampler=kind(seed=task.seed, **constraints), directions=["minimize"] * task.objectives
        )
        self._task, self._top = task, len(task.budgets) - 1

    def ask(self) -> Run | None:
        trial = self._study.ask()
        config: Config = {}
        for parameter in self._task.parameters:
            if is_active(parameter, config):
                config[parameter.name] = suggest(trial, parameter)
        return Run(trial, config, self._top)

    def tell_several(self, run: Run, losses: list[float], excesses: list[float], cost: float) -> None:  # noqa: ARG002 - a rival's signature
        trial: Trial = run.key
        trial.set_user_attr("excess", excesses)
        self._study.tell(trial, losses, state=TrialState.COMPLETE)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        self.tell_several(run, [] if loss is None else [loss], [], cost)


def excess(trial: FrozenTrial) -> list[float]:
    """Return by how much a trial exceeds its bounds."""
    found: list[float] = trial.user_attrs["excess"]
    return found


if __name__ == "__main__":
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    serve(Study)
