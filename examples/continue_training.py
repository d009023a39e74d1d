"""Training that is continued, not repeated: what a promoted configuration has learnt is in its checkpoint.

    python examples/continue_training.py [seed]

The state holds all that training depends on: weights, momentum and the state of the random generator. So a network
that was stopped twice and continued is the one that was trained through, to the last bit; `main` checks that.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import bohb

SPACE = {"lr": (1e-3, 1.0, "log"), "momentum": (0.0, 0.95), "units": (2, 32, "log"), "batch": [8, 16, 32]}


def two_moons(rng: np.random.Generator, n: int) -> tuple[Any, Any]:
    angle, label = rng.random(n) * np.pi, rng.integers(2, size=n)
    points = np.stack([np.cos(angle) + label, np.sin(angle) * (1 - 2 * label) + label / 2], axis=1)
    return points + rng.normal(scale=0.2, size=points.shape), label.astype(float)


X, Y = two_moons(np.random.default_rng(1), 200)
X_VALID, Y_VALID = two_moons(np.random.default_rng(2), 200)


def forward(w: list[Any], x: Any) -> tuple[Any, Any]:
    hidden = np.tanh(x @ w[0] + w[1])
    return hidden, 1 / (1 + np.exp(-(hidden @ w[2] + w[3])))


def start(config: dict[str, Any], seed: int) -> tuple[list[Any], list[Any], np.random.Generator]:
    rng, units = np.random.default_rng(seed), config["units"]
    w = [rng.normal(size=(2, units)), np.zeros(units), rng.normal(size=units) / units, np.zeros(1)]
    return w, [np.zeros_like(a) for a in w], rng


def load(path: Path) -> tuple[list[Any], list[Any], np.random.Generator]:
    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads((path / "rng.json").read_text())
    with np.load(path / "arrays.npz") as arrays:
        return [arrays[f"w{i}"] for i in range(4)], [arrays[f"v{i}"] for i in range(4)], rng


def train(trial: bohb.Trial) -> dict[str, Any]:
    config, path, done = trial.config, trial.checkpoint_dir, int(trial.previous_budget or 0)
    w, v, rng = load(path) if path is not None and done else start(config, trial.seed)
    for _ in range(done, round(trial.budget)):  # the budget counts epochs from the very beginning
        for rows in np.array_split(rng.permutation(len(X)), len(X) // config["batch"]):
            hidden, p = forward(w, X[rows])
            error = (p - Y[rows]) / len(rows)
            back = np.outer(error, w[2]) * (1 - hidden**2)
            for i, gradient in enumerate([X[rows].T @ back, back.sum(0), hidden.T @ error, error.sum(keepdims=True)]):
                v[i] = config["momentum"] * v[i] - config["lr"] * gradient
                w[i] = w[i] + v[i]
    if path is not None:
        np.savez(path / "arrays.npz", **{f"w{i}": a for i, a in enumerate(w)}, **{f"v{i}": a for i, a in enumerate(v)})
        (path / "rng.json").write_text(json.dumps(rng.bit_generator.state))
    p = np.clip(forward(w, X_VALID)[1], 1e-12, 1 - 1e-12)
    loss = -np.mean(Y_VALID * np.log(p) + (1 - Y_VALID) * np.log(1 - p))
    return {"loss": loss, "cost": round(trial.budget) - done, "info": {"continued_from": done}}
