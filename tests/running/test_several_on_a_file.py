"""Several processes on one SQLite file: killed, interrupted and left alone."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from bohb import History, replay
from bohb.core.events import Event, SessionStarted, TrialFinished, TrialLost, TrialStarted
from bohb.errors import JournalError
from bohb.journal import stored_events
from tests.running.roles import start, suspended_once
from tests.sizes import FULL, size


def stored(path: Path) -> list[Event]:
    try:
        return list(stored_events(str(path), "study"))
    except JournalError:  # it is being created
        return []


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


PROCESSES, SLOTS = size(2, 4), size(1, 2)  # a single slot is the process itself, without workers


def test_processes_share_a_file_although_one_is_killed_and_one_interrupted(tmp_path: Path) -> None:
    path, traces = tmp_path / "study.db", tmp_path / "traces"
    traces.mkdir()
    runners = {}
    try:
        for _ in range(PROCESSES):
            runner = start("held", str(path), traces, max_trials=30, workers=SLOTS if SLOTS > 1 else None)
            runners[runner.pid] = runner
        slots = PROCESSES * SLOTS
        until(lambda: Counter(type(event) for event in stored(path))[TrialStarted] == slots, "trials in all processes")
        events = stored(path)
        names = {event.index: event.runner for event in events if isinstance(event, SessionStarted)}
        owners = {event.trial.number: event.session for event in events if isinstance(event, TrialStarted)}
        assert sorted(Counter(owners.values()).values()) == [SLOTS] * PROCESSES
        killed = runners[int(names[owners[0] or 0].split(":")[1])]
        killed.kill()
        interrupted = next((r for r in runners.values() if r is not killed and PROCESSES > 2), None)
        if interrupted is not None:
            interrupted.send_signal(signal.SIGINT)
        (traces / "go").touch()
        said = {pid: runner.communicate(timeout=120) for pid, runner in runners.items()}
    finally:
        for runner in runners.values():
            runner.kill()
    for pid, runner in runners.items():
        if runner is not killed:
            assert runner.returncode == 0, said[pid][1]
            assert ("interrupted" if runner is interrupted else "reached") in said[pid][0]
    events = stored(path)
    finished = [event.number for event in events if isinstance(event, TrialFinished)]
    lost = [event for event in events if isinstance(event, TrialLost)]
    assert sorted(finished) == list(range(30))
    assert {event.number for event in lost} == {number for number, owner in owners.items() if owner == owners[0]}
    assert not any(event.counts for event in lost)
    calls = Counter(tuple(trace.name.split("-")[:2]) for trace in traces.iterdir() if "-" in trace.name)
    assert set(calls.values()) == {1}  # no attempt was evaluated by two processes
    assert {int(number) for number, _ in calls} == set(range(30))
    assert not History().extend(events).late
    assert replay(path).ok


@pytest.mark.skipif(not FULL, reason="takes more than a minute: set BOHB_LONG_TESTS")
def test_a_runner_that_is_suspended_in_its_turn_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOHB_TEST_DIRECTORY", str(tmp_path))
    path = tmp_path / "study.db"
    options = {"max_trials": 12, "sampler": "suspended_once", "lease_seconds": 1}
    suspended = start("quadratic", str(path), tmp_path, **options)
    other = None
    try:
        process = psutil.Process(suspended.pid)
        until(lambda: process.status() == psutil.STATUS_STOPPED, "a runner that is suspended in its turn")
        other = start("quadratic", str(path), tmp_path, **options)
        assert "reached" in other.communicate(timeout=300)[0]
        suspended.send_signal(signal.SIGCONT)
        assert "reached" in suspended.communicate(timeout=120)[0]
    finally:
        for runner in (suspended, other):
            if runner is not None:
                runner.kill()
    assert sorted(event.number for event in stored(path) if isinstance(event, TrialFinished)) == list(range(12))
    assert replay(path, sampler=suspended_once).ok
