"""Minimise a function whose early values tell something about its final ones."""

from __future__ import annotations

import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    """Stand for training: the loss falls with every epoch, towards a limit that depends on the parameters."""
    x = trial.suggest_float("x", -5, 5)
    y = trial.suggest_float("y", -5, 5)
    for epoch in range(27):
        trial.report(x**2 + y**2 + 1 / (epoch + 1), epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return x**2 + y**2


if __name__ == "__main__":
    module = optunahub.load_module(package="samplers/bohb")
    sampler = module.BOHBSampler(min_budget=1, max_budget=27, seed=0)
    study = optuna.create_study(sampler=sampler, pruner=module.BOHBPruner(sampler))
    study.optimize(objective, n_trials=100)
    print(study.best_params)
