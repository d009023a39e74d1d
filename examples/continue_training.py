"""Training that is continued, not repeated: a promoted configuration finds what it had learnt in its checkpoint.

    python examples/continue_training.py [seed]

The checkpoint holds all that training depends on: weights, momentum and the state of the random generator. So a model
that was stopped and continued is the one that was trained without interruption, to the last bit; `main` checks that.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import bohb

SPACE = {"lr": (1e-2, 10.0, "log"), "momentum": (0.0, 0.95), "decay": (1e-6, 1e-1, "log"), "batch": [10, 20, 50]}
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 10))
Y = (np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=400) > 0).astype(float)
X = np.tanh(np.hstack([X, X[:, :3], X[:, :3] ** 2]) @ rng.normal(size=(16, 100)))  # random features
TRAIN, VALID = slice(0, 200), slice(200, 400)


def save(path: Path, w: Any, v: Any, rng: np.random.Generator) -> None:
    np.savez(path / "arrays.npz", w=w, v=v)
    (path / "rng.json").write_text(json.dumps(rng.bit_generator.state))


def load(path: Path) -> tuple[Any, Any, np.random.Generator]:
    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads((path / "rng.json").read_text())
    with np.load(path / "arrays.npz") as arrays:
        return arrays["w"], arrays["v"], rng


def train(trial: bohb.Trial) -> dict[str, Any]:
    """Logistic regression by stochastic gradient descent; the budget counts epochs from the very beginning."""
    config, path, done = trial.config, trial.checkpoint_dir, round(trial.previous_budget or 0)
    w, v, rng = load(path) if path and done else (np.zeros(100), np.zeros(100), np.random.default_rng(trial.seed))
    for epoch in range(done, round(trial.budget)):
        for rows in rng.permutation(200).reshape(-1, config["batch"]):
            error = 1 / (1 + np.exp(-X[rows] @ w)) - Y[rows]
            v = config["momentum"] * v - config["lr"] * (error @ X[rows] / len(rows) + config["decay"] * w)
            w = w + v
        loss = float(np.mean(np.logaddexp(0, X[VALID] @ w * (1 - 2 * Y[VALID]))))
        trial.report(epoch + 1, loss)
    if path:
        save(path, w, v, rng)
    return {"loss": loss, "cost": trial.budget - done, "info": {"continued_from": done}}


def main(seed: int = 0) -> dict[str, Any]:
    study = bohb.minimize(train, SPACE, min_budget=1, max_budget=27, integer_budgets=True, workers=2, seed=seed)
    print(study)
    continued = [(trial, outcome) for trial, outcome in study.trials if outcome and outcome.info.get("continued_from")]
    again = [train(replace(trial, previous_budget=None))["loss"] for trial, _ in continued]  # without a checkpoint
    same = sum(outcome.loss == loss for (_, outcome), loss in zip(continued, again, strict=True))
    print(f"{same} of {len(continued)} continued trainings equal uninterrupted ones")
    return {"continued": len(continued), "same": same, "loss": study.incumbent and study.incumbent.loss}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
