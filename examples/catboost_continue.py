"""CatBoost: the budget counts boosting rounds, and a promoted configuration goes on from its snapshot.

    python examples/catboost_continue.py

A snapshot holds the trees and the random generators, so that the space may have random sampling. A model that was
continued is the one that was trained without interruption.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from catboost import CatBoostClassifier, Pool
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import bohb

SPACE = {
    "learning_rate": (0.01, 0.5, "log"),
    "depth": (2, 6),
    "l2_leaf_reg": (0.1, 10.0, "log"),
    "subsample": (0.5, 1.0),
}
FIXED = {"bootstrap_type": "Bernoulli", "thread_count": 1, "logging_level": "Silent"}
X_train, X_valid, y_train, y_valid = train_test_split(*load_breast_cancer(return_X_y=True), random_state=0)


def train(trial: bohb.Trial) -> float:
    """Boost until the model has `trial.budget` trees."""
    done = round(trial.previous_budget or 0)
    with tempfile.TemporaryDirectory() as logs:
        directory = trial.checkpoint_dir or Path(logs)
        snapshot = directory / "snapshot"
        if not done:
            snapshot.unlink(missing_ok=True)  # CatBoost would go on from any that it finds
        model = CatBoostClassifier(
            **FIXED,
            **trial.config,
            iterations=round(trial.budget),
            random_seed=trial.seed,
            train_dir=logs,
            save_snapshot=True,
            snapshot_file=str(snapshot),
            snapshot_interval=0,
        )
        model.fit(Pool(X_train, y_train))
        model.save_model(directory / "model.cbm")
    curve = model.eval_metrics(Pool(X_valid, y_valid), ["Logloss"])["Logloss"]
    for rounds, loss in enumerate(curve[done:], done + 1):
        trial.report(rounds, loss)
    return float(curve[-1])


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=3, max_budget=27, integer_budgets=True, seed=0, progress=False))
