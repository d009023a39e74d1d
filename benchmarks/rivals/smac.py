"""SMAC3 by ask and tell: "smac" (random forest), "gp-bo" (Gaussian process) and "smac-mf" (random forest, Hyperband).

Every configuration is evaluated once, as by all others here (`deterministic=True`; otherwise SMAC repeats incumbents).
"""

from __future__ import annotations

import math
from typing import Any

from ConfigSpace import Configuration
from smac import BlackBoxFacade, HyperparameterOptimizationFacade, MultiFidelityFacade, Scenario  # type: ignore[import-not-found]
from smac.intensifier.hyperband_utils import determine_hyperband_for_multifidelity  # type: ignore[import-not-found]
from smac.runhistory import StatusType, TrialInfo, TrialValue  # type: ignore[import-not-found]

from benchmarks.rivals.space import configspace, plain
from benchmarks.rivals.wire import Run, Task, serve

FACADES: dict[str, Any] = {
    "smac": HyperparameterOptimizationFacade,
    "gp-bo": BlackBoxFacade,
    "smac-mf": MultiFidelityFacade,
}


class Facade:
    """One of SMAC's facades as it comes; keys are SMAC's trials."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._top = len(task.budgets) - 1
        self._many = task.method == "smac-mf"
        # The smallest budget is a little lower, as floor(log()) would lose the lowest of six rungs (1 … 243).
        low, high = 1 - 1e-6, task.eta**self._top
        trials = task.full_evaluations
        if self._many:
            plan = determine_hyperband_for_multifidelity(task.full_evaluations * high, low, high, task.eta)
            trials = int(plan["n_trials"])
        scenario = Scenario(
            configspace(task),
            deterministic=True,
            n_trials=max(1, trials),
            seed=task.seed,
            **({"min_budget": low, "max_budget": high} if self._many else {}),
        )
        facade = FACADES[task.method]
        extra = {"intensifier": facade.get_intensifier(scenario, eta=task.eta)} if self._many else {}
        self._smac = facade(scenario, never, overwrite=True, logging_level=False, **extra)
        self._reached: dict[Configuration, list[int]] = {}
        self._worst = -math.inf  # loss so far

    def ask(self) -> Run | None:
        try:
            trial = self._smac.ask()
        except StopIteration:  # a finite space has nothing new
            return None
        rung = self._task.rung(trial.budget) if self._many else self._top
        below = [reached for reached in self._reached.get(trial.config, []) if reached < rung]
        return Run(trial, plain(trial.config), rung, max(below, default=None))

    def tell(self, run: Run, loss: float | None, cost: float) -> None:
        trial: TrialInfo = run.key
        self._reached.setdefault(trial.config, []).append(run.rung)
        if loss is None:  # SMAC's own crash_cost, infinity, ends its models with "Input y contains NaN"
            worst = self._worst if math.isfinite(self._worst) else 1.0
            value = TrialValue(worst, cost, status=StatusType.CRASHED)
        else:
            self._worst = max(loss, self._worst)
            value = TrialValue(loss, cost)
        self._smac.tell(trial, value, save=False)


def never(config: Configuration, seed: int = 0, budget: float = 0) -> float:
    """What SMAC would call if it ran trials itself."""
    raise NotImplementedError


if __name__ == "__main__":
    serve(Facade)
