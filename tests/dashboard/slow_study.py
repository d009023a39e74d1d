"""A study that runs for a while, in a process of its own: python -m tests.dashboard.slow_study journal.db"""

from __future__ import annotations

import sys
import time

import bohb


def objective(trial: bohb.Trial) -> float:
    for step in range(3):
        time.sleep(0.1)
        trial.report(step, trial.config["x"] + 1 / (step + 1))
    print(f"output of trial {trial.number}", flush=True)  # noqa: T201 - the page shows it
    return float((trial.config["x"] - 0.3) ** 2)


if __name__ == "__main__":
    space = {"x": (0.0, 1.0)}
    bohb.minimize(
        objective,
        space,
        min_budget=1,
        max_budget=9,
        workers=1,
        journal=sys.argv[1],
        study="live",
        max_seconds=600,
        seed=1,
    )
