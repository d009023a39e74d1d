"""BOHB inside Optuna: an Optuna study as it is, with another sampler and pruner.

    python examples/optuna_study.py

Needs Optuna: pip install ".[optuna]"
"""

from __future__ import annotations

import numpy as np
import optuna

from bohb.integrations.optuna import BOHBPruner, BOHBSampler

EPOCHS = 27
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 20))
Y = X @ RNG.normal(size=20) + RNG.normal(size=400)


def objective(trial: optuna.Trial) -> float:
    """Train a linear model by gradient descent; return its error on held-out rows."""
    rate = trial.suggest_float("rate", 1e-5, 1.0, log=True)
    method = trial.suggest_categorical("method", ["plain", "momentum"])
    momentum = trial.suggest_float("momentum", 0.5, 0.99) if method == "momentum" else 0.0
    weights, velocity = np.zeros(20), np.zeros(20)
    for epoch in range(EPOCHS):
        gradient = X[:300].T @ (X[:300] @ weights - Y[:300]) / 300
        velocity = momentum * velocity - rate * gradient
        weights = weights + velocity
        error = float(np.mean((X[300:] @ weights - Y[300:]) ** 2))
        trial.report(error, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return error


def main() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = BOHBSampler(min_budget=1, max_budget=EPOCHS, seed=1)
    study = optuna.create_study(sampler=sampler, pruner=BOHBPruner(sampler))
    study.optimize(objective, n_trials=60)
    states = [trial.state.name for trial in study.trials]
    print(f"{states.count('PRUNED')} of {len(states)} trials were pruned")
    print(f"lowest error {study.best_value:.3f} with {study.best_params}")


if __name__ == "__main__":
    main()
