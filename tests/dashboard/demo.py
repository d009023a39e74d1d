"""Studies to show: made up, but told through BOHB itself, with times, curves, failures and trials still running."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bohb import BOHB, Outcome, Status, Trial
from bohb.journal import SqlJournal

SPACE: dict[str, Any] = {
    "learning_rate": (1e-5, 1e-1, "log"),
    "weight_decay": (1e-6, 1e-2, "log"),
    "units": (16, 512, "log"),
    "layers": (1, 5),
    "dropout": (0.0, 0.7),
    "activation": ["relu", "tanh", "gelu"],
    "optimizer": ["adam", "sgd"],
}
HOSTILE = "<script>alert(1)</script>"


class Clock:
    """A clock that goes as fast as it is told."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def loss_of(config: Mapping[str, Any], budget: float, rng: np.random.Generator) -> float:
    """Something like the error of a small network: a valley in the learning rate, better with more epochs."""
    rate = math.log10(config["learning_rate"])
    floor = 0.06 + 0.035 * (rate + 3) ** 2 + 0.08 * abs(config["dropout"] - 0.25)
    floor += 0.02 * (config["activation"] == "tanh") + 0.03 * (config["optimizer"] == "sgd")
    floor += 0.012 * abs(config["layers"] - 3) + 0.015 * abs(math.log2(config["units"] / 128))
    slow = 3.0 if config["optimizer"] == "sgd" else 1.2
    return float(floor + 0.5 * math.exp(-budget / slow) + rng.normal(0, 0.006))


def outcome_of(trial: Trial, started: float, finished: float, worker: int, rng: np.random.Generator) -> Outcome:
    """How a trial of the demo ends: mostly well."""
    times: dict[str, Any] = {"started": started, "finished": finished, "worker": f"worker {worker}"}
    if trial.config["learning_rate"] > 0.03 and rng.random() < 0.6:
        return Outcome(Status.DIVERGED, error="the loss is nan, not a finite number", **times)
    if trial.config["units"] > 400 and rng.random() < 0.5:
        error = f"OutOfMemoryError: tried to allocate {trial.config['units'] * 16} MiB"
        trace = f'Traceback (most recent call last):\n  File "train.py", line 41, in objective\n{error}\n'
        return Outcome(Status.CRASHED, error=error, traceback=trace, **times)
    steps = np.arange(1, round(trial.budget) + 1)
    curve = tuple((float(step), loss_of(trial.config, float(step), rng)) for step in steps)
    info = {"accuracy": round(1 - curve[-1][1], 4), "parameters": trial.config["units"] ** 2 * trial.config["layers"]}
    return Outcome(Status.OK, loss=curve[-1][1], info=info, curve=curve, **times)


def build(path: Path, study: str, *, trials: int, workers: int = 4, seed: int = 1, now: float = 0.0) -> None:
    """Write a study of so many finished trials that ends at `now`, with all workers still busy."""
    # How long it all takes is known only afterwards; a dry run says so.
    clock = Clock(now - _drive(BOHB(SPACE, min_budget=1, max_budget=27, seed=seed), trials, workers, seed, Clock(0.0)))
    with SqlJournal(path, study) as journal:
        optimizer = BOHB(SPACE, min_budget=1, max_budget=27, seed=seed, journal=journal, clock=clock)
        _drive(optimizer, trials, workers, seed, clock)


def _drive(optimizer: BOHB, trials: int, workers: int, seed: int, clock: Clock) -> float:
    """Ask and tell as `workers` parallel workers would; returns how long it took on the demo's clock."""
    rng = np.random.default_rng(seed)
    began = clock.now
    busy: dict[int, tuple[float, float, Trial]] = {}  # worker -> until when, since when, what
    for told in range(trials + 1):
        for worker in range(workers):
            if worker not in busy:
                trial = optimizer.ask()
                took = (trial.budget - (trial.previous_budget or 0)) * float(rng.uniform(4, 9)) + 2
                busy[worker] = (clock.now + took, clock.now, trial)
        if told == trials:
            return clock.now - began
        worker = min(busy, key=lambda w: busy[w][0])
        finished, started, trial = busy.pop(worker)
        clock.now = finished
        optimizer.tell(trial, outcome_of(trial, started, finished, worker, rng))
    raise AssertionError


HOSTILE_NAMES = (
    HOSTILE,
    '"><img src=x onerror=alert(1)>',
    "../../../etc/passwd",
    "..",
    "a/b\\c?d#e&f=g%2F..;h",
    "' OR 1=1 --",
    "naïve 研究 ☃ \u202eevil",
)


def build_hostile(path: Path, study: str) -> None:
    """A small study in which everything a user can name is meant to break out of the page."""
    space = {HOSTILE: [HOSTILE, "</td><b>x</b>", "javascript:alert(1)"], "x": (0.0, 1.0)}
    with SqlJournal(path, study) as journal:
        optimizer = BOHB(space, min_budget=1, max_budget=9, seed=0, journal=journal)
        for number in range(14 if study == HOSTILE else 4):
            trial = optimizer.ask()
            if number == 3:
                outcome = Outcome(Status.CRASHED, error=HOSTILE, traceback=f"at {HOSTILE}\n", output=HOSTILE)
            else:
                info, curve = {HOSTILE: "\ud800</pre><script>alert(2)</script>"}, ((1.0, 2.0), (2.0, math.nan))
                outcome = Outcome(Status.OK, loss=float(number), info=info, curve=curve, worker=HOSTILE)
            optimizer.tell(trial, outcome)
        optimizer.ask()
