"""Faults of the runner: killed, interrupted, its disk full, its clock set, its journal taken."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Limits, Status, minimize, replay
from bohb.core.events import Event, TrialFinished, TrialLost, TrialStarted
from bohb.errors import JournalUnavailable
from bohb.executors.evaluate import InlineExecutor
from bohb.journal import MemoryJournal, SqlJournal
from tests import objectives
from tests.objectives import SPACE
from tests.sizes import bound, size

ROOT = Path(__file__).parent.parent.parent


def stored(path: Path) -> Sequence[Event]:
    with SqlJournal(path, read_only=True) as journal:
        return journal.read(0)


def kill_until_done(
    path: Path, trials: int, workers: int, seed: int, fewest: int, most: int, kills_at_most: int = 100
) -> int:
    out = subprocess.run(
        [sys.executable, "-m", "tests.faults.coordinators"]
        + [str(a) for a in (path, trials, workers, seed, fewest, most, kills_at_most)],
        cwd=ROOT,
        env={**os.environ, "BOHB_CALLS": f"{path}.calls"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    return int(json.loads(out.stdout))


def test_kills_of_a_running_study_lose_nothing_and_change_nothing(tmp_path: Path) -> None:
    path, n = tmp_path / "killed.db", size(80, 250)
    kills = kill_until_done(path, n, 0, seed=1, fewest=0, most=4)
    assert kills >= size(5, 50)
    killed = BOHB.from_events(stored(path))
    whole = minimize(objectives.quadratic, SPACE, min_budget=1, max_budget=9, seed=11, max_trials=n, progress=False)
    mine = [(t.config, t.budget, t.seed, t.origin, t.reason) for t in killed.history.trials.values()]
    theirs = [(t.config, t.budget, t.seed, t.origin, t.reason) for t in whole.history.trials.values()]
    assert mine == theirs
    assert {n: o.loss for n, o in killed.history.outcomes.items()} == {
        n: o.loss for n, o in whole.history.outcomes.items()
    }
    assert killed.incumbent is not None
    assert whole.incumbent is not None
    assert (killed.incumbent.trial.number, killed.incumbent.loss) == (
        whole.incumbent.trial.number,
        whole.incumbent.loss,
    )
    calls = [tuple(json.loads(line)) for line in Path(f"{path}.calls").read_text().splitlines()]
    assert len(calls) == len(set(calls)), "an attempt ran twice"
    again = [number for number, attempt in calls if attempt > 1]
    assert len(again) <= kills, "more was repeated than was running"
    assert replay(path).ok


def test_kills_of_a_parallel_study_lose_and_double_nothing(tmp_path: Path) -> None:
    path, n = tmp_path / "parallel.db", size(100, 300)
    kills = kill_until_done(path, n, 3, seed=2, fewest=1, most=n // 10, kills_at_most=12)
    assert kills >= 2
    events = stored(path)
    finished = Counter(e.number for e in events if isinstance(e, TrialFinished))
    assert finished == Counter(range(n))
    started = Counter(e.trial.number for e in events if isinstance(e, TrialStarted))
    lost = Counter(e.number for e in events if isinstance(e, TrialLost))
    assert started == finished + lost
    assert max(lost.values(), default=0) <= kills
    assert replay(path).ok


def test_a_runner_killed_with_its_trials_leaves_no_process_behind(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom bohb import minimize\nfrom tests.objectives import SPACE, until_file\n"
        "minimize(until_file, SPACE, budgets=[1], workers=2, max_trials=9, progress=False)"
    )
    started = tmp_path / "started"
    env = {**os.environ, "BOHB_STARTED": str(started), "BOHB_GO": str(tmp_path / "never"), "BOHB_MARK": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=env) as runner:
        try:
            wait_for(lambda: started.exists() and len(started.read_text().split()) == 2)
            assert len(marked(tmp_path)) >= 3
        finally:
            runner.kill()
    wait_for(lambda: not marked(tmp_path), seconds=60)


def marked(mark: Path) -> list[int]:
    """The processes that inherited an environment variable."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"BOHB_MARK={mark}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_for(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def interrupted_study(tmp_path: Path, workers: int | None) -> tuple[subprocess.Popen[str], Path, Path]:
    script = (
        "from bohb import minimize\nfrom tests.objectives import SPACE, until_file\n"
        f"s = minimize(until_file, SPACE, min_budget=1, max_budget=9, seed=0, workers={workers}, "
        f"journal={str(tmp_path / 'a.db')!r}, max_trials=50, progress=False)\nprint(s.stopped)\n"
        "import time\nprint(time.monotonic())"
    )
    started, go = tmp_path / "started", tmp_path / "go"
    env = {**os.environ, "BOHB_STARTED": str(started), "BOHB_GO": str(go)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    wait_for(lambda: started.exists() and len(started.read_text().split()) == (workers or 1))
    return process, started, go


def press_ctrl_c(process: subprocess.Popen[str]) -> None:
    """Interrupt a study, and wait until it has said so."""
    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr is not None
    assert any("press Ctrl-C again" in line for line in process.stderr)


@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c_once_finishes_the_running_trials(tmp_path: Path, workers: int | None) -> None:
    process, started, go = interrupted_study(tmp_path, workers)
    press_ctrl_c(process)
    go.touch()
    out, _ = process.communicate(timeout=60)
    assert out.splitlines()[0] == "interrupted"
    history = BOHB.from_events(stored(tmp_path / "a.db")).history
    assert len(history.outcomes) == len(history.trials) == len(started.read_text().split()) == (workers or 1)
    assert all(outcome.ok for outcome in history.outcomes.values())


@pytest.mark.parametrize("workers", [None, 2])
def test_ctrl_c_twice_stops_at_once_and_the_study_can_be_resumed(tmp_path: Path, workers: int | None) -> None:
    process, _, go = interrupted_study(tmp_path, workers)
    n_running = workers or 1
    press_ctrl_c(process)
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    out, _ = process.communicate(timeout=60)
    stopped, ended = out.splitlines()
    assert float(ended) - began < bound(2), "the promise holds if a processor is free"
    assert stopped.startswith("interrupted twice")
    history = BOHB.from_events(stored(tmp_path / "a.db")).history
    assert len(history.pending) == n_running
    go.touch()
    study = minimize(
        objectives.quadratic, SPACE, min_budget=1, max_budget=9, seed=0, journal=tmp_path / "a.db", max_trials=20
    )
    assert len(study.history.outcomes) == 20
    assert {study.history.trials[n].attempt for n in range(n_running)} == {2}


class FullJournal(MemoryJournal):
    """A journal whose disk is full for a while."""

    full = False
    refused = 0

    def append(self, events: Sequence[Event], after: int) -> None:
        if self.full:
            self.refused += 1
            raise JournalUnavailable("the disk is full")
        super().append(events, after)


def test_while_the_journal_is_full_nothing_starts_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = FullJournal()
    ran: list[int] = []

    def objective(trial: bohb.Trial) -> float:
        ran.append(trial.number)
        journal.full = trial.number == 4
        return float(trial.number)

    pauses: list[int] = []

    def pause(_: float) -> None:
        pauses.append(len(ran))
        journal.full = len(pauses) < 3

    monkeypatch.setattr("bohb.running.runner.time.sleep", pause)
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
    with caplog.at_level(logging.ERROR, "bohb"):
        study = bohb.run(optimizer, InlineExecutor(objective), Limits(max_trials=10))
    assert pauses == [5, 5, 5], "no trial started while the journal was full"
    assert "no trial is started until this is resolved" in caplog.text
    assert ran == list(range(10))
    assert [o.loss for o in study.history.outcomes.values()] == [float(n) for n in range(10)]
    assert replay(journal.read(0)).ok


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_setting_the_clock_expires_nothing(jump: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = time.time
    offset = [0.0]
    monkeypatch.setattr("time.time", lambda: real() + offset[0])

    def run(n: int) -> bohb.Study:
        return minimize(
            objectives.quadratic,
            SPACE,
            min_budget=1,
            max_budget=9,
            seed=0,
            workers=1,
            trial_seconds=30,
            max_seconds=200,
            max_trials=n,
            journal=tmp_path / "a.db",
            progress=False,
        )

    run(5)
    offset[0] = jump
    study = run(12)
    assert study.stopped == "max_trials=12 reached"
    assert {o.status for o in study.history.outcomes.values()} == {Status.OK}
    assert 0 < study.history.seconds < 200


def test_a_study_continues_from_every_prefix_of_its_events() -> None:
    """Killed after any event: what was running is started again, and the rest goes on as it would have."""
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=3)
    for _ in range(30):
        trial = study.ask()
        study.tell(trial, objectives.quadratic(trial))
    events = study.events
    for cut in range(1, len(events), size(3, 1)):
        resumed = BOHB.from_events(events[:cut])
        resumed.session.begin("again")
        while len(resumed.history.outcomes) < 30:
            trial = resumed.ask()
            resumed.tell(trial, objectives.quadratic(trial))
        assert [t.config for t in resumed.history.trials.values()] == [t.config for t in study.history.trials.values()]
        assert resumed.history.trajectory[-1].loss == study.history.trajectory[-1].loss


def treacherous(trial: bohb.Trial) -> float:
    """Kills its own worker on some trials: always, or only the first time."""
    if trial.number == 3 or (trial.number == 6 and trial.attempt == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if trial.number == 8:
        os.kill(os.getpid(), signal.SIGSEGV)
    return objectives.quadratic(trial)


def test_a_killed_worker_costs_an_attempt_and_a_crash_of_its_own_making_the_trial(tmp_path: Path) -> None:
    study = minimize(
        treacherous,
        SPACE,
        min_budget=1,
        max_budget=9,
        seed=0,
        workers=2,
        max_trials=20,
        journal=tmp_path / "a.db",
        progress=False,
    )
    status = {n: o.status for n, o in study.history.outcomes.items() if not o.ok}
    assert status == {3: Status.LOST, 8: Status.CRASHED}
    assert "killed by SIGKILL" in str(study.history.outcomes[3].error)
    assert "SIGSEGV" in str(study.history.outcomes[8].error)
    assert {n: study.history.trials[n].attempt for n in (6, 8)} == {6: 2, 8: 1}
    assert study.history.trials[3].attempt in (3, 4), "one more if trial 6 was lost together with it"
    again = [e.trial for e in stored(tmp_path / "a.db") if isinstance(e, TrialStarted) and e.trial.number in (3, 6)]
    assert len({(trial.number, json.dumps(trial.config), trial.seed) for trial in again}) == 2, "as it was"
    assert len(study.history.outcomes) == 20
    assert replay(tmp_path / "a.db").ok
