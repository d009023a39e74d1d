"""Tune a neural network on scikit-learn's digits: workers, a journal, a break in the middle, random search beside it.

python examples/tune_digits.py [directory]
"""

from __future__ import annotations

import pickle
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import bohb

SPACE = {
    "learning_rate_init": (1e-5, 1e-1, "log"),
    "alpha": (1e-7, 1e0, "log"),
    "units": (4, 128, "log"),
    "batch_size": (16, 512, "log"),
    "activation": ["relu", "tanh", "logistic"],
}
EPOCHS: dict[str, Any] = {"min_budget": 1, "max_budget": 27, "integer_budgets": True}
X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(X / 16, y, test_size=0.5, random_state=0)
X_valid, X_test, y_valid, y_test = train_test_split(X_rest, y_rest, test_size=0.5, random_state=0)


def network(config: dict[str, Any], seed: int) -> MLPClassifier:
    options = {name: value for name, value in config.items() if name != "units"}
    return MLPClassifier((config["units"],), random_state=seed, **options)


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """The validation error after `trial.budget` epochs, continued from the epochs that are already trained."""
    assert trial.checkpoint_dir is not None
    checkpoint = trial.checkpoint_dir / "network.pickle"
    model = pickle.loads(checkpoint.read_bytes()) if checkpoint.exists() else network(trial.config, trial.seed)
    for epoch in range(int(trial.previous_budget or 0), int(trial.budget)):
        model.partial_fit(X_train, y_train, classes=np.arange(10))
        trial.report(epoch + 1, 1 - model.score(X_valid, y_valid))
    checkpoint.write_bytes(pickle.dumps(model))
    return {"loss": 1 - model.score(X_valid, y_valid), "info": {"test_error": 1 - model.score(X_test, y_test)}}


def tune(name: str, directory: Path, **keywords: Any) -> bohb.Study:
    return bohb.minimize(objective, SPACE, seed=1, workers=2, journal=directory / "digits.db", study=name, **keywords)


def show(name: str, study: bohb.Study) -> None:
    best = study.incumbent
    assert best is not None
    print(
        f"{name:>14}: validation error {best.loss:.2%}, test error {best.outcome.info['test_error']:.2%}, "
        f"{len(study.trials)} evaluations for the cost of {study.cost:.1f} full ones"
    )


def main(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    began = time.monotonic()
    print("One round of BOHB's brackets, budgets in epochs:\n")
    print(bohb.BOHB(SPACE, **EPOCHS).plan(), "\n", sep="")

    print("Tuning, and stopping half-way …")
    first = tune("BOHB", directory, **EPOCHS, max_cost=9, progress=True)
    print(f"stopped after {len(first.trials)} evaluations ({first.stopped}); the same call again continues:")
    study = tune("BOHB", directory, **EPOCHS, max_cost=18, progress=True)
    print(f"every decision follows from the journal: {bohb.replay(directory / 'digits.db', 'BOHB')}\n")

    print("Random search at the same cost …\n")
    random_search = tune("random search", directory, budgets=[27], random_fraction=1, max_cost=18, progress=False)
    show("BOHB", study)
    show("random search", random_search)
    print(f"\nBest configuration, found in {time.monotonic() - began:.0f} s:")
    print(study)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
