"""XGBoost: the budget counts boosting rounds, and a promoted configuration adds trees to its saved booster.

    python examples/xgboost_continue.py [seed]

A saved booster does not hold the random generators of row and column sampling, so the space has neither. Without them,
a booster that was continued is the one that was trained through; `main` checks that.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import bohb

SPACE = {
    "eta": (0.01, 0.5, "log"),
    "max_depth": (2, 8),
    "lambda": (1e-3, 10.0, "log"),
    "min_child_weight": (0.1, 10.0, "log"),
}
FIXED = {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}
X_train, X_valid, y_train, y_valid = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Boost until the booster has `trial.budget` trees."""
    done = round(trial.previous_budget or 0)
    path = trial.checkpoint_dir / "booster.ubj" if trial.checkpoint_dir else None
    curve: dict[str, Any] = {}
    booster = xgboost.train(
        {**FIXED, **trial.config, "seed": trial.seed},
        xgboost.DMatrix(X_train, y_train),
        num_boost_round=round(trial.budget) - done,
        xgb_model=path if done else None,
        evals=[(xgboost.DMatrix(X_valid, y_valid), "valid")],
        evals_result=curve,
        verbose_eval=False,
    )
    if path:
        booster.save_model(path)
    return {"loss": curve["valid"]["logloss"][-1], "info": {"continued_from": done}}


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
