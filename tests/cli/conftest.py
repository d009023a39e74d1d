"""Studies to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bohb import Trial, minimize


def bowl(trial: Trial) -> dict[str, Any]:
    if trial.config["x"] > 0.7:
        raise ValueError("too \x1b[31mred")
    return {"loss": (trial.config["x"] - 0.3) ** 2 + 1 / trial.budget, "info": {"n": 1}, "cost": trial.budget}


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with one study of 40 trials, some of them failed."""
    path = tmp_path_factory.mktemp("finished") / "study.db"
    space = {"x": (0.0, 1.0), "act": ["=relu", "tanh"]}
    minimize(bowl, space, min_budget=1, max_budget=9, seed=3, journal=path, study="bowl", max_trials=40, progress=False)
    return path
