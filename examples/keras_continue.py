"""Keras: a promoted configuration continues from its checkpoint, and the result is that of uninterrupted training.

    KERAS_BACKEND=torch python examples/keras_continue.py

`learners.train_keras` saves weights, optimiser and the state of dropout. It seeds each epoch with the trial's seed and
the number of the epoch, so that the order of the data does not depend on how training got there.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import bohb
from bohb.integrations import learners

os.environ.setdefault("KERAS_BACKEND", "torch")  # before keras is imported
import keras

SPACE = {"lr": (1e-4, 1e-1, "log"), "units": (8, 64, "log"), "dropout": (0.0, 0.5), "batch": [32, 64, 128]}
X = np.random.default_rng(0).normal(size=(384, 8)).astype("float32")  # 256 rows to train on, the rest to validate
Y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype("float32")


def network(config: dict[str, Any]) -> Any:
    layers = keras.layers
    hidden = [layers.Dense(config["units"], "relu"), layers.Dropout(config["dropout"])]
    model = keras.Sequential([keras.Input((8,)), *hidden, layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(config["lr"]), "binary_crossentropy")
    return model


def train(trial: bohb.Trial) -> dict[str, Any]:
    keras.utils.set_random_seed(trial.seed)
    model, valid = network(trial.config), (X[256:], Y[256:])
    return learners.train_keras(trial, model, X[:256], Y[:256], validation_data=valid, batch_size=trial.config["batch"])


if __name__ == "__main__":
    print(bohb.minimize(train, SPACE, min_budget=1, max_budget=9, max_brackets=1, integer_budgets=True, seed=0))
