"""Callbacks: called after each finished trial; they may fail, stop the study and add configurations."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Origin, Outcome, RunningStudy, Trial, minimize, replay
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from tests import objectives
from tests.objectives import SPACE


def run(objective: Any = objectives.quadratic, space: Any = SPACE, **keywords: Any) -> bohb.Study:
    return minimize(objective, space, **{"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, **keywords})


@pytest.mark.parametrize("workers", [None, 2])
def test_a_callback_is_called_once_after_every_finished_trial(workers: int | None) -> None:
    seen: list[tuple[Trial, Outcome]] = []

    def note(study: RunningStudy) -> None:
        assert study.latest in study.trials
        assert study.stopped == ""
        seen.append(study.latest)

    study = run(objectives.half_nan, callbacks=[note], max_trials=20, workers=workers)
    assert sorted(seen, key=lambda pair: pair[0].number) == study.trials
    assert study.failures


def test_a_result_is_stored_before_a_callback_sees_it(tmp_path: Path) -> None:
    stored: list[bool] = []

    def look(study: RunningStudy) -> None:
        stored.append(study.latest in bohb.load(tmp_path / "a.db").trials)

    run(journal=tmp_path / "a.db", callbacks=[look], max_trials=4)
    assert stored == [True] * 4


def test_a_failing_callback_is_reported_once_and_the_study_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def broken(study: RunningStudy) -> None:
        calls.append(study.latest[0].number)
        raise RuntimeError("the disk of the callback is full")

    after: list[RunningStudy] = []
    with caplog.at_level(logging.WARNING, "bohb"):
        study = run(callbacks=[broken, after.append], max_trials=5)
    assert study.stopped == "max_trials=5 reached"
    assert len(calls) == len(after) == len(study.trials) == 5
    [record] = caplog.records
    assert "broken failed after trial 0; the study goes on" in record.getMessage()
    assert record.exc_info is not None
    assert "the disk of the callback is full" in str(record.exc_info[1])


def test_the_decisions_of_a_study_do_not_depend_on_its_callbacks() -> None:
    assert run(max_trials=30).history.trials == run(max_trials=30, callbacks=[lambda _: 1 / 0]).history.trials


@pytest.mark.parametrize("workers", [None, 2])
def test_a_callback_stops_the_study_which_can_be_resumed(workers: int | None, tmp_path: Path) -> None:
    def stop(study: RunningStudy) -> None:
        if len(study.history.outcomes) >= 5:
            study.stop("five are enough")

    arguments: dict[str, Any] = {"journal": tmp_path / "a.db", "workers": workers, "max_trials": 20}
    first = run(callbacks=[stop], **arguments)
    assert first.stopped == "five are enough"
    assert 5 <= len(first.trials) <= 6
    assert not first.history.pending  # running trials were finished
    assert len(run(**arguments).trials) == 20
    assert replay(tmp_path / "a.db").ok


def test_a_stopped_study_says_that_a_callback_stopped_it() -> None:
    assert run(callbacks=[lambda study: study.stop()]).stopped == "a callback stopped the study"


def test_a_callback_adds_configurations_that_run_next(tmp_path: Path) -> None:
    config = {"x": 0.25, "y": 0.75}
    answers: list[bool] = []
    study = run(
        callbacks=[lambda study: answers.append(study.enqueue(config))], journal=tmp_path / "a.db", max_trials=12
    )
    given = [trial for trial, _ in study.trials if trial.origin is Origin.GIVEN]
    assert [trial.number for trial in given] == [1]
    assert given[0].config == config
    assert answers == [True] + [False] * 11
    assert replay(tmp_path / "a.db").exact


def test_an_enqueued_configuration_must_belong_to_the_space() -> None:
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    with pytest.raises(InvalidArgument, match="7"):
        optimizer.enqueue({"x": 7, "y": 0.5})
    assert not optimizer.history.given


def test_a_stored_study_is_continued_with_what_was_enqueued(tmp_path: Path) -> None:
    run(journal=tmp_path / "a.db", max_trials=3)
    with SqlJournal(tmp_path / "a.db") as journal:
        optimizer = BOHB.from_journal(journal)
        assert optimizer.enqueue({"x": 0.5, "y": 0.5})
        assert not optimizer.enqueue({"x": 0.5, "y": 0.5})
    trial, _ = run(journal=tmp_path / "a.db", max_trials=4).trials[3]
    assert (trial.origin, trial.config) == (Origin.GIVEN, {"x": 0.5, "y": 0.5})


def test_another_thread_may_stop_a_running_study_and_is_refused_to_change_it() -> None:
    answers: list[BaseException | None] = []

    def elsewhere(act: Callable[[], object]) -> None:
        def attempt() -> None:
            try:
                act()
                answers.append(None)
            except InvalidArgument as error:
                answers.append(error)

        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join(60)

    def callback(study: RunningStudy) -> None:
        elsewhere(lambda: study.enqueue({"x": 0.5, "y": 0.5}))
        elsewhere(lambda: study.note("seen"))
        elsewhere(lambda: study.stop("from a thread"))

    study = run(callbacks=[callback], max_trials=9)
    assert (study.stopped, len(study.trials)) == ("from a thread", 1)
    assert ["bohb.load('study.db').enqueue" in str(answer) for answer in answers] == [True, True, False]
    assert not study.history.given


def test_what_a_callback_does_to_its_study_changes_nothing() -> None:
    def vandal(study: RunningStudy) -> None:
        trial, outcome = study.latest
        trial.config["x"] = 99
        outcome.info.clear()
        study.history.outcomes.clear()
        study.history.pending.clear()
        study.history.schedule.ready.clear()
        for bracket in study.history.brackets:
            bracket.survivors.clear()

    assert run(max_trials=30, callbacks=[vandal]).history.trials == run(max_trials=30).history.trials


@pytest.mark.parametrize("journal", [None, "a.db"])
def test_a_callback_may_change_every_configuration_that_it_sees_and_no_decision_changes(
    journal: str | None, tmp_path: Path
) -> None:
    def objective(trial: Trial) -> dict[str, float]:
        return {"loss": objectives.quadratic(trial), "memory": trial.config["x"]}

    seen: list[int] = []

    def vandal(study: RunningStudy) -> None:
        for result in (*study.trajectory, *study.history.results):
            result.config["y"] = 0.5
            result.values["memory"] = 9.0
        for trial, _ in study.trials:
            trial.config["x"] = 0.5
        seen.append(len(study.trials))

    goal: dict[str, Any] = {"constraints": {"memory": "<= 0.4"}, "max_trials": 60}
    where = None if journal is None else tmp_path / journal
    study = run(objective, callbacks=[vandal], journal=where, **goal)
    assert study.history.trials == run(objective, **goal).history.trials
    assert seen == list(range(1, 61))
    assert where is None or replay(where).exact


def test_what_a_callback_destroys_is_made_again_for_the_next_one() -> None:
    seen: list[int] = []

    def vandal(study: RunningStudy) -> None:
        seen.append(sum(len(outcome.values) for _, outcome in study.trials if outcome is not None))
        for _, outcome in study.trials:
            if outcome is not None:
                outcome.values.clear()

    def objective(trial: Trial) -> dict[str, float]:
        return dict(trial.config)

    run(objective, objectives=["x", "y"], callbacks=[vandal], max_trials=4)
    assert seen == [2, 4, 6, 8]  # an emptied result cannot be compared with the next one


def test_a_reason_to_stop_must_be_a_text_and_an_empty_one_gets_words(caplog: pytest.LogCaptureFixture) -> None:
    assert run(max_trials=2, callbacks=[lambda study: study.stop(object())]).stopped == "max_trials=2 reached"
    assert "reason=<object object" in caplog.text
    assert run(callbacks=[lambda study: study.stop("")]).stopped == "a callback stopped the study"


def test_a_callback_that_exits_ends_the_session_and_loses_no_result(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        run(journal=tmp_path / "a.db", workers=2, callbacks=[lambda study: sys.exit(3)], max_trials=9)
    assert bohb.load(tmp_path / "a.db").history.outcomes
    assert len(run(journal=tmp_path / "a.db", max_trials=9).trials) == 9


@pytest.mark.parametrize("callbacks", [print, 3, [None]])
def test_callbacks_must_be_a_list_of_functions(callbacks: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="callbacks"):
        run(journal=tmp_path / "a.db", callbacks=callbacks)
    assert not (tmp_path / "a.db").exists()
