"""Deadlines in real time: until, max_seconds and grace, with and without workers."""

from __future__ import annotations

import datetime
import math
import time
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import Trial, minimize
from bohb.core.events import SessionStarted
from bohb.errors import InvalidArgument
from bohb.units import moment
from tests.cli.running import STUDY, call, written

SPACE = {"x": (0.0, 1.0)}
NOON = datetime.datetime(2026, 5, 1, 12, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


def sleeps(trial: Trial) -> float:
    time.sleep(0.02 * (trial.budget - (trial.previous_budget or 0.0)))
    return float(trial.config["x"])


def stuck(trial: Trial) -> float:
    time.sleep(3600)
    return 0.0


def run(objective: Any, **keywords: Any) -> bohb.Study:
    return minimize(objective, SPACE, min_budget=1, max_budget=9, seed=0, progress=False, **keywords)


@pytest.mark.parametrize(
    ("text", "hours"),
    [("18:00", 6.0), ("12:00:30", 30 / 3600), ("11:00", 23.0), ("2026-05-02 12:00+02:00", 24.0), ("18:00Z", 8.0)],
)
def test_a_clock_time_is_the_next_one_and_a_date_is_taken_as_it_is(text: str, hours: float) -> None:
    assert moment(text, NOON) - NOON.timestamp() == pytest.approx(3600 * hours)


def test_times_can_be_given_as_objects_and_numbers() -> None:
    later = NOON + datetime.timedelta(hours=3)
    assert moment(later, NOON) == later.timestamp()
    assert moment(datetime.time(15, 0), NOON) == later.timestamp()
    assert moment(later.timestamp(), NOON) == later.timestamp()


@pytest.mark.parametrize("until", ["soon", "25:00", "2026-05-01", True, [1]])
def test_what_is_no_time_is_refused(until: Any) -> None:
    with pytest.raises(InvalidArgument, match="until="):
        run(sleeps, until=until)


@pytest.mark.parametrize("until", ["2020-01-01 10:00", "0001-01-01 00:00", datetime.datetime(1, 1, 1), 1.6e9, -5, 0])
def test_a_time_that_is_over_is_refused(until: Any) -> None:
    with pytest.raises(InvalidArgument, match="is in the past"):
        run(sleeps, until=until)


@pytest.mark.parametrize("grace", [-1, math.nan, "5m", True])
def test_a_grace_that_is_no_time_is_refused(grace: Any) -> None:
    with pytest.raises(InvalidArgument, match="grace="):
        run(sleeps, max_seconds=1, grace=grace)


def test_a_trial_that_runs_at_the_deadline_is_stopped_and_runs_again_when_the_study_is_resumed(tmp_path: Path) -> None:
    began = time.monotonic()
    study = run(stuck, workers=1, max_seconds=2, journal=tmp_path / "study.db")
    assert time.monotonic() - began < 60  # the trial takes an hour
    assert "max_seconds=2 reached; 1 running trial stopped" in study.stopped
    assert study.history.lost == {0: "stopped at the deadline"}
    assert study.history.losses == {}
    again = run(sleeps, max_trials=1, journal=tmp_path / "study.db")
    assert list(again.history.outcomes) == [0]
    assert again.history.trials[0].attempt == 2
    assert not again.failures


def test_with_grace_the_running_trials_finish() -> None:
    study = run(sleeps, workers=2, max_seconds=0.2, grace=math.inf)
    assert not study.history.pending


def test_in_this_process_no_trial_is_started_that_would_end_too_late() -> None:
    study = run(sleeps, until=time.time() + 3)
    assert study.stopped.startswith("until=")
    assert not study.history.pending
    assert 9 in study.history.best


def test_a_session_stores_its_limits_and_workers() -> None:
    study = run(sleeps, max_trials=3, max_seconds=60)
    (session,) = study.history.sessions
    assert isinstance(session, SessionStarted)
    assert session.limits == {"max_trials": 3, "max_seconds": 60}
    assert session.workers == 1


def test_the_command_line_takes_a_time_and_a_grace(tmp_path: Path) -> None:
    file = written(tmp_path, STUDY)
    shown = call("run", file, "--until", "23:59:59", "--grace", "5m", "--max-trials", "2", "--workers", "0", "--quiet")
    assert "max_trials=2 reached" in shown.stdout
    file = written(tmp_path, STUDY + '\n[limits]\nuntil = "23:59:59"\ngrace = "1m"\nmax_trials = 3\n')
    assert "max_trials=3 reached" in call("run", file, "--workers", "0", "--quiet").stdout
