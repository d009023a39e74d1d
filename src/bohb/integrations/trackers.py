"""MLflow, TensorBoard and Weights & Biases (offline): each finished trial of a study becomes a run there.

The libraries are imported when they are first used, not with this module.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bohb.core.history import History
from bohb.core.trial import jsonable
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.integrations.listening import Finished, Tracker, TrackerUnavailable, log
from bohb.journal.location import plain_component

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run
    from tensorboardX.event_file_writer import EventsWriter

Name = Literal["mlflow", "tensorboard", "wandb"]
_MODULES: dict[Name, tuple[str, ...]] = {
    "mlflow": ("mlflow", "alembic"),  # the second is for a local store; mlflow-skinny does not install it
    "tensorboard": ("tensorboardX",),
    "wandb": ("wandb",),
}


def tracker_named(tracker: Name, to: str | Path | None = None, name: str | None = None) -> Tracker:
    """Return the tracker with this name; `to` and `name` as for `track`."""
    for module in _MODULES[tracker]:
        if find_spec(module) is None:
            raise MissingExtra(f"{module} is not installed: {install_hint(tracker)}")
    if tracker == "mlflow":
        return MlflowTracker(None if to is None else str(to), name)
    if tracker == "wandb":
        return WandbTracker(to or ".", name)
    if name is not None:
        raise InvalidArgument(f"name={name!r} is for mlflow and wandb; TensorBoard has a directory, to=")
    return TensorboardTracker(to or "runs")


@contextmanager
def track(
    tracker: Name,
    journal: str | Path,
    study: str = "study",
    *,
    to: str | Path | None = None,
    name: str | None = None,
    wait_seconds: float = 30.0,
) -> Iterator[None]:
    """Write the trials of a study to a tracker while the block runs, from a separate process (`bohb track`).

    tracker: "mlflow", "tensorboard" or "wandb".
    journal, study: as given to `minimize`.
    to: MLflow's tracking URI, such as "sqlite:///mlflow.db" or "http://server:5000" (default: MLflow's own);
        TensorBoard's log directory, where the study gets a subdirectory with its name (default: "runs"); or where W&B
        creates its directory `wandb` (default: the current one).
    name: the experiment of MLflow or the project of W&B. Default: the name of the study.
    wait_seconds: how long the end of the block waits for trials that are still to be written.

    The process ends by itself if this one is killed. If it fails, the block is not disturbed; a warning says that
    trials are missing, which `bohb track` can write at any later time.
    """
    tracker_named(tracker, to, name)
    options = [*(["--to", str(to)] if to else []), *(["--name", name] if name else [])]
    command = ["-m", "bohb", "track", tracker, str(journal), "--study", study, *options]
    listener = subprocess.Popen(
        [sys.executable, *command, "--attached"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches the study alone; the listener ends with the block
    )
    assert listener.stdin is not None
    try:
        yield
    finally:
        listener.stdin.close()
        try:
            code = listener.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            listener.kill()
            code = listener.wait()
        if code:
            log.warning("%s does not have all trials; this writes the rest: python %s", tracker, " ".join(command))


@contextmanager
def tracker_errors(where: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn OSError and these errors of a tracker's library into TrackerUnavailable."""
    kinds: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield
    except kinds as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise TrackerUnavailable(f"{where} cannot be written ({first[:200]})") from error


_KEY, _TRIAL = "bohb.study", "bohb.trial"
_BATCH = 100  # parameters or metrics per request; MLflow takes no more parameters at once


