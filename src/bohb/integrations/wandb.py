"""Weights & Biases, offline: one run per finished trial; `wandb sync` uploads them when there is a network."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.integrations.listening import Finished, beside, require, tracker_errors


def track(
    journal: str | Path,
    study: str = "study",
    *,
    directory: str | Path = ".",
    project: str | None = None,
    wait_seconds: float = 30.0,
) -> AbstractContextManager[None]:
    """Write the trials of a study as offline runs of W&B while the block runs, from a separate process.

    journal, study: as given to `minimize`.
    directory: W&B creates its directory `wandb` there.
    project: the name of the project. Default: the name of the study.
    wait_seconds: how long the end of the block waits for trials that are still to be written.
    """
    require("wandb", "wandb")
    return beside("wandb", journal, study, directory, project, wait_seconds)


class WandbTracker:
    """Writes each trial as an offline run with the configuration, and loss or named values, budget, cost and curve.

    directory: W&B creates its directory `wandb` there; a file beside it lists the trials that are complete.
    project: the name of the project. Default: the name of the study.

    The id of a run is made of study and trial, so a run that is written twice is uploaded as one.
    """

    def __init__(self, directory: str | Path = ".", project: str | None = None) -> None:
        require("wandb", "wandb")
        self._directory = Path(directory).absolute()
        self._project = project

    def open(self, study: str, history: History) -> set[int]:
        """Return the trials that were written."""
        self._study, self._key = study, history.study_key
        self._done = self._directory / f"bohb-{self._key}.txt"
        with _errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            lines = self._done.read_text().splitlines(keepends=True) if self._done.exists() else []
        return {int(line) for line in lines if line.endswith("\n")}

    def write(self, finished: Finished) -> None:
        """Write a run."""
        import wandb

        trial, outcome = finished.trial, finished.outcome
        with _errors(self._directory):
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
            for _, step, loss in finished.curve:
                run.log({"curve_step": step, "curve": loss})
            run.summary.update(
                {
                    **finished.metrics,
                    "trial": trial.number,
                    "config_id": trial.config_id,
                    "bracket": trial.bracket,
                    "rung": trial.rung,
                    "improves": finished.improves,
                    **({} if outcome.error is None else {"error": outcome.error}),
                }
            )
            run.finish(exit_code=0 if outcome.ok else 1)
            with self._done.open("a") as file:
                file.write(f"{trial.number}\n")

    def close(self) -> None:
        """Do nothing: every run is already closed."""


def _errors(directory: Path) -> AbstractContextManager[None]:
    from wandb.errors import Error

    return tracker_errors(f"the directory {directory} of W&B", Error)
