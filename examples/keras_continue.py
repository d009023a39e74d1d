"""Keras: a promoted configuration continues from its checkpoint, and the result is that of training through.

    KERAS_BACKEND=torch python examples/keras_continue.py [seed]

The saved model has weights and optimiser, but not how far the generator of dropout has come. So both it and the order
of the data follow from the epoch: it does not matter how training got there, as `main` checks without checkpoints.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np

import bohb

os.environ.setdefault("KERAS_BACKEND", "torch")  # before keras is imported
import keras

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [32, 64, 128]}
X = np.random.default_rng(0).normal(size=(384, 8)).astype("float32")  # 256 rows to train on, the rest to validate
Y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype("float32")


def network(config: dict[str, Any], seed: int) -> Any:
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    hidden = [layers.Dense(config["units"], "relu"), layers.Dropout(config["dropout"], seed=seed)]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(config["lr"]), "binary_crossentropy")
    return model


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Train until `trial.budget` epochs are done, counted from the very beginning."""
    done = round(trial.previous_budget or 0)
    path = trial.checkpoint_dir / "model.keras" if trial.checkpoint_dir else None
    model = keras.models.load_model(path) if done else network(trial.config, trial.seed)
    for epoch in range(done, round(trial.budget)):
        model.layers[1].seed_generator.state.assign([trial.seed % 2**31, 1000 * epoch])
        rows = np.random.default_rng([trial.seed, epoch]).permutation(256)
        model.fit(X[rows], Y[rows], batch_size=trial.config["batch"], shuffle=False, verbose=0)
    if path:
        model.save(path)
    return {"loss": model.evaluate(X[256:], Y[256:], verbose=0), "info": {"continued_from": done}}


def main(seed: int = 0) -> None:
    study = bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=seed)
    continued = [(trial, outcome) for trial, outcome in study.trials if trial.previous_budget]
    same = sum(train(replace(t, previous_budget=None))["loss"] == o.loss for t, o in continued if o)
    print(study, f"{same} of {len(continued)} continued trainings equal those trained through", sep="\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
