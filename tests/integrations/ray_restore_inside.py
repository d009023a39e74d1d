"""A tuner of Ray Tune that is killed and restored; `test_ray_tune.py` runs this file with loopback as the only network.

    python -m tests.integrations.ray_restore_inside FOLDER

starts a tuner whose trials wait after a while, so that it can be killed in a known state.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import ray
from ray import tune

from bohb.integrations.foreign import Results
from bohb.integrations.ray_tune import BOHBScheduler, BOHBSearch

pytestmark = pytest.mark.filterwarnings("default")  # warnings of Ray itself
SAMPLES, BEFORE = 10, 4
SPACE = {"x": tune.uniform(0.0, 1.0), "layer": {"units": tune.qrandint(8, 64, 8)}}
FAILS = {"x": 0.95, "layer": {"units": 16}}


def train(config: dict[str, Any]) -> None:
    """Leave a trace of each call. Until there is a file `go`, one configuration fails and all calls but a few wait."""
    folder = Path(config["folder"])
    (folder / "calls" / f"{tune.get_context().get_trial_id()}-{time.time_ns()}").touch()
    if config["x"] == FAILS["x"] and not (folder / "go").exists():
        raise ArithmeticError
    while len(list((folder / "calls").iterdir())) > BEFORE and not (folder / "go").exists():
        time.sleep(0.1)
    for epoch in range(1, 10):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + abs(config["layer"]["units"] - 32) / 100 + 1 / epoch})


def run(folder: Path) -> None:
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    tune.Tuner(
        train,
        param_space={**SPACE, "folder": str(folder)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=SAMPLES,
            max_concurrent_trials=2,
            search_alg=BOHBSearch(seed=0, points_to_evaluate=[FAILS]),
            scheduler=BOHBScheduler(max_t=9),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(name="study", storage_path=str(folder), verbose=0),
    ).fit()


def statuses(folder: Path) -> dict[str, str]:
    """Return the trials that the tuner has saved, with their statuses."""
    saved = sorted((folder / "study").glob("experiment_state-*.json"))
    try:
        trials = [json.loads(trial) for trial, _ in json.loads(saved[-1].read_text())["trial_data"]]
    except (IndexError, ValueError):  # it is being written
        return {}
    return {trial["trial_id"]: trial["status"] for trial in trials}


def saved_results(folder: Path) -> Results[str]:
    search = BOHBSearch()
    search.restore_from_dir(str(folder / "study"))
    assert search.results is not None
    return search.results


def killed(folder: Path) -> dict[str, str]:
    """Run a tuner until two trials wait and the others have ended, kill it, and return the statuses of its trials."""
    (folder / "calls").mkdir()
    command = [sys.executable, "-m", "tests.integrations.ray_restore_inside", str(folder)]
    tuner = subprocess.Popen(command, env={**os.environ, "TUNE_GLOBAL_CHECKPOINT_S": "0"})
    try:
        deadline = time.monotonic() + 300
        while Counter(statuses(folder).values())["RUNNING"] != 2 or len(statuses(folder)) < BEFORE + 2:
            assert time.monotonic() < deadline, statuses(folder)
            assert tuner.poll() is None
            time.sleep(0.2)
    finally:
        cluster = [] if tuner.poll() is not None else psutil.Process(tuner.pid).children(recursive=True)
        tuner.kill()
        tuner.wait()
        for process in cluster:
            with suppress(psutil.NoSuchProcess):
                process.kill()
    return statuses(folder)


@pytest.mark.parametrize("again", ["restart_errored", "resume_errored"])
def test_a_killed_tuner_that_is_restored_runs_only_what_had_not_ended(tmp_path: Path, again: str) -> None:
    before = killed(tmp_path)
    ended = {trial for trial, status in before.items() if status == "TERMINATED"}
    failed = {trial for trial, status in before.items() if status == "ERROR"}
    assert len(failed) == 1
    results = saved_results(tmp_path)
    (tmp_path / "go").touch()
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        restored = tune.Tuner.restore(
            str(tmp_path / "study"),
            train,
            resume_errored=again == "resume_errored",
            restart_errored=again == "restart_errored",
        ).fit()
    finally:
        ray.shutdown()
    assert restored.num_errors == 0
    calls = Counter(call.name.split("-")[0] for call in (tmp_path / "calls").iterdir())
    assert {trial: calls[trial] for trial in ended} == dict.fromkeys(ended, 1)
    assert {calls[trial] for trial in before.keys() - ended - failed} == {2}
    after = saved_results(tmp_path)
    assert {trial: after.number(trial) for trial in before} == {trial: results.number(trial) for trial in before}
    assert after.losses[: len(results.losses)] == results.losses or again == "resume_errored"
    restarted = again == "restart_errored"
    assert calls[failed.pop()] == (1 if restarted else 2)
    assert len(calls) == SAMPLES + restarted
    assert after.number("the next one") == SAMPLES + restarted
    configs = [restored[i].config for i in range(len(restored))]
    assert len({config["x"] for config in configs if config}) == SAMPLES


if __name__ == "__main__":
    run(Path(sys.argv[1]))
