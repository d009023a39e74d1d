"""Outages of the infrastructure, caused for real: no trial fails because of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from bohb import Status, load, minimize, replay
from bohb.core.trial import Trial
from bohb.errors import JournalBusy, WorkersUnavailable
from bohb.testing.executors import until
from tests.faults import process_limit
from tests.objectives import SPACE, quadratic, until_file
from tests.sizes import size

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
ROOT = Path(__file__).parent.parent.parent


def test_a_reached_process_limit_pauses_the_study_and_fails_no_trial(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.process_limit", str(tmp_path)]
    if os.geteuid() == 0:  # the limit does not hold for root: become another user, who may read all files
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv to become another user")
        files = "+dac_override,+dac_read_search"
        who = ["--reuid", "54321", "--regid", "54321", "--clear-groups", "--inh-caps", files, "--ambient-caps", files]
        command = ["setpriv", *who, *command]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")  # they count towards the limit
    ran = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **threads}, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert 0 < told["filled"] <= process_limit.ROOM, "the limit was reached"
    assert told["waited"], "the study said that it cannot begin yet"
    assert told["left"] == 0, "the study said that it has paused"
    assert told["statuses"] == ["ok"] * process_limit.TRIALS
    assert told["losses"] == 0, "no loss counts as an attempt"
    assert "cannot be started: [Errno 11]" in told["said"]
    assert replay(tmp_path / "study.db").ok


def begun(started: Path, n: int) -> bool:
    """Whether at least n trials have begun."""
    return started.exists() and len(started.read_text().split()) >= n


def test_a_burst_that_kills_every_worker_for_a_while_fails_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go = tmp_path / "started", tmp_path / "go"
    monkeypatch.setenv("BOHB_STARTED", str(started))
    monkeypatch.setenv("BOHB_GO", str(go))

    def burst() -> None:
        try:
            for n_begun in range(1, 8):  # in all slots, more often than a trial is attempted
                until(partial(begun, started, n_begun), "a trial begins")
                for process in psutil.Process().children(recursive=True):
                    with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
                        if process.ppid() != os.getpid():  # not the guard
                            process.kill()
        finally:
            go.touch()  # so that the study ends, whatever happens here

    killer = threading.Thread(target=burst)
    killer.start()
    study = minimize(until_file, SPACE, min_budget=1, max_budget=9, seed=0, workers=3, max_trials=20, progress=False)
    killer.join()
    assert [outcome.status for outcome in study.history.outcomes.values()] == [Status.OK] * 20
    assert max(trial.attempt for trial in study.history.trials.values()) >= 4, "more often lost than max_attempts"


def kills_its_guard(trial: Trial) -> float:
    """Trial 1 kills the guard of all workers; its neighbours run long enough to be lost with it."""
    if trial.number == 1:
        time.sleep(0.1)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if trial.number in (0, 2):
        time.sleep(0.7)
    return quadratic(trial)


def test_a_trial_that_kills_its_guard_is_lost_and_its_neighbours_are_not(tmp_path: Path) -> None:
    study = minimize(
        kills_its_guard,
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=0,
        workers=3,
        max_trials=12,
        journal=tmp_path / "a.db",
        progress=False,
    )
    assert {n: o.status for n, o in study.history.outcomes.items() if not o.ok} == {1: Status.LOST}
    assert "guard process" in str(study.history.outcomes[1].error)
    assert set(study.history.losses) == {1}, "no loss of a neighbour counts"
    assert len(study.history.outcomes) == 12
    assert replay(tmp_path / "a.db").ok


def kills_itself(trial: Trial) -> float:
    os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does if memory is short
    return 0.0


def test_an_objective_that_is_always_killed_ends_the_study_with_a_hint_at_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.running.loop.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("bohb.running.loop.KILLED_PAUSES", size(2, 6))
    arguments: Any = {"budgets": [1], "seed": 0, "workers": 2, "journal": tmp_path / "a.db", "progress": False}
    with pytest.raises(WorkersUnavailable, match=r"every trial .* was killed while it ran.*SIGKILL.*memory"):
        minimize(kills_itself, SPACE, max_trials=6, **arguments)
    study = minimize(quadratic, SPACE, max_trials=6, **arguments)
    assert [outcome.status for outcome in study.history.outcomes.values()] == [Status.OK] * 6


def test_a_study_is_confirmed_by_one_runner_at_a_time(tmp_path: Path) -> None:
    study = minimize(quadratic, SPACE, budgets=[1], seed=0, max_trials=6, journal=tmp_path / "a.db", progress=False)
    refused: list[str] = []
    calls: list[int] = []

    def again(trial: Trial) -> float:
        calls.append(trial.number)
        with pytest.raises(JournalBusy, match="is being confirmed already") as error:
            load(tmp_path / "a.db").confirm(top=3, repeats=2, objective=quadratic, progress=False)
        refused.append(str(error.value))
        return quadratic(trial)

    study.confirm(top=2, repeats=2, objective=again, progress=False)
    assert len(refused) == len(calls) == 4
    assert len(load(tmp_path / "a.db").history.confirmations) == 1  # a refused one leaves no plan in the journal
