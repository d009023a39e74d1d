"""LightGBM: the budget counts boosting rounds, and a promoted configuration adds trees to its saved booster.

    python examples/lightgbm_continue.py [seed]

A saved booster does not hold the random generators of bagging and feature sampling, so the space has neither. Without
them, a booster that was continued is the one that was trained through; `main` checks that.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import lightgbm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import bohb

SPACE = {
    "learning_rate": (0.01, 0.5, "log"),
    "num_leaves": (2, 64, "log"),
    "min_data_in_leaf": (5, 50),
    "lambda_l2": (1e-3, 10.0, "log"),
}
FIXED = {"objective": "binary", "metric": "binary_logloss", "deterministic": True, "num_threads": 1, "verbose": -1}
X_train, X_valid, y_train, y_valid = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Boost until the booster has `trial.budget` trees."""
    done = round(trial.previous_budget or 0)
    path = trial.checkpoint_dir / "booster.txt" if trial.checkpoint_dir else None
    data = lightgbm.Dataset(X_train, y_train, free_raw_data=False)
    booster = lightgbm.train(
        {**FIXED, **trial.config, "seed": trial.seed},
        data,
        num_boost_round=round(trial.budget) - done,
        init_model=path if done else None,
        valid_sets=[lightgbm.Dataset(X_valid, y_valid, reference=data, free_raw_data=False)],
        valid_names=["valid"],
    )
    if path:
        booster.save_model(path)
    return {"loss": booster.best_score["valid"]["binary_logloss"], "info": {"continued_from": done}}


def main(seed: int = 0) -> None:
    study = bohb.minimize(train, SPACE, min_budget=3, max_budget=27, integer_budgets=True, seed=seed, progress=False)
    print(study)
    continued = [
        (trial, outcome.loss) for trial, outcome in study.trials if outcome and outcome.info.get("continued_from")
    ]
    same = sum(train(replace(trial, previous_budget=None))["loss"] == loss for trial, loss in continued)
    print(f"{same} of {len(continued)} continued trainings equal those trained through")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
