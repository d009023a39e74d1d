"""Several runners on one study: nothing twice, nothing lost, and whoever disappears is replaced."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bohb import BOHB, load, minimize, replay, studies
from bohb.cli.app import app
from bohb.core.events import Event, ResultLate, SessionStarted, TrialFinished, TrialLost, TrialStarted
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import SqlJournal
from bohb.optimizer.session import Heartbeat
from bohb.running.external import ExternalStudy
from tests.postgres import emptied, execute, postgres_server
from tests.running.roles import SPACE, quadratic, start


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    return emptied(server)


def stored(url: str) -> list[Event]:
    with SqlJournal(url, read_only=True) as journal:
        return list(journal.read())  # which also checks that positions are dense and checksums right


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def finish(*runners: subprocess.Popen[str]) -> None:
    told = [runner.communicate(timeout=240) for runner in runners]
    for runner, (out, err) in zip(runners, told, strict=True):
        assert runner.returncode == 0, err
        assert "reached" in out


def finished(events: list[Event]) -> list[int]:
    return [event.number for event in events if isinstance(event, TrialFinished)]


def test_four_runners_share_a_study_without_a_trial_twice_or_lost(url: str, tmp_path: Path) -> None:
    runners = [start("gated", url, tmp_path, max_trials=60, workers=2, lease_seconds=120) for _ in range(4)]
    until(lambda: len(list(tmp_path.iterdir())) == 8, "trials in all runners")
    (tmp_path / "go").touch()
    finish(*runners)
    events = stored(url)
    assert sorted(finished(events)) == list(range(60))
    calls = Counter(int(path.name.split("-")[0]) for path in tmp_path.glob("*-*"))
    assert calls == Counter(range(60))
    assert not [event for event in events if isinstance(event, TrialLost)]
    owners = {event.session for event in events if isinstance(event, TrialStarted)}
    assert len(owners) == 4  # it was shared indeed
    assert replay(events).ok


def test_the_trials_of_a_killed_runner_are_taken_over_once_its_lease_has_run_out(url: str, tmp_path: Path) -> None:
    first = start("first_waits", url, tmp_path, max_trials=20, workers=1)
    until((tmp_path / "running").exists, "the first trial")
    first.kill()
    first.communicate()
    finish(start("first_waits", url, tmp_path, max_trials=20))
    events = stored(url)
    assert sorted(finished(events)) == list(range(20))
    lost = [event for event in events if isinstance(event, TrialLost)]
    assert [(event.number, event.attempt, event.counts) for event in lost] == [(0, 1, False)]
    assert "runner stopped" in lost[0].reason
    assert replay(events).ok


def test_a_lease_holds_until_it_runs_out_by_the_clock_of_the_server(url: str) -> None:
    with SqlJournal(url) as journal:
        optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
        journal.renew_lease("one", 3600)
        optimizer.session.begin("one")
        trial = optimizer.ask()
        with SqlJournal(url) as second:
            other = BOHB.from_journal(second, clock=lambda: time.time() + 1e6)  # a clock that is wrong
            second.renew_lease("two", 3600)
            other.session.begin("two")
            other.session.take_over()
            assert trial.number in other.history.running
            execute(url, "UPDATE lease SET expires = 0 WHERE holder = 'one'")
            other.session.take_over()
            assert trial.number in other.history.lost
            assert other.ask().number == trial.number


def test_a_slow_but_living_runner_keeps_its_trial(url: str, tmp_path: Path) -> None:
    lease = 5.0  # it is renewed in time even on a busy machine
    slow = start("first_waits", url, tmp_path, max_trials=12, lease_seconds=lease)  # the objective keeps it busy
    until((tmp_path / "running").exists, "the first trial")
    other = start("first_waits", url, tmp_path, max_trials=12, lease_seconds=lease)
    until(lambda: len(finished(stored(url))) == 11, "all trials but the slow one")
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 1.4 * lease, "more than a lease")  # in which it must be renewed
    (tmp_path / "go").touch()
    finish(slow, other)
    events = stored(url)
    assert sorted(finished(events)) == list(range(12))
    assert not [event for event in events if isinstance(event, TrialLost | ResultLate)]


def test_the_late_result_of_a_taken_over_trial_is_kept_and_not_used(url: str, tmp_path: Path) -> None:
    stopped = start("first_waits", url, tmp_path, max_trials=20, workers=1)
    until((tmp_path / "running").exists, "the first trial")
    stopped.send_signal(signal.SIGSTOP)
    finish(start("first_waits", url, tmp_path, max_trials=20))
    (tmp_path / "go").touch()
    stopped.send_signal(signal.SIGCONT)
    finish(stopped)
    events = stored(url)
    used = next(event for event in events if isinstance(event, TrialFinished) and event.number == 0)
    late = [event for event in events if isinstance(event, ResultLate)]
    assert used.outcome.info == {"attempt": 2}
    assert [(event.number, event.attempt, event.outcome.info) for event in late] == [(0, 1, {"attempt": 1})]
    assert sorted(finished(events)) == list(range(20))
    assert replay(events).ok


def test_runners_survive_connections_that_are_cut(url: str, tmp_path: Path) -> None:
    runners = [start("counted", url, tmp_path, max_trials=80, workers=2) for _ in range(2)]
    until(lambda: _sessions(url) == 2, "both runners")
    for n in (20, 40, 60):
        until(lambda n=n: len(stored(url)) > n, f"{n} events")  # type: ignore[misc]
        execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    finish(*runners)
    events = stored(url)
    assert sorted(finished(events)) == list(range(80))
    assert replay(events).ok


def _sessions(url: str) -> int:
    try:
        return sum(isinstance(event, SessionStarted) for event in stored(url))
    except JournalError:  # the runners have not created the journal yet
        return 0


def test_a_runner_that_is_stopped_in_its_turn_loses_it(url: str) -> None:
    with SqlJournal(url) as stuck, SqlJournal(url) as other:
        turn = stuck.turn(1)
        turn.__enter__()  # and nothing more is heard of it
        with other.turn():
            assert list(other.read()) == []
        with pytest.raises(JournalError):
            turn.__exit__(None, None, None)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), 1e9])
def test_a_lease_of_no_sensible_length_is_refused(url: str, seconds: float) -> None:
    with SqlJournal(url) as journal, pytest.raises(InvalidArgument, match="lease_seconds"):
        Heartbeat(journal, "me", seconds)


def test_the_status_names_the_runners_that_live_and_counts_late_results(url: str) -> None:
    with SqlJournal(url) as journal:
        optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
        with Heartbeat(journal, "machine:1", 60):
            trial = optimizer.ask()
            optimizer.lose(trial, "gone")
            optimizer.tell(trial, 0.5)
            optimizer.tell(trial, 0.5)  # says nothing new
            shown = CliRunner().invoke(app, ["status", url])
    assert shown.exit_code == 0
    assert "machine:1" in shown.output
    assert "1 to start again; 1 late result not used" in shown.output


def test_a_lease_ends_with_its_runner(url: str) -> None:
    with SqlJournal(url) as journal:
        with Heartbeat(journal, "me", 60):
            assert journal.live_leases() == {"me"}
            assert not journal.lease_is_over("me")
        assert journal.live_leases() == set()
        assert journal.lease_is_over("me")


def test_a_callback_stops_only_its_own_runner_and_others_take_what_is_enqueued(url: str, tmp_path: Path) -> None:
    other = start("first_waits", url, tmp_path, max_trials=3)
    until(lambda: (tmp_path / "running").exists(), "the first runner")
    arguments: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "max_trials": 9, "progress": False}
    study = minimize(quadratic, SPACE, journal=url, callbacks=[lambda study: study.stop("enough")], **arguments)
    assert study.stopped == "enough"
    assert 0 in study.history.running  # the other runner works on it, and is not waited for
    added = CliRunner().invoke(app, ["enqueue", '{"x": 0.5, "y": 0.5}', url])  # while the other one runs
    assert added.exit_code == 0, added.output
    (tmp_path / "go").touch()
    finish(other)
    assert finished(stored(url)) == [1, 0, 2]
    assert load(url).trials[2][0].config == {"x": 0.5, "y": 0.5}
    assert studies(url) == {"study": 3}


def test_signs_of_life_of_programs_on_a_server_need_no_directory(url: str) -> None:
    study = ExternalStudy(url, "study", lambda journal: BOHB(SPACE, min_budget=1, max_budget=9, journal=journal))
    reports, asks_again, silent = study.ask(), study.ask(client="a"), study.ask()
    with SqlJournal(url) as journal, journal.database.transaction() as database:
        database.execute("UPDATE lease SET expires = expires - 61")
    with pytest.raises(InvalidArgument, match=r"no directory is given .* was a sign of life only"):
        study.report(reports.number, 1, 0.5)
    assert study.ask(client="a") == asks_again
    assert study.ask(lease_seconds=60).number == silent.number
    assert study.ask(lease_seconds=60).number == 3
    for number in (0, 1, 2, 3):
        study.tell(number, 0.5, 2 if number == silent.number else 1)
    with SqlJournal(url) as journal:
        assert journal.expired_leases() == {}


def test_programs_share_a_study_on_a_server_and_a_runner_takes_over_their_trials(url: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0}
    study = ExternalStudy(url, "study", lambda journal: BOHB(SPACE, journal=journal, **arguments))
    first, second = study.ask(), study.ask()
    assert (first.number, second.number, first.checkpoint_dir) == (0, 1, None)
    assert study.tell(1, 0.5) == "stored"
    with pytest.raises(InvalidArgument, match="no directory is given for learning curves"):
        study.report(0, 1, 0.5)
    replace(study, directory=tmp_path).report(0, 1, 0.5)
    taken = minimize(quadratic, SPACE, journal=url, max_trials=2, progress=False, **arguments)
    assert study.tell(0, 0.25, attempt=1) == "late"
    assert taken.history.outcomes[0].loss == load(url).history.outcomes[0].loss != 0.25
