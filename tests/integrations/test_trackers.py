"""Trackers read the journal: each finished trial arrives once, and a tracker that is down disturbs nothing."""

from __future__ import annotations

import builtins
import importlib
import json
import logging
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import bohb
from bohb.cli.stored import TRACKERS
from bohb.errors import InvalidArgument, JournalError, MissingExtra
from bohb.integrations import trackers
from bohb.integrations.listening import Listener, Tracker, TrackerUnavailable, follow
from bohb.integrations.trackers import MlflowTracker, TensorboardTracker, WandbTracker, track, tracker_named
from bohb.journal import MemoryJournal, open_journal
from bohb.testing.executors import alive, until
from tests.cli.running import answer, call, complaint
from tests.dashboard.tabs import eventually

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning"),  # MLflow with SQLAlchemy 2.1
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # MLflow leaves its connections to the end of the process
]
SPACE = {"x": (0.0, 1.0), "c": ["a", "b"]}


def needs(library: str) -> pytest.MarkDecorator:
    """Skip a test with versions of Python or of dependencies for which the library is not installed."""
    return pytest.mark.skipif(find_spec(library) is None, reason=f"needs {library}")


def objective(trial: bohb.Trial) -> dict[str, Any]:
    for step in (1, 2):
        trial.report(step, 1 / step)
    if trial.number == 3:
        raise ValueError("boom")
    return {"loss": trial.config["x"] + 1 / trial.budget, "info": {"accuracy": 0.5, "note": "text"}, "cost": 2.0}


def study(journal: Any, max_trials: int = 13, seed: int = 1) -> bohb.Study:
    return bohb.minimize(
        objective, SPACE, min_budget=1, max_budget=9, seed=seed, journal=journal, max_trials=max_trials
    )


def named(trial: bohb.Trial) -> dict[str, Any]:
    if trial.number == 3:
        raise ValueError("boom")
    return {"score": 1 - trial.config["x"], "time (ms)": 1 / trial.budget, "memory": 2.0 + trial.number % 5}


def named_study(path: Path, max_trials: int = 13) -> bohb.History:
    """Store a study that maximises one value, minimises another one and bounds a third."""
    bohb.minimize(
        named,
        SPACE,
        min_budget=1,
        max_budget=9,
        objectives=["-score", "time (ms)"],
        constraints={"memory": "<= 5"},
        seed=1,
        journal=path,
        max_trials=max_trials,
    )
    return bohb.load(path).history


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "study.db"
    study(path)
    return path


def send(journal: Any, tracker: Tracker) -> int:
    """Start a new listener once; return how many trials it sent."""
    listener = Listener(journal, tracker)
    listener.read()
    try:
        listener.send()
    finally:
        listener.close()
    return listener.sent


def runs(logdir: Path) -> list[str]:
    return sorted(path.name for path in (logdir / "study").iterdir() if path.is_dir())


EVERY_RUN = ["incumbent", *(f"trial-{number:05d}" for number in range(13))]


def scalars(directory: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(tag)]


@needs("tensorboard")
def test_tensorboard_reads_hyperparameters_losses_curves_and_incumbents(journal: Path, tmp_path: Path) -> None:
    assert send(journal, TensorboardTracker(tmp_path)) == 13
    assert runs(tmp_path) == EVERY_RUN
    history = bohb.History().extend(open_journal(journal, read_only=True).read())
    last = history.results[-1]
    root = tmp_path / "study"
    assert scalars(root / f"trial-{last.trial.number:05d}", "loss") == [(12, float(np.float32(last.loss)))]
    assert scalars(root / "trial-00003", "curve") == [(1, 1.0), (2, 0.5)]
    assert scalars(root / "trial-00003", "budget") == [(3, 1.0)]
    best = scalars(root / "incumbent", "incumbent_loss")
    assert [loss for _, loss in best] == pytest.approx([result.loss for result in history.trajectory])
    assert (root / "trial-00000").exists()