class MlflowTracker:
    """Writes each trial as a run: the configuration as parameters; values, budget, cost and curve as metrics.

    A failed trial is a failed run with its error as a tag. The study's own run has the incumbents' losses as a metric.
    """

    def __init__(self, uri: str | None = None, experiment: str | None = None) -> None:
        self._uri, self._experiment = uri, experiment

    def open(self, study: str, history: History) -> set[int]:
        """Find or create the study's run; return the trials it has."""
        from mlflow import MlflowClient

        self._key = history.study_key
        with _mlflow_errors(self._uri):
            self._client: Any = MlflowClient(tracking_uri=self._uri)
            name = self._experiment or study
            known = self._client.get_experiment_by_name(name)
            self._experiment_id = self._client.create_experiment(name) if known is None else known.experiment_id
            runs = list(self._runs())
            parents = [run for run in runs if _TRIAL not in run.data.tags]
            if parents:
                self._parent = parents[0].info.run_id
                self._client.update_run(self._parent, status="RUNNING")
            else:
                tags = {_KEY: self._key, "bohb.version": history.created.version if history.created else ""}
                self._parent = self._client.create_run(self._experiment_id, run_name=study, tags=tags).info.run_id
        trials = {int(run.data.tags[_TRIAL]): run for run in runs if _TRIAL in run.data.tags}
        # incomplete runs of an earlier listener
        self._begun: dict[int, str] = {n: run.info.run_id for n, run in trials.items() if run.info.status == "RUNNING"}
        return set(trials) - set(self._begun)

    def write(self, finished: Finished) -> None:
        """Write a run; its status is set last, so that a run that is still RUNNING is incomplete."""
        from mlflow.entities import Metric, Param

        trial = finished.trial
        started, ended = (round(1000 * seconds) for seconds in finished.times)
        with _mlflow_errors(self._uri):
            run_id = self._begun.get(trial.number)
            if run_id is None:
                tags, name = self._tags(finished), f"trial {trial.number}"
                run_id = self._client.create_run(self._experiment_id, started, tags, name).info.run_id
                self._begun[trial.number] = run_id
            params = [Param(_allowed(name), str(value)[:6000]) for name, value in trial.config.items()]
            metrics = _metrics(finished, ended)
            for start in range(0, max(len(params), len(metrics)), _BATCH):
                part = slice(start, start + _BATCH)
                self._client.log_batch(run_id, metrics[part], params[part])
            if best := finished.incumbent_metrics:
                metrics = [Metric(_allowed(name), value, ended, finished.order) for name, value in best.items()]
                self._client.log_batch(self._parent, metrics)
            self._client.set_terminated(run_id, "FINISHED" if finished.outcome.ok else "FAILED", ended)
        del self._begun[trial.number]

    def close(self) -> None:
        """End the study's run until the study is resumed."""
        with _mlflow_errors(self._uri):
            self._client.set_terminated(self._parent)

    def _runs(self) -> Iterator[Run]:
        ours, token = f"tags.`{_KEY}` = '{self._key}'", None
        while True:
            page = self._client.search_runs([self._experiment_id], ours, max_results=1000, page_token=token)
            yield from page
            if not (token := page.token):
                return

    def _tags(self, finished: Finished) -> dict[str, str]:
        trial, error = finished.trial, finished.outcome.error
        return {
            _KEY: self._key,
            _TRIAL: str(trial.number),
            "bohb.config": str(trial.config_id),
            "bohb.bracket": str(trial.bracket),
            "bohb.rung": str(trial.rung),
            "bohb.origin": trial.origin.value,
            "bohb.status": finished.outcome.status.value,
            "mlflow.parentRunId": self._parent,
            **({} if error is None else {"bohb.error": error[:5000]}),
        }


def _metrics(finished: Finished, time_: int) -> list[Metric]:
    from mlflow.entities import Metric

    info = finished.outcome.info.items()
    numbers = {name: v for name, v in info if isinstance(v, int | float) and not isinstance(v, bool)}
    found = [Metric(_allowed(name), float(v), time_, 0) for name, v in {**numbers, **finished.metrics}.items()]
    # MLflow's steps are whole numbers, so the step is the index of the point.
    return found + [Metric("curve", loss, time_, index) for index, _, loss in finished.curve]


