"""TensorBoard: one run per finished trial with its hyperparameters, and one for the incumbents."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.errors import InvalidArgument
from bohb.integrations.listening import Finished, beside, require, tracker_errors
from bohb.journal.location import plain_component

if TYPE_CHECKING:
    from tensorboardX.event_file_writer import EventsWriter

_TRIAL, _OWNER, _INCUMBENT = "trial-", "bohb-study", "incumbent"


def track(
    journal: str | Path, study: str = "study", *, logdir: str | Path = "runs", wait_seconds: float = 30.0
) -> AbstractContextManager[None]:
    """Write the trials of a study for TensorBoard while the block runs, from a separate process.

    journal, study: as given to `minimize`.
    logdir: TensorBoard's log directory; the study gets a subdirectory with its name.
    wait_seconds: how long the end of the block waits for trials that are still to be written.
    """
    require("tensorboard", "tensorboardX")
    return beside("tensorboard", journal, study, logdir, wait_seconds=wait_seconds)


class TensorboardTracker:
    """Writes each trial as a run with hyperparameters, loss or named values, budget, cost and learning curve.

    logdir: TensorBoard's log directory; the study gets a subdirectory with its name.

    A run gets its final name when it is complete, so the names show which trials have been written.
    """

    def __init__(self, logdir: str | Path) -> None:
        require("tensorboard", "tensorboardX")
        self._logdir = Path(logdir)

    def open(self, study: str, history: History) -> set[int]:
        """Find the runs of the study; refuse a directory that belongs to another one."""
        self._root = self._logdir / plain_component(study)
        key, owner = history.study_key, self._root / _OWNER
        with tracker_errors(f"the log directory {self._root}"):
            self._root.mkdir(parents=True, exist_ok=True)
            if owner.exists() and owner.read_text() not in ("", key):
                raise InvalidArgument(f"{self._root} holds another study; choose another directory with --to")
            owner.write_text(key)
            names = [path.name for path in self._root.iterdir()]
            for name in names:
                if name.startswith(".") or name == _INCUMBENT:  # incomplete runs; the incumbents are written again
                    shutil.rmtree(self._root / name)
            known = {int(name.removeprefix(_TRIAL)) for name in names if name.startswith(_TRIAL)}
            self._incumbents = _writer(self._root / _INCUMBENT)
            order = {number: n for n, number in enumerate(history.outcomes, 1)}
            for best in history.trajectory:
                number = best.trial.number
                if number in known:
                    self._add_incumbent(Finished(best.trial, best.outcome, order[number], best, history.goals))
        return known

    def write(self, finished: Finished) -> None:
        """Write a directory and rename it when it is complete."""
        name = f"{_TRIAL}{finished.trial.number:05d}"
        hidden = self._root / f".{name}"
        with tracker_errors(f"the log directory {self._root}"):
            shutil.rmtree(hidden, ignore_errors=True)
            writer = _writer(hidden)
            _fill(writer, finished)
            writer.close()
            os.replace(hidden, self._root / name)
            self._add_incumbent(finished)

    def _add_incumbent(self, finished: Finished) -> None:
        for name, value in finished.incumbent_metrics.items():
            _scalar(self._incumbents, name, value, finished.order, time.time())
        self._incumbents.flush()

    def close(self) -> None:
        """Close the file of the incumbents."""
        with tracker_errors(f"the log directory {self._root}"):
            self._incumbents.close()


def _fill(writer: EventsWriter, finished: Finished) -> None:
    """Write everything about a trial."""
    from tensorboardX.summary import hparams

    trial, outcome = finished.trial, finished.outcome
    values = {name: v if isinstance(v, bool | int | float) else str(v) for name, v in jsonable(trial.config).items()}
    _, start, end = hparams({**values, "budget": trial.budget}, {})
    ended = time.time() if outcome.finished is None else outcome.finished
    _event(writer, start, 0, ended if outcome.started is None else outcome.started)
    for index, (step, loss) in enumerate(outcome.curve):  # TensorBoard marks points that are not finite
        _scalar(writer, "curve", loss, round(step) if float(step).is_integer() else index, ended)
    for name, value in finished.metrics.items():
        _scalar(writer, name, value, trial.number, ended)
    if outcome.ok:
        _event(writer, end, 0, ended)


def _writer(directory: Path) -> EventsWriter:
    """Open a file of events that is written without a thread, so that an error of the disk is raised here."""
    from tensorboardX.event_file_writer import EventsWriter

    directory.mkdir()
    return EventsWriter(str(directory / "events"))


def _scalar(writer: EventsWriter, name: str, value: float, step: int, wall_time: float) -> None:
    from tensorboardX.summary import scalar

    _event(writer, scalar(name, value), step, wall_time)


def _event(writer: EventsWriter, summary: Any, step: int, wall_time: float) -> None:
    from tensorboardX.proto.event_pb2 import Event

    writer.write_event(Event(wall_time=wall_time, step=step, summary=summary))
