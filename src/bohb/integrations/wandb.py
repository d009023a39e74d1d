"""Weights & Biases, offline: one run per finished trial; `wandb sync` uploads them when there is a network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.integrations.listening import Finished, TrackerUnavailable, beside, require, study_key


def track(
    journal: str | Path,
    study: str = "study",
    *,
    directory: str | Path = ".",
    project: str | None = None,
    wait_seconds: float = 30.0,
) -> AbstractContextManager[None]:
    """Write the trials of a study as offline runs of W&B while the block runs, from a process of its own.

    journal, study: as given to `minimize`.
    directory: W&B makes its directory `wandb` there.
    project: the project's name; the study's unless given.
    wait_seconds: how long the end of the block waits for what is still to be handed on.
    """
    require("wandb", "wandb")
    options = ["--to", str(directory), *(["--name", project] if project else [])]
    return beside("wandb", journal, study, options, wait_seconds)


class WandbTracker:
    """Writes each trial as an offline run with the configuration, and loss, budget, cost and curve.

    directory: W&B makes its directory `wandb` there; a file beside it says which trials are whole.
    project: the project's name; the study's unless given.

    A run has an id of its study and trial, so that one written twice is uploaded as one.
    """

    def __init__(self, directory: str | Path = ".", project: str | None = None) -> None:
        require("wandb", "wandb")
        self._directory = Path(directory).absolute()
        self._project = project

    def open(self, study: str, history: History) -> set[int]:
        """Read which trials were written."""
        self._study, self._key = study, study_key(history)
        self._done = self._directory / f"bohb-{self._key}.txt"
        with _explained(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            lines = self._done.read_text().splitlines(keepends=True) if self._done.exists() else []
        return {int(line) for line in lines if line.endswith("\n")}

    def write(self, finished: Finished) -> None:
        """A run of its own."""
        import wandb

        trial, outcome = finished.trial, finished.outcome
        with _explained(self._directory):
            run = wandb.init(
                mode="offline",
                dir=str(self._directory),
                project=self._project or self._study,
                group=f"{self._study}-{self._key}",
                id=f"{self._key}-{trial.number}",
                name=f"trial {trial.number}",
                config=jsonable(trial.config),
                tags=[trial.origin.value, outcome.status.value],
                reinit="create_new",
                settings=wandb.Settings(silent=True, console="off", disable_git=True, x_disable_stats=True),
            )
            for step, loss in outcome.curve:
                if math.isfinite(loss):
                    run.log({"curve_step": step, "curve": loss})
            run.summary.update(_summary(finished))
            run.finish(exit_code=0 if outcome.ok else 1)
            with self._done.open("a") as file:
                file.write(f"{trial.number}\n")

    def close(self) -> None:
        """Every run is closed already."""


def _summary(finished: Finished) -> dict[str, Any]:
    trial, outcome = finished.trial, finished.outcome
    found = {
        "loss": outcome.loss,
        "budget": trial.budget,
        "cost": outcome.cost,
        "trial": trial.number,
        "config_id": trial.config_id,
        "bracket": trial.bracket,
        "rung": trial.rung,
        "improves": finished.improves,
        "error": outcome.error,
    }
    return {name: value for name, value in found.items() if value is not None}


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    from wandb.errors import Error

    try:
        yield
    except (Error, OSError) as error:
        raise TrackerUnavailable(f"W&B cannot write to {directory} ({str(error)[:200]})") from error