def _allowed(name: str) -> str:
    """Return a name that MLflow accepts for a parameter or a metric; it would refuse "time (ms)" at every attempt."""
    plain = re.sub(r"[^\w.\- :/]", "_", name)[:250]
    path_like = plain != posixpath.normpath(plain) or plain.startswith((".", "/"))
    return "_" + plain[:249].replace("/", "_") if path_like else plain


def _mlflow_errors(uri: str | None) -> AbstractContextManager[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return tracker_errors("MLflow" if uri is None else f"MLflow at {uri}", MlflowException, SQLAlchemyError)


_RUN, _OWNER, _INCUMBENT = "trial-", "bohb-study", "incumbent"


class TensorboardTracker:
    """Writes each trial as a run with hyperparameters, loss or named values, budget, cost and learning curve.

    logdir: TensorBoard's log directory; the study gets a subdirectory with its name.

    A run gets its final name when it is complete, so the names show which trials have been written.
    """

    def __init__(self, logdir: str | Path) -> None:
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
            known = set[int]()
            for path in list(self._root.iterdir()):
                if path.name.startswith(".") or path.name == _INCUMBENT:  # incomplete; incumbents are written again
                    shutil.rmtree(path)
                elif path.name.startswith(_RUN):
                    known.add(int(path.name.removeprefix(_RUN)))
            self._incumbents = _writer(self._root / _INCUMBENT)
            order = {number: n for n, number in enumerate(history.outcomes, 1)}
            for best in history.trajectory:
                number = best.trial.number
                if number in known:
                    self._add_incumbent(Finished(best.trial, best.outcome, order[number], True, history.goals))
        return known

    def write(self, finished: Finished) -> None:
        """Write a directory and rename it when it is complete."""
        from tensorboardX.summary import hparams

        trial, outcome, (started, ended) = finished.trial, finished.outcome, finished.times
        name = f"{_RUN}{trial.number:05d}"
        hidden = self._root / f".{name}"
        config = {n: v if isinstance(v, bool | int | float) else str(v) for n, v in jsonable(trial.config).items()}
        _, first, last = hparams({**config, "budget": trial.budget}, {})
        with tracker_errors(f"the log directory {self._root}"):
            shutil.rmtree(hidden, ignore_errors=True)
            writer = _writer(hidden)
            _event(writer, first, 0, started)
            for index, (step, loss) in enumerate(outcome.curve):  # TensorBoard marks points that are not finite
                _scalar(writer, "curve", loss, round(step) if float(step).is_integer() else index, ended)
            for metric, value in finished.metrics.items():
                _scalar(writer, metric, value, trial.number, ended)
            if outcome.ok:
                _event(writer, last, 0, ended)
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


class WandbTracker:
    """Writes each trial as an offline run with the configuration, and loss or named values, budget, cost and curve.

    directory: W&B creates its directory `wandb` there; a file beside it lists the trials that are complete.
    project: the name of the project. Default: the name of the study.

    The id of a run is made of study and trial, so a run that is written twice is uploaded as one.
    """

    def __init__(self, directory: str | Path = ".", project: str | None = None) -> None:
        self._directory = Path(directory).absolute()
        self._project = project

    def open(self, study: str, history: History) -> set[int]:
        """Return the trials that were written."""
        self._study, self._key = study, history.study_key
        self._done = self._directory / f"bohb-{self._key}.txt"
        with _wandb_errors(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            lines = self._done.read_text().splitlines(keepends=True) if self._done.exists() else []
        return {int(line) for line in lines if line.endswith("\n")}

    def write(self, finished: Finished) -> None:
        """Write a run."""
        import wandb

        trial, outcome = finished.trial, finished.outcome
        with _wandb_errors(self._directory):
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


def _wandb_errors(directory: Path) -> AbstractContextManager[None]:
    from wandb.errors import Error

    return tracker_errors(f"the directory {directory} of W&B", Error)