@needs("tensorboard")
def test_tensorboard_shows_the_values_that_the_objective_returned(tmp_path: Path) -> None:
    history = named_study(tmp_path / "study.db")
    assert send(tmp_path / "study.db", TensorboardTracker(tmp_path)) == 13
    assert send(tmp_path / "study.db", TensorboardTracker(tmp_path)) == 0  # writes the incumbents again
    root, last = tmp_path / "study", history.results[-1]
    for name, value in last.values.items():
        tag = name.replace(" (ms)", "__ms_")  # TensorBoard's own rule
        assert scalars(root / f"trial-{last.trial.number:05d}", tag) == [(last.trial.number, float(np.float32(value)))]
        best = [found for _, found in scalars(root / "incumbent", f"incumbent_{tag}")]
        assert best == pytest.approx([result.values[name] for result in history.trajectory])


@needs("tensorboard")
def test_every_trial_arrives_once_however_often_listening_begins(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study(path, max_trials=5)
    assert send(path, TensorboardTracker(tmp_path)) == 5
    study(path)
    before = (tmp_path / "study" / "trial-00002").stat().st_mtime_ns
    assert send(path, TensorboardTracker(tmp_path)) == 8
    assert send(path, TensorboardTracker(tmp_path)) == 0
    assert runs(tmp_path) == EVERY_RUN
    assert (tmp_path / "study" / "trial-00002").stat().st_mtime_ns == before
    steps = [step for step, _ in scalars(tmp_path / "study" / "incumbent", "incumbent_loss")]
    assert steps == sorted(set(steps))


def test_what_was_half_written_is_written_again(journal: Path, tmp_path: Path) -> None:
    obstacle = tmp_path / "study" / ".trial-00006"
    obstacle.parent.mkdir()
    tracker = TensorboardTracker(tmp_path)
    listener = Listener(journal, tracker)
    listener.read()
    listener._known = tracker.open("study", listener._history)
    obstacle.write_text("in the way")  # where the sixth run would be written
    with pytest.raises(TrackerUnavailable, match="cannot be written"):
        listener.send()
    assert (listener.sent, listener.waiting) == (6, 7)
    obstacle.unlink()
    obstacle.mkdir()  # as a listener that was killed would leave it
    assert send(journal, TensorboardTracker(tmp_path)) == 7
    assert runs(tmp_path) == EVERY_RUN


def test_a_listener_says_that_the_tracker_is_down_and_catches_up_when_it_is_back(journal: Path, tmp_path: Path) -> None:
    logdir, said, waits = tmp_path / "runs", list[str](), list[float]()
    logdir.write_text("a file, where a directory should be")

    def pause(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            logdir.unlink()
        return len(waits) == 4

    listener = Listener(journal, TensorboardTracker(logdir))
    follow(listener, pause, said.append)
    listener.close()
    assert waits == [1.0, 2.0, 4.0, 1.0]
    assert len(said) == 2
    assert "cannot be written" in said[0]
    assert "13 trials wait, and the study goes on" in said[0]
    assert "is back" in said[1]
    assert runs(logdir) == EVERY_RUN


def test_a_study_beside_a_tracker_that_is_down_is_the_same_study(tmp_path: Path, caplog: Any) -> None:
    path, logdir = tmp_path / "study.db", tmp_path / "runs"
    logdir.write_text("a file, where a directory should be")
    with caplog.at_level(logging.WARNING, "bohb"), track("tensorboard", path, to=logdir):
        beside = study(path)
    alone = study(None)
    assert [trial.config for trial, _ in beside.trials] == [trial.config for trial, _ in alone.trials]
    assert "tensorboard does not have all trials" in caplog.text
    logdir.unlink()
    assert answer("track", "tensorboard", path, "--to", logdir, "--once")["sent"] == 13
    assert runs(logdir) == EVERY_RUN


def test_a_killed_runner_leaves_no_listener_behind(tmp_path: Path) -> None:
    script = """
import os, psutil, signal
from bohb.integrations.trackers import track
with track("tensorboard", "study.db", to="runs"):
    print(psutil.Process().children()[0].pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=400
    )
    until(lambda: not alive(int(ran.stdout)), "the listener ends")


def test_a_log_directory_of_another_study_is_refused(journal: Path, tmp_path: Path) -> None:
    send(journal, TensorboardTracker(tmp_path))
    study(tmp_path / "other.db", seed=2)
    with pytest.raises(InvalidArgument, match="holds another study; choose another directory"):
        send(tmp_path / "other.db", TensorboardTracker(tmp_path))


def example(name: str, *arguments: str | Path) -> str:
    """What an example of a study beside a tracker prints."""
    script = Path(__file__).parent.parent.parent / "examples" / name
    ran = subprocess.run(
        [sys.executable, "-W", "error", script, *arguments],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    assert "does not have all trials" not in ran.stderr
    return ran.stdout


def test_a_listener_beside_a_study_waits_for_it_to_begin_and_sends_all_of_it() -> None:
    assert example("tensorboard_tracking.py") == "13 runs of 13 trials\n"


@pytest.fixture(scope="module")
def mlflow_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store that the example has made: that takes MLflow longer than all the rest."""
    directory = tmp_path_factory.mktemp("mlflow")
    assert example("mlflow_tracking.py", directory) == "14 runs of 13 trials and their study\n"
    return f"sqlite:///{directory}/mlflow.db"


@needs("mlflow")
def test_mlflow_has_a_run_per_trial_nested_in_one_of_the_study(journal: Path, mlflow_store: str) -> None:
    from mlflow import MlflowClient

    uri = mlflow_store
    assert send(journal, MlflowTracker(uri, "digits")) == 13
    client = MlflowClient(uri)
    named = client.get_experiment_by_name("digits")
    assert named is not None

    def found() -> tuple[Any, dict[int, Any]]:
        every = client.search_runs([named.experiment_id])
        trials = [run for run in every if "bohb.trial" in run.data.tags]
        assert len(trials) == 13
        (parent,) = [run for run in every if "bohb.trial" not in run.data.tags]
        assert {run.data.tags["mlflow.parentRunId"] for run in trials} == {parent.info.run_id}
        return parent, {int(run.data.tags["bohb.trial"]): run for run in trials}

    parent, trials = found()
    history = bohb.History().extend(open_journal(journal, read_only=True).read())
    assert set(trials) == set(history.outcomes)
    last = history.results[-1]
    run = trials[last.trial.number]
    assert run.data.params == {"x": str(last.config["x"]), "c": last.config["c"]}
    assert run.data.metrics == {"loss": last.loss, "budget": 9.0, "cost": 2.0, "accuracy": 0.5, "curve": 0.5}
    assert (trials[3].info.status, trials[3].data.tags["bohb.error"]) == ("FAILED", "ValueError: boom")
    best = client.get_metric_history(parent.info.run_id, "incumbent_loss")
    assert [metric.value for metric in best] == [result.loss for result in history.trajectory]

    client.update_run(run.info.run_id, status="RUNNING")  # as a listener that was killed would leave it
    assert send(journal, MlflowTracker(uri, "digits")) == 1
    assert send(journal, MlflowTracker(uri, "digits")) == 0
    assert found()[1][last.trial.number].info.status == "FINISHED"
    assert len(client.get_metric_history(run.info.run_id, "curve")) == 2
    assert len(client.get_metric_history(parent.info.run_id, "incumbent_loss")) == len(best)


@needs("mlflow")
def test_mlflow_has_the_values_that_the_objective_returned_under_names_that_it_accepts(
    tmp_path: Path, mlflow_store: str
) -> None:
    from mlflow import MlflowClient

    history = named_study(tmp_path / "study.db", max_trials=5)
    assert send(tmp_path / "study.db", MlflowTracker(mlflow_store, "named")) == 5
    client = MlflowClient(mlflow_store)
    experiment = client.get_experiment_by_name("named")
    assert experiment is not None
    runs = {run.data.tags.get("bohb.trial"): run for run in client.search_runs([experiment.experiment_id])}
    for result in history.results:
        values = {name.replace("(", "_").replace(")", "_"): value for name, value in result.values.items()}
        assert runs[str(result.trial.number)].data.metrics == {"budget": result.budget, **values}
    best = client.get_metric_history(runs[None].info.run_id, "incumbent_score")
    assert [metric.value for metric in best] == [result.values["score"] for result in history.trajectory]


@needs("mlflow")
@pytest.mark.parametrize("name", ["a/../b", "..", "/x", "x" * 300, "näme", "a:b"])
def test_any_name_of_a_hyperparameter_becomes_one_that_mlflow_accepts(name: str) -> None:
    from mlflow.utils.validation import MAX_ENTITY_KEY_LENGTH, _validate_metric_name

    allowed = trackers._allowed(name)
    _validate_metric_name(allowed)  # type: ignore[no-untyped-call]
    assert len(allowed) <= MAX_ENTITY_KEY_LENGTH
    assert allowed == name or name not in ("näme", "a:b")


@needs("mlflow")
def test_a_server_that_refuses_connections_leaves_the_trials_waiting(journal: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    listener = Listener(journal, MlflowTracker("http://127.0.0.1:9"))
    listener.read()
    for _ in range(2):
        with pytest.raises(TrackerUnavailable, match=r"MLflow at http://127\.0\.0\.1:9 cannot be written"):
            listener.send()
    assert listener.waiting == 13
    listener.close()


@needs("wandb")
def test_offline_runs_of_wandb_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    history = named_study(path, max_trials=2)
    assert send(path, WandbTracker(tmp_path)) == 2
    assert send(path, WandbTracker(tmp_path)) == 0
    (records,) = (tmp_path / "wandb").glob("offline-run-*-1/run-*.wandb")
    texts = [part for name, value in history.outcomes[1].values.items() for part in (name, json.dumps(value))]
    wanted = [text.removesuffix(".0").encode() for text in texts]
    # A process of W&B writes the file; it may finish a little later than the run.
    assert eventually(lambda: all(text in records.read_bytes() for text in wanted))
    written = sorted(directory.name.rpartition("-")[2] for directory in (tmp_path / "wandb").glob("offline-run-*"))
    assert written == ["0", "1"]


def test_a_study_in_memory_can_be_listened_to(tmp_path: Path) -> None:
    journal = MemoryJournal()
    study(journal, max_trials=4)
    assert send(journal, TensorboardTracker(tmp_path)) == 4


def test_a_journal_that_is_not_there_is_an_error_unless_it_is_waited_for(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal"):
        follow(Listener(tmp_path / "none.db", TensorboardTracker(tmp_path)), lambda _: True)
    follow(Listener(tmp_path / "none.db", TensorboardTracker(tmp_path)), lambda _: True, patient=True)


def test_the_command_says_what_it_did_and_what_it_cannot_do(journal: Path, tmp_path: Path) -> None:
    assert call("track", "tensorboard", journal, "--to", tmp_path, "--once").stdout == (
        "13 trials sent to tensorboard, 0 waiting\n"
    )
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    assert "cannot be written" in complaint("track", "tensorboard", journal, "--to", blocked, "--once")
    assert "name='x' is for mlflow and wandb" in complaint("track", "tensorboard", journal, "--name", "x")
    assert "there is no journal" in complaint("track", "tensorboard", tmp_path / "none.db")


@pytest.mark.parametrize("tracker", get_args(trackers.Name))
def test_a_missing_library_is_named_with_its_extra(tracker: trackers.Name, monkeypatch: Any) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=rf"\[{tracker}\]"):
        tracker_named(tracker)
    with pytest.raises(MissingExtra, match=rf"\[{tracker}\]"), track(tracker, "study.db"):
        pass


def test_the_command_line_knows_the_same_trackers() -> None:
    assert get_args(trackers.Name) == TRACKERS


def test_importing_the_adapters_imports_none_of_the_libraries(monkeypatch: Any) -> None:
    real = builtins.__import__

    def refusing(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] not in {"mlflow", "tensorboardX", "wandb"}
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refusing)
    importlib.reload(trackers)
