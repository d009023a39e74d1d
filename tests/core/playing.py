"""Studies that are asked and told, with a loss of three hyperparameters."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import bohb
from bohb import BOHB
from bohb.core.events import Event

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0), "c": ["a", "b", "c"]}


def loss_of(trial: bohb.Trial) -> float:
    noise = np.random.default_rng([trial.seed, int(trial.budget)]).normal() / trial.budget
    return float(abs(trial.config["x"] - 0.3) + abs(trial.config["y"] - 0.7) + (trial.config["c"] != "b") + noise)


def run(study: BOHB, n: int, workers: int = 1) -> BOHB:
    """n evaluations by so many workers that finish out of order."""
    running: list[bohb.Trial] = []
    for step in range(n):
        running += study.ask_many(workers - len(running))
        trial = running.pop(step % len(running))
        study.tell(trial, math.nan if trial.number % 11 == 5 else loss_of(trial))
    return study


def new(seed: int = 0, **keywords: Any) -> BOHB:
    return BOHB(SPACE, min_budget=1, max_budget=9, seed=seed, **keywords)


def fingerprint(study: BOHB) -> list[Any]:
    return [(t.number, t.config, t.budget, t.seed, t.origin, t.reason) for t in study.history.trials.values()]


@cache
def busy_study() -> list[Event]:
    """Everything that can happen: failures, lost workers, reuse, cuts, raised budgets, earlier observations."""
    space: dict[str, Any] = {"a": (1, 25)}
    old = bohb.minimize(lambda t: float(t.config["a"]), space, budgets=[1], max_trials=3, seed=0, progress=False)
    study = BOHB(
        space, min_budget=1, max_budget=9, seed=1, preset="paper", warm_start=old.history, initial_configs=[{"a": 3}]
    )
    for number in range(200):
        study.session.begin(f"host:{number}") if number % 30 == 0 else None
        try:
            trial = study.ask()
        except (bohb.errors.NoTrialReady, bohb.errors.StudyDone):
            break
        if number % 11 == 5:
            study.lose(trial, "gone")
        elif number % 13 == 3:
            study.tell(trial, ValueError("no"))
        else:
            study.tell(trial, {"loss": trial.config["a"], "cost": 2.0})
    study.ask_many(3)
    return list(study.events)
