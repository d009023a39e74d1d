"""MLflow: one run per study, and nested in it one run per finished trial."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bohb.core.history import History
from bohb.integrations.listening import Finished, beside, require, tracker_errors

if TYPE_CHECKING:
    from mlflow.entities import Metric, Run

_MODULES = ("mlflow", "alembic")  # the second is for a local store; mlflow-skinny does not install it
_KEY, _TRIAL = "bohb.study", "bohb.trial"
_BATCH = 100  # parameters or metrics per request; MLflow takes no more parameters at once


def track(
    journal: str | Path,
    study: str = "study",
    *,
    uri: str | None = None,
    experiment: str | None = None,
    wait_seconds: float = 30.0,
) -> AbstractContextManager[None]:
    """Write the trials of a study to MLflow while the block runs, from a separate process.

    journal, study: as given to `minimize`.
    uri: the tracking URI, such as "sqlite:///mlflow.db" or "http://server:5000". Default: MLflow's own.
    experiment: the name of the experiment. Default: the name of the study.
    wait_seconds: how long the end of the block waits for trials that are still to be written.
    """
    require("mlflow", *_MODULES)
    return beside("mlflow", journal, study, uri, experiment, wait_seconds)


class MlflowTracker:
    """Writes each trial as a run: the configuration as parameters; values, budget, cost and curve as metrics.

    A failed trial is a failed run with its error as a tag. The study's own run has the incumbents' losses as a metric.
    """

    def __init__(self, uri: str | None = None, experiment: str | None = None) -> None:
        require("mlflow", *_MODULES)
        self._uri, self._experiment = uri, experiment

    def open(self, study: str, history: History) -> set[int]:
        """Find or create the study's run; return the trials it has."""
        from mlflow import MlflowClient

        self._key = history.study_key
        with _errors(self._uri):
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

        trial, outcome = finished.trial, finished.outcome
        started, ended = _milliseconds(outcome.started), _milliseconds(outcome.finished)
        with _errors(self._uri):
            run_id = self._begun.get(trial.number)
            if run_id is None:
                run = self._client.create_run(
                    self._experiment_id, started, _tags(finished, self._key, self._parent), f"trial {trial.number}"
                )
                run_id = self._begun[trial.number] = run.info.run_id
            params = [Param(_allowed(name), str(value)[:6000]) for name, value in trial.config.items()]
            for part in _parts(params):
                self._client.log_batch(run_id, params=part)
            for metrics in _parts(_metrics(finished, ended)):
                self._client.log_batch(run_id, metrics=metrics)
            best = finished.incumbent_metrics.items()
            if best:
                metrics = [Metric(_allowed(name), value, ended, finished.order) for name, value in best]
                self._client.log_batch(self._parent, metrics=metrics)
            self._client.set_terminated(run_id, "FINISHED" if outcome.ok else "FAILED", ended)
        del self._begun[trial.number]

    def close(self) -> None:
        """End the study's run until the study is resumed."""
        with _errors(self._uri):
            self._client.set_terminated(self._parent)

    def _runs(self) -> Iterator[Run]:
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment_id], f"tags.`{_KEY}` = '{self._key}'", max_results=1000, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return


def _tags(finished: Finished, key: str, parent: str) -> dict[str, str]:
    trial = finished.trial
    tags = {
        _KEY: key,
        _TRIAL: str(trial.number),
        "bohb.config": str(trial.config_id),
        "bohb.bracket": str(trial.bracket),
        "bohb.rung": str(trial.rung),
        "bohb.origin": trial.origin.value,
        "bohb.status": finished.outcome.status.value,
        "mlflow.parentRunId": parent,
    }
    return tags if finished.outcome.error is None else {**tags, "bohb.error": finished.outcome.error[:5000]}


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


def _parts(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]


def _milliseconds(seconds: float | None) -> int:
    return round(1000 * (time.time() if seconds is None else seconds))


def _errors(uri: str | None) -> AbstractContextManager[None]:
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return tracker_errors("MLflow" if uri is None else f"MLflow at {uri}", MlflowException, SQLAlchemyError)
