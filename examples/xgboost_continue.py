"""XGBoost: the budget counts boosting rounds, and a promoted configuration adds trees to its saved booster.

    python examples/xgboost_continue.py

A saved booster does not hold the random generators of row and column sampling, so the space has neither. Without them,
a booster that was continued is the one that was trained without interruption.
"""

from __future__ import annotations

from typing import Any

import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import bohb
from bohb.integrations import learners

SPACE = {
    "eta": (0.01, 0.5, "log"),
    "max_depth": (2, 8),
    "lambda": (1e-3, 10.0, "log"),
    "min_child_weight": (0.1, 10.0, "log"),
}
FIXED = {"objective": "binary:logistic", "eval_metric": "logloss", "nthread": 1}
X_train, X_valid, y_train, y_valid = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def train(trial: bohb.Trial) -> dict[str, Any]:
    rows, valid = xgboost.DMatrix(X_train, y_train), xgboost.DMatrix(X_valid, y_valid)
    return learners.train_xgboost(trial, {**FIXED, **trial.config}, rows, valid)


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=3, max_budget=27, integer_budgets=True, seed=0, progress=False))
