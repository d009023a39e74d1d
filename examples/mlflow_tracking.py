"""Track a study with MLflow: one run per trial, nested in a run of the study, written by a separate process."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import bohb
from bohb.integrations.trackers import track


def objective(trial: bohb.Trial) -> dict[str, object]:
    """Stands for a training that reports its learning curve."""
    for epoch in range(1, round(trial.budget) + 1):
        trial.report(epoch, (trial.config["x"] - 0.3) ** 2 + 1 / epoch)
    return {"loss": (trial.config["x"] - 0.3) ** 2 + 1 / trial.budget, "info": {"accuracy": 1 - 1 / trial.budget}}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        directory = Path(sys.argv[1] if len(sys.argv) > 1 else name)
        store = f"sqlite:///{directory}/mlflow.db"  # or "http://localhost:5000"
        with track("mlflow", directory / "study.db", to=store, name="example", wait_seconds=120):
            study = bohb.minimize(
                objective,
                {"x": (0.0, 1.0)},
                min_budget=1,
                max_budget=9,
                seed=1,
                max_brackets=1,
                journal=directory / "study.db",
            )
        with closing(sqlite3.connect(directory / "mlflow.db")) as database:
            (runs,) = database.execute("SELECT count(*) FROM runs").fetchone()
        print(f"{runs} runs of {len(study.trials)} trials and their study")
