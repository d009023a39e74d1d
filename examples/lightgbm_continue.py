"""LightGBM: the budget counts boosting rounds, and a promoted configuration adds trees to its saved booster.

    python examples/lightgbm_continue.py

A saved booster does not hold the random generators of bagging and feature sampling, so the space has neither. Without
them, a booster that was continued is the one that was trained without interruption.
"""

from __future__ import annotations

from typing import Any

import lightgbm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import bohb
from bohb.integrations import learners

SPACE = {
    "learning_rate": (0.01, 0.5, "log"),
    "num_leaves": (2, 64, "log"),
    "min_data_in_leaf": (5, 50),
    "lambda_l2": (1e-3, 10.0, "log"),
}
FIXED = {"objective": "binary", "metric": "binary_logloss", "deterministic": True, "num_threads": 1}
X_train, X_valid, y_train, y_valid = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def train(trial: bohb.Trial) -> dict[str, Any]:
    rows, valid = lightgbm.Dataset(X_train, y_train), lightgbm.Dataset(X_valid, y_valid)
    return learners.train_lightgbm(trial, {**FIXED, **trial.config}, rows, valid)


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=3, max_budget=27, integer_budgets=True, seed=0, progress=False))
