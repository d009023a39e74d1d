"""An objective may ask to be started again: `raise bohb.Retry("no GPU on this node")`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import Retry, Status, Trial, minimize, replay
from bohb.core.events import TrialLost, TrialStarted
from bohb.core.trial import RETRIES
from bohb.journal import stored_events
from tests.cli.running import call
from tests.objectives import SPACE, quadratic

REASON = "no GPU on this node"


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("core.decide", "running.confirmation"):
        monkeypatch.setattr(f"bohb.{module}.retry_delay", lambda n: 0.0)


def run(objective: Callable[[Trial], Any], **keywords: Any) -> bohb.Study:
    defaults: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "max_trials": 12, "progress": False}
    return minimize(objective, SPACE, **{**defaults, **keywords})


def twice(trial: Trial) -> float:
    """Trials 2 and 5 need three tries; each finds a clean directory."""
    if trial.checkpoint_dir is not None:
        assert list(trial.checkpoint_dir.iterdir()) == []
        (trial.checkpoint_dir / "state").write_text("half-writ")
    if trial.number in (2, 5) and trial.attempt < 3:
        raise Retry(REASON)
    if trial.checkpoint_dir is not None:
        (trial.checkpoint_dir / "state").unlink()
    return quadratic(trial)


@pytest.mark.parametrize("how", ["here", "workers", "pool"])
@pytest.mark.usefixtures("no_delay")
def test_a_trial_is_started_again_and_counts_as_neither_failed_nor_lost(how: str, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    called: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        places: dict[str, Any] = {"here": {}, "workers": {"workers": 2}, "pool": {"executor": pool}}
        study = run(twice, journal=path, callbacks=[lambda s: called.append(s.latest[0].number)], **places[how])
    assert [o.status for o in study.history.outcomes.values()] == [Status.OK] * 12
    assert sorted(called) == list(range(12)), "a callback is called when a trial ends, not when it asks again"
    assert study.history.losses == {}
    assert {n: len(times) for n, times in study.history.retries.items()} == {2: 2, 5: 2}
    assert {n: t.attempt for n, t in study.history.trials.items() if t.attempt > 1} == {2: 3, 5: 3}
    lost = [event for event in stored_events(path, "study") if isinstance(event, TrialLost)]
    assert [(event.retry, event.counts, event.reason) for event in lost] == [(True, False, REASON)] * 4
    assert replay(path).ok
    assert f"put back  4 times: {REASON}" in call("status", path).stdout
    assert f"It had asked 2 times to be started again, at last: {REASON}." in call("why", "2", path).stdout


def test_a_trial_waits_before_it_starts_again_and_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.core.decide.retry_delay", lambda n: 4.0)  # more than the others take on a busy machine
    path = tmp_path / "a.db"
    run(lambda trial: quadratic(trial) if trial.number or trial.attempt > 1 else _ask(), journal=path, max_trials=3)
    events = list(stored_events(path, "study"))
    (put_back,) = (event.time for event in events if isinstance(event, TrialLost))
    starts = {(e.trial.number, e.trial.attempt): e.time for e in events if isinstance(e, TrialStarted)}
    assert put_back is not None
    assert (starts[0, 2] or 0) - put_back >= 4
    assert list(starts) == [(0, 1), (1, 1), (2, 1), (0, 2)]


def test_a_study_with_a_deadline_waits_for_a_trial_that_asked_for_another_try_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bohb.core.decide.retry_delay", lambda n: 1.0)
    study = run(lambda trial: quadratic(trial) if trial.attempt > 1 else _ask(), max_trials=2, max_seconds=3600)
    assert (list(study.history.outcomes), study.history.lost) == ([0, 1], {})
    monkeypatch.setattr("bohb.core.decide.retry_delay", lambda n: 300.0)
    study = run(lambda trial: quadratic(trial) if trial.number else _ask(), max_trials=2, max_seconds=100)
    assert (list(study.history.outcomes), list(study.history.lost)) == ([1], [0]), "nobody waits in vain"


def _ask() -> float:
    raise Retry(REASON)


@pytest.mark.usefixtures("no_delay")
def test_a_trial_that_asks_too_often_fails_with_its_reason() -> None:
    study = run(lambda trial: _ask() if trial.number == 1 else quadratic(trial))
    ((trial, outcome),) = study.failures
    assert (trial.number, trial.attempt, outcome.status) == (1, RETRIES, Status.CRASHED)
    assert outcome.error == f"asked {RETRIES} times to be started again, at last: {REASON}"


@pytest.mark.usefixtures("no_delay")
def test_an_evaluation_of_a_confirmation_may_ask_for_another_try() -> None:
    study = run(lambda trial: _ask() if trial.number >= 12 and trial.attempt == 1 else quadratic(trial), preset="paper")
    found = study.confirm(top=2, repeats=2, progress=False)
    assert found.finished
    assert all(outcome.ok for outcome in found.outcomes.values())
    never = study.confirm(top=2, repeats=3, objective=lambda trial: _ask(), progress=False)
    assert {o.error for o in never.outcomes.values()} == {
        f"asked {RETRIES} times to be started again, at last: {REASON}"
    }


@pytest.mark.usefixtures("no_delay")
def test_a_command_asks_for_another_try_by_exit_code_75(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text(
        "test -e started || { touch started; echo 'no GPU here' >&2; exit 75; }\necho 0.5\n"
    )
    (tmp_path / "study.toml").write_text(
        'command = "sh train.sh"\nseed = 1\nworkers = 0\n\n[budget]\nmin = 1\nmax = 3\n\n'
        "[space]\nx = {float = [0, 1]}\n\n[limits]\nmax_trials = 2\n"
    )
    call("run", tmp_path / "study.toml", "--quiet")
    history = bohb.load(tmp_path / "study.db").history
    assert [again.reason for again in history.retries[0]] == ["exit code 75: no GPU here"]
    assert all(outcome.ok for outcome in history.outcomes.values())
