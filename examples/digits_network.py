"""A neural network in numpy, its hyperparameters, and its training on scikit-learn's digits as an objective.

The space has twelve hyperparameters, five of them conditional. The budget is the number of epochs. A trial with a
larger budget continues from the checkpoint of the smaller one, and equals a training that was never interrupted.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    GreaterThanCondition,
    InCondition,
    Integer,
)
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import bohb

Array = NDArray[np.float32]
BUDGETS: dict[str, Any] = {"min_budget": 1, "max_budget": 27, "integer_budgets": True}  # epochs
Function = Callable[[Array], Array]
ACTIVATIONS: dict[str, tuple[Function, Function]] = {  # each with its derivative, as a function of its value
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(np.float32)),
    "tanh": (np.tanh, lambda a: 1 - a * a),
    "logistic": (lambda z: 0.5 * (1 + np.tanh(0.5 * z)), lambda a: a * (1 - a)),
}


def space() -> ConfigurationSpace:
    """Return the search space."""
    made = ConfigurationSpace()
    layers, optimizer = Integer("layers", (1, 3)), Categorical("optimizer", ["sgd", "adam", "rmsprop"])
    units = [Integer(f"units_{layer}", (8, 128), log=True) for layer in (1, 2, 3)]
    momentum, beta1, beta2 = Float("momentum", (0, 0.99)), Float("beta1", (0.5, 0.99)), Float("beta2", (0.8, 0.9999))
    made.add(layers, *units, optimizer, momentum, beta1, beta2)
    made.add(Categorical("activation", list(ACTIVATIONS)), Float("dropout", (0, 0.9)))
    made.add(Float("lr", (1e-7, 1), log=True), Float("weight_decay", (1e-6, 10), log=True))
    made.add(Integer("batch_size", (8, 64), log=True))
    made.add(GreaterThanCondition(units[1], layers, 1), GreaterThanCondition(units[2], layers, 2))
    made.add(EqualsCondition(momentum, optimizer, "sgd"), EqualsCondition(beta1, optimizer, "adam"))
    made.add(InCondition(beta2, optimizer, ["adam", "rmsprop"]))
    return made


@functools.cache
def digits() -> dict[str, tuple[Array, NDArray[np.int64]]]:
    """Return the 1 797 images in three parts: 700 to train, 800 to validate, 297 to test."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    parts = {"train": order[:700], "valid": order[700:1500], "test": order[1500:]}
    return {name: ((X[rows] / 16).astype(np.float32), y[rows]) for name, rows in parts.items()}


class Network:
    """A feed-forward network and the state of its optimiser.

    config: a configuration of `space()`.
    seed: of the initial weights, the order of the images and the dropout.
    """

    def __init__(self, config: Mapping[str, Any], seed: int) -> None:
        self.config, self.seed, self.epochs, self.steps = dict(config), seed, 0, 0
        sizes = [64, *(config[f"units_{layer + 1}"] for layer in range(config["layers"])), 10]
        rng = np.random.default_rng(seed)
        self.weights: list[Array] = []
        for inputs, outputs in itertools.pairwise(sizes):  # the last row of a matrix is the bias
            weight = rng.normal(0, math.sqrt(2 / (inputs + outputs)), (inputs + 1, outputs))
            weight[-1] = 0
            self.weights.append(weight.astype(np.float32))
        self.mean = [np.zeros_like(weight) for weight in self.weights]  # of gradients
        self.square = [np.zeros_like(weight) for weight in self.weights]  # of squared gradients

    def forward(self, X: Array, rng: np.random.Generator | None = None) -> tuple[list[Array], Array]:
        """Return the input of each layer and the probabilities of the classes.

        rng: draws which units are dropped; None drops none.
        """
        activate, _ = ACTIVATIONS[self.config["activation"]]
        keep = 1 - self.config["dropout"]
        inputs, ones = [], np.ones((len(X), 1), np.float32)
        for layer, weight in enumerate(self.weights):
            if layer > 0:
                X = activate(X)
                if rng is not None:
                    X = X * ((rng.random(X.shape, np.float32) < keep) / np.float32(keep))
            inputs.append(np.hstack([X, ones]))
            X = inputs[-1] @ weight
        exponents = np.exp(X - X.max(axis=1, keepdims=True))
        return inputs, exponents / exponents.sum(axis=1, keepdims=True)

    def gradients(self, X: Array, y: NDArray[np.int64], rng: np.random.Generator) -> list[Array]:
        """Return the gradient of the log loss by the weights of each layer."""
        _, slope = ACTIVATIONS[self.config["activation"]]
        keep = np.float32(1 - self.config["dropout"])
        inputs, delta = self.forward(X, rng)
        delta[np.arange(len(y)), y] -= 1
        delta /= np.float32(len(y))
        found = []
        for weight, given in zip(reversed(self.weights), reversed(inputs), strict=True):
            found.append(given.T @ delta)
            kept = given[:, :-1]  # 0 where dropped, otherwise scaled by 1 / keep
            delta = delta @ weight[:-1].T * slope(kept * keep) * (kept != 0) / keep
        return found[::-1]

    def step(self, gradients: list[Array]) -> None:
        """Update the weights by one mini-batch."""
        config, self.steps = self.config, self.steps + 1
        lr, decay = config["lr"], 1 - config["lr"] * config["weight_decay"]
        beta1, beta2 = config.get("beta1", 0), config.get("beta2", 0)
        for weight, g, mean, square in zip(self.weights, gradients, self.mean, self.square, strict=True):
            weight *= decay
            if config["optimizer"] == "sgd":
                mean *= config["momentum"]
                mean += g
                weight -= lr * mean
                continue
            square += (1 - beta2) * (g * g - square)
            if config["optimizer"] == "adam":
                mean += (1 - beta1) * (g - mean)
                g = mean / (1 - beta1**self.steps)
            weight -= lr * g / (np.sqrt(square / (1 - beta2**self.steps)) + 1e-8)

    def fit_epoch(self, X: Array, y: NDArray[np.int64]) -> None:
        """Train on every image once."""
        rng = np.random.default_rng([self.seed, self.epochs])  # the same whether or not the training was interrupted
        order, size = rng.permutation(len(X)), self.config["batch_size"]
        for start in range(0, len(X), size):
            rows = order[start : start + size]
            self.step(self.gradients(X[rows], y[rows], rng))
        self.epochs += 1

    def score(self, X: Array, y: NDArray[np.int64]) -> tuple[float, float]:
        """Return the log loss and the share of wrong answers; a diverged network counts as certain of wrong ones."""
        _, p = self.forward(X)
        right = np.nan_to_num(p[np.arange(len(y)), y])
        return float(-np.log(right.clip(1e-7, 1)).mean()), float((p.argmax(axis=1) != y).mean())


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """Return the log loss on the validation images after `trial.budget` epochs; the test error is for information."""
    assert trial.checkpoint_dir is not None
    data, checkpoint = digits(), trial.checkpoint_dir / "network.pickle"
    network = pickle.loads(checkpoint.read_bytes()) if checkpoint.exists() else Network(trial.config, trial.seed)
    with np.errstate(all="ignore"):  # a learning rate that is too large
        while network.epochs < trial.budget:
            network.fit_epoch(*data["train"])
        loss, _ = network.score(*data["valid"])
        _, test_error = network.score(*data["test"])
    checkpoint.write_bytes(pickle.dumps(network))
    return {"loss": loss, "info": {"test_error": test_error}}
