"""Objectives that worker processes can import."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from bohb import Trial

SPACE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def quadratic(trial: Trial) -> float:
    """Deterministic but for noise that shrinks with the budget."""
    noise = np.random.default_rng([trial.seed, int(trial.budget)]).normal() / (10 * trial.budget)
    return float((trial.config["x"] - 0.3) ** 2 + (trial.config["y"] - 0.7) ** 2 + noise)


def failing(trial: Trial) -> float:
    raise RuntimeError("always")


def half_nan(trial: Trial) -> float:
    return math.nan if trial.config["x"] > 0.5 else quadratic(trial)


def logged(trial: Trial) -> float:
    """Leaves one line per call in $BOHB_CALLS: what ran, how often."""
    with Path(os.environ["BOHB_CALLS"]).open("a") as file:
        file.write(json.dumps([trial.number, trial.attempt]) + "\n")
    return quadratic(trial)


def until_file(trial: Trial) -> float:
    """Runs until $BOHB_GO exists, once $BOHB_STARTED says that it runs."""
    with Path(os.environ["BOHB_STARTED"]).open("a") as file:
        file.write(f"{trial.number}\n")
    while not Path(os.environ["BOHB_GO"]).exists():
        time.sleep(0.005)
    return quadratic(trial)


def training(trial: Trial) -> float:
    """A training loop that continues from its checkpoint: gradient descent with noise from a saved generator."""
    assert trial.checkpoint_dir is not None
    file = trial.checkpoint_dir / "state.json"
    rng = np.random.default_rng(trial.seed)
    weight, step = 5.0, 0
    if file.exists():
        state = json.loads(file.read_text())
        weight, step = state["weight"], state["step"]
        rng.bit_generator.state = state["rng"]
    assert step == (trial.previous_budget or 0)
    while step < trial.budget:
        weight -= trial.config["x"] * (weight - 1) + 0.01 * float(rng.normal())
        step += 1
        trial.report(step, abs(weight - 1))
    file.write_text(json.dumps({"weight": weight, "step": step, "rng": rng.bit_generator.state}))
    return abs(weight - 1)
