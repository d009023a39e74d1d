"""SMAC3's ParEGO: several objectives on the largest budget."""

from __future__ import annotations

from ConfigSpace import Configuration
from smac import HyperparameterOptimizationFacade, Scenario  # type: ignore[import-not-found]
from smac.multi_objective.parego import ParEGO  # type: ignore[import-not-found]
from smac.runhistory import TrialValue  # type: ignore[import-not-found]

from benchmarks.rivals.smac import never
from benchmarks.rivals.space import configspace, plain
from benchmarks.rivals.wire import Run, Task, serve


class Parego:
    """The facade with a random forest and ParEGO as it comes; keys are SMAC's trials."""

    def __init__(self, task: Task) -> None:
        scenario = Scenario(
            configspace(task),
            objectives=[f"loss{i}" for i in range(task.objectives)],
            deterministic=True,
            n_trials=task.full_evaluations,
            seed=task.seed,
        )
        self._smac = HyperparameterOptimizationFacade(
            scenario, never, multi_objective_algorithm=ParEGO(scenario), overwrite=True, logging_level=False
        )
        self._top = len(task.budgets) - 1

    def ask(self) -> Run | None:
        try:
            trial = self._smac.ask()
        except StopIteration:  # a finite space has nothing new
            return None
        config: Configuration = trial.config
        return Run(trial, plain(config), self._top)

    def tell_several(self, run: Run, losses: list[float], excesses: list[float], cost: float) -> None:  # noqa: ARG002 - a rival's signature
        self._smac.tell(run.key, TrialValue(losses, cost), save=False)

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        raise NotImplementedError("ParEGO needs several objectives")


if __name__ == "__main__":
    serve(Parego)
