"""Objectives with one mistake each; workers import this module, so it imports little."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from bohb import Trial

_kept: list[Any] = []


def forgets_its_generator(trial: Trial) -> float:
    assert trial.checkpoint_dir is not None
    file = trial.checkpoint_dir / "w.json"
    rng = np.random.default_rng(trial.seed)
    step, w = json.loads(file.read_text()) if file.exists() else (0, 0.0)
    while step < trial.budget:
        w += float(rng.normal())
        step += 1
    file.write_text(json.dumps([step, w]))
    return w


def ignores_its_checkpoint(trial: Trial) -> float:
    return 1 / trial.budget


def draws_without_a_seed(trial: Trial) -> float:
    return float(np.random.default_rng().random())


def leaks(trial: Trial) -> float:
    _kept.append(np.ones(2**20))
    return 0.5


def breaks_the_second_time(trial: Trial) -> float:
    _kept.append(1)
    if len(_kept) > 4:
        raise RuntimeError("once was enough")
    return 0.5


def returns_nothing(trial: Trial) -> None:
    return None
