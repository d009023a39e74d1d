"""Which lost trials are given up, and which are victims of an outage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Limits, Status
from bohb.core.trial import Lost, Trial
from bohb.errors import WorkersUnavailable
from bohb.executors.base import Done
from bohb.executors.evaluate import InlineExecutor
from bohb.journal import SqlJournal
from tests import objectives
from tests.objectives import SPACE


class LosingExecutor:
    """Runs trials in this process, `slots` at once, and loses those that a function names."""

    def __init__(self, slots: int, loses: Any, charged: bool = True) -> None:
        self.slots = slots
        self._loses, self._charged = loses, charged
        self._inner = InlineExecutor(objectives.quadratic)
        self._running = 0

    def submit(self, trial: Trial) -> None:
        self._running += 1
        self._inner.submit(trial)

    def wait(self, timeout: float | None) -> list[Done]:
        """Return the results of all submitted trials, so that they are lost together."""
        ended = [self._inner.wait(timeout)[0] for _ in range(self._running)]
        self._running = 0
        return [Done(done.trial, Lost("gone", self._charged)) if self._loses(done.trial) else done for done in ended]

    def shutdown(self, kill: bool) -> None:
        self._inner.shutdown(kill)


def run(executor: LosingExecutor, trials: int = 20, journal: Any = None) -> bohb.History:
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
    history = bohb.run(optimizer, executor, Limits(max_trials=trials)).history
    assert len(history.outcomes) == trials
    assert bohb.replay(optimizer.events).ok
    return history


def failed(history: bohb.History) -> dict[int, Status]:
    return {number: outcome.status for number, outcome in history.outcomes.items() if not outcome.ok}


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_trials_that_always_kill_their_workers_fail_even_if_they_fill_all_slots(slots: int) -> None:
    killers = set(range(2, 2 + slots))
    history = run(LosingExecutor(slots, lambda trial: trial.number in killers))
    assert failed(history) == dict.fromkeys(killers, Status.LOST)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_an_outage_in_which_every_trial_is_lost_fails_none(slots: int) -> None:
    submitted: list[int] = []

    def down(trial: Trial) -> bool:
        submitted.append(trial.number)
        return 5 <= len(submitted) < 5 + 6 * slots

    assert failed(run(LosingExecutor(slots, down))) == {}


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_session_whose_trials_are_all_killed_ends_soon_and_names_memory(
    slots: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.running.loop.FIRST_PAUSE", 0.001)
    with SqlJournal(tmp_path / "a.db") as journal:
        with pytest.raises(WorkersUnavailable, match=r"killed while .*: gone; .* more memory than there is"):
            run(LosingExecutor(slots, lambda trial: True), journal=journal)
        history = run(LosingExecutor(slots, lambda trial: False), journal=journal)
    assert failed(history) == {}


@pytest.mark.parametrize("charged", [True, False])
def test_a_burst_of_killed_trials_after_others_have_ended_is_named_as_lack_of_memory(
    charged: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.running.loop.FIRST_PAUSE", 0.001)
    submitted: list[int] = []

    def killed(trial: Trial) -> bool:
        submitted.append(trial.number)
        return 5 <= len(submitted) < 20

    assert failed(run(LosingExecutor(2, killed, charged))) == {}
    named = "were killed while they ran: the objective probably needs more memory" in caplog.text
    assert named == charged  # trials that never began were not killed by their own doing


def test_a_last_trial_with_nothing_to_compare_to_is_given_up() -> None:
    history = run(LosingExecutor(1, lambda trial: trial.number == 9), trials=10)
    assert failed(history) == {9: Status.LOST}


def test_a_session_that_only_loses_trials_ends_with_an_error_and_its_trials_start_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.running.loop.GIVE_UP_SECONDS", 0.2)
    with SqlJournal(tmp_path / "a.db") as journal:
        with pytest.raises(WorkersUnavailable, match="every trial has lost its worker, at last: gone"):
            run(LosingExecutor(2, lambda trial: trial.number >= 5, charged=False), journal=journal)
        history = run(LosingExecutor(2, lambda trial: False), journal=journal)
    assert failed(history) == {}
    assert not history.losses
