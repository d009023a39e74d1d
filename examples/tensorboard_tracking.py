"""Track a study with TensorBoard: one run per trial with its hyperparameters, written by a separate process."""

from __future__ import annotations

import tempfile
from pathlib import Path

import bohb
from bohb.integrations.trackers import track


def objective(trial: bohb.Trial) -> float:
    """Stands for a training that reports its learning curve."""
    for epoch in range(1, round(trial.budget) + 1):
        trial.report(epoch, (trial.config["x"] - 0.3) ** 2 + 1 / epoch)
    return float((trial.config["x"] - 0.3) ** 2 + 1 / trial.budget)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with track("tensorboard", directory / "study.db", to=directory / "runs", wait_seconds=120):
            study = bohb.minimize(
                objective,
                {"x": (0.0, 1.0)},
                min_budget=1,
                max_budget=9,
                seed=1,
                max_brackets=1,
                journal=directory / "study.db",
            )
        runs = len(list((directory / "runs" / "study").glob("trial-*")))
        print(f"{runs} runs of {len(study.trials)} trials")  # tensorboard --logdir runs
