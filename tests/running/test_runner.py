"""minimize: limits, progress, learning curves, duplicates and early ends."""

from __future__ import annotations

import io
import logging
import math
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bohb
from bohb import BOHB, Limits, Origin, Status, Trial, minimize
from bohb.core.settings import PRESETS
from bohb.core.trial import Lost
from bohb.errors import InvalidArgument
from bohb.executors.base import Done
from bohb.executors.evaluate import InlineExecutor
from bohb.running.checkpoints import Checkpoints
from bohb.running.progress import Progress
from tests import objectives
from tests.objectives import SPACE


def run(objective: Any = objectives.quadratic, space: Any = SPACE, **keywords: Any) -> bohb.Study:
    return minimize(objective, space, **{"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, **keywords})


@pytest.mark.parametrize("workers", [None, 1, 3])
def test_a_study_finds_a_good_configuration(workers: int | None) -> None:
    study = run(max_trials=120, workers=workers)
    assert study.incumbent is not None
    assert study.incumbent.budget == 9
    assert abs(study.incumbent.config["x"] - 0.3) < 0.2
    assert len(study.trials) == 120
    assert study.stopped == "max_trials=120 reached"
    assert "best      loss" in str(study)


def test_serial_studies_in_and_out_of_process_are_the_same() -> None:
    inside, outside = run(max_trials=60), run(max_trials=60, workers=1)
    assert inside.history.trials == outside.history.trials
    assert [o.loss for o in inside.history.outcomes.values()] == [o.loss for o in outside.history.outcomes.values()]


def test_without_a_limit_one_round_of_hyperband_is_run() -> None:
    study = run()
    assert study.stopped == "all 3 brackets are complete"
    assert len(study.history.trials) == study.plan().trials == 13 + 6 + 3


def test_max_cost_counts_full_evaluations_with_continuation() -> None:
    study = run(max_cost=5)
    assert 5 <= study.cost < 6
    assert study.stopped == "max_cost=5 reached"
    spent = sum(t.budget - (t.previous_budget or 0) for t in study.history.trials.values())
    assert study.cost == pytest.approx(spent / 9)


def slow(trial: Trial) -> float:
    time.sleep(0.01)
    return 0.5


def test_reported_cost_time_target_and_patience_stop_a_study() -> None:
    assert run(lambda t: {"loss": 1, "cost": 2.5}, max_reported_cost=10).history.cost_reported == 10
    assert run(slow, max_seconds=0.1).stopped.startswith("max_seconds=0.1")
    hit = run(target_loss=0.05, max_trials=5000)
    assert hit.stopped.startswith("target_loss=0.05 reached")
    assert hit.incumbent is not None
    assert hit.incumbent.loss <= 0.05
    assert run(lambda t: 1.0, patience=4).stopped == "patience=4 reached"


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_trials", 0), ("max_seconds", -1), ("max_cost", math.nan), ("max_brackets", "3"), ("patience", True)],
)
def test_bad_limits_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}={value!r} must be"):
        Limits(**{name: value})


def test_bad_arguments_are_refused_before_anything_runs() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"trial_seconds": 1}, "workers=1 or more"),
        ({"workers": 0}, "workers=0"),
        ({"max_attempts": 0}, "max_attempts=0"),
        ({"checkpoint_quota": -1}, "checkpoint_quota=-1"),
        ({"objective": 3, "workers": 1}, "objective=3 must be callable"),
        ({"objective": None}, "must be callable"),
        ({"journal": 7}, "journal=7"),
    ]
    for keywords, message in cases:
        with pytest.raises(InvalidArgument, match=message):
            run(**keywords)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_can_be_given_by_name(name: str) -> None:
    assert run(preset=name, max_trials=1).history.settings == PRESETS[name]


def test_an_unknown_preset_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(InvalidArgument, match="preset='bset' must be one of 'best', 'paper', 'hpb"):
        BOHB(SPACE, min_budget=1, max_budget=9, preset="bset")  # type: ignore[arg-type]


def test_a_study_whose_first_trials_all_fail_stops_and_says_why() -> None:
    study = run(objectives.failing, max_trials=500)
    assert len(study.history.trials) == 10
    assert "the first 10 trials all failed, 10 of them with: RuntimeError: always" in study.stopped
    assert study.incumbent is None
    assert len(study.failures) == 10
    assert len(run(objectives.failing, max_trials=40, max_initial_failures=None).history.trials) == 40


def test_bad_returns_become_failed_trials_with_a_message() -> None:
    for value, status in [(None, Status.BAD_RESULT), ("x", Status.BAD_RESULT), (math.nan, Status.DIVERGED)]:
        study = run(lambda t, value=value: value, max_trials=3)
        assert {o.status for o in study.history.outcomes.values()} == {status}


@pytest.mark.parametrize("workers", [None, 1])
def test_tuples_among_the_choices_stay_tuples(workers: int | None) -> None:
    def objective(trial: Trial) -> float:
        assert isinstance(trial.config["layers"], tuple)
        return float(len(trial.config.pop("layers")))

    study = run(objective, {"layers": [(64,), (32, 32)], "x": (0.0, 1.0)}, max_trials=15, workers=workers)
    assert study.failures == []
    assert study.incumbent is not None
    assert study.incumbent.config["layers"] == (64,)


def test_a_disk_that_cannot_hold_checkpoints_pauses_the_study_and_loses_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(tmp_path, "study")
    prepare, keep = checkpoints.prepare, checkpoints.keep
    trouble = {3: 2, 7: 1}  # how often preparing these trials fails

    def failing_prepare(trial: Trial) -> Trial:
        if trouble.get(trial.number, 0):
            trouble[trial.number] -= 1
            raise OSError(28, "No space left on device")
        return prepare(trial)

    def failing_keep(trial: Trial) -> None:
        if trial.number == 5:
            raise OSError(5, "Input/output error")
        keep(trial)

    monkeypatch.setattr(checkpoints, "prepare", failing_prepare)
    monkeypatch.setattr(checkpoints, "keep", failing_keep)
    monkeypatch.setattr("bohb.running.runner.time.sleep", lambda _: None)
    study = bohb.run(
        BOHB(SPACE, min_budget=1, max_budget=9, seed=0),
        InlineExecutor(objectives.quadratic),
        Limits(max_trials=13),
        checkpoints,
    )
    assert [o.ok for o in study.history.outcomes.values()] == [True] * 13
    assert trouble == {3: 0, 7: 0}
    assert "the checkpoint of trial 5 is lost" in caplog.text


def test_learning_curves_are_kept() -> None:
    def objective(trial: Trial) -> float:
        for step in range(int(trial.budget)):
            trial.report(step, 1 / (step + 1))
        return 1 / trial.budget

    for workers in (None, 1):
        study = run(objective, max_trials=13, workers=workers)
        for trial, outcome in study.trials:
            assert outcome is not None
            assert outcome.curve == tuple((float(s), 1 / (s + 1)) for s in range(int(trial.budget)))


class FlakyExecutor:
    """Loses the worker of chosen trials, as often as told."""

    def __init__(self, losses: dict[int, int]) -> None:
        self._inner = InlineExecutor(objectives.quadratic)
        self._losses = losses
        self.started: list[tuple[int, int]] = []

    @property
    def slots(self) -> int:
        return 1

    def submit(self, trial: Trial) -> None:
        self.started.append((trial.number, trial.attempt))
        self._inner.submit(trial)

    def wait(self, timeout: float | None) -> list[Done]:
        done = list(self._inner.wait(timeout))
        left = self._losses.get(done[0].trial.number, 0)
        if left:
            self._losses[done[0].trial.number] = left - 1
            return [Done(done[0].trial, Lost("gone"))]
        return done

    def shutdown(self, kill: bool) -> None:
        self._inner.shutdown(kill)


def test_a_lost_trial_is_started_again_and_given_up_after_three_attempts() -> None:
    executor = FlakyExecutor({2: 2, 5: 9, 12: 1})
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    study = bohb.run(optimizer, executor, Limits(max_trials=13))
    attempts: dict[int, list[int]] = {}
    for number, attempt in executor.started:
        attempts.setdefault(number, []).append(attempt)
    assert attempts[2] == [1, 2, 3]
    assert attempts[5] == [1, 2, 3]
    assert attempts[12] == [1, 2], "the last trial is tried again although the limit is reached"
    assert study.history.outcomes[2].ok
    assert study.history.outcomes[5].status is Status.LOST
    assert "3 times, at last: gone" in str(study.history.outcomes[5].error)
    assert len(study.history.outcomes) == 13
    assert bohb.replay(optimizer.events).ok


def test_failures_teach_without_drowning() -> None:
    """NaN over half of a 2-D space: at most 15 of the 100 trials after the first 20 fail, over 10 seeds on average."""
    failed = []
    for seed in range(10):
        study = run(objectives.half_nan, budgets=[1], min_budget=None, max_budget=None, max_trials=120, seed=seed)
        later = [o for n, o in study.history.outcomes.items() if n >= 20]
        failed.append(sum(not o.ok for o in later))
    assert sum(failed) / len(failed) <= 10
    assert max(failed) <= 15


def test_small_spaces_are_not_evaluated_twice_on_one_budget_and_end_when_exhausted() -> None:
    calls: list[tuple[Any, float]] = []

    def objective(trial: Trial) -> float:
        calls.append((tuple(trial.config.items()), trial.budget))
        return float(trial.config["a"])

    study = run(objective, {"a": (1, 6), "b": ["x", "y"]}, max_trials=10_000)
    assert study.stopped == "every configuration of the space has been evaluated"
    assert len(calls) == len(set(calls))
    on_full_budget = {config for config, budget in calls if budget == 9}
    assert len(on_full_budget) == 12
    assert study.incumbent is not None
    assert study.incumbent.config["a"] == 1


def test_duplicates_are_allowed_if_asked_for() -> None:
    study = run(lambda t: 0.0, {"a": (1, 2)}, max_trials=50, duplicates=True)
    assert len(study.history.trials) == 50


def test_a_promotion_whose_result_is_known_reuses_it() -> None:
    study = run(lambda t: float(t.config["a"]), {"a": (1, 25)}, max_trials=10_000)
    reused = [t for t in study.history.trials.values() if t.reuses is not None]
    assert reused
    for trial in reused:
        assert trial.origin is Origin.PROMOTED
        assert trial.reuses is not None
        twin = study.history.trials[trial.reuses]
        assert (twin.config, twin.budget) == (trial.config, trial.budget)


def test_a_large_finite_space_is_not_enumerated() -> None:
    study = run(lambda t: float(t.config["a"]), {"a": (1, 10**6), "b": (1, 10**6)}, max_trials=40)
    assert len(study.history.trials) == 40


def test_in_a_terminal_progress_shows_counts_rungs_and_the_best() -> None:
    stream = io.StringIO()
    study = run(objectives.half_nan, max_trials=30)
    with Progress(Limits(max_trials=30, max_seconds=60), Console(file=stream, force_terminal=True)) as progress:
        progress.update(study.history, 1.5, final=True)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert f"30 of 30 finished ({len(study.failures)} failed), 0 running" in shown
    assert "best" in shown
    assert "1.5 s of 1 min" in shown


def test_nothing_is_logged_unless_asked_for(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(objectives.half_nan, max_trials=20)
    assert capfd.readouterr() == ("", "")
    with caplog.at_level(logging.INFO, "bohb"):
        run(objectives.half_nan, max_trials=20)
    assert any("failed: the loss is nan" in record.message for record in caplog.records)


def test_output_of_trials_is_kept_in_the_studys_directory_and_ends_with_where_the_time_went(tmp_path: Path) -> None:
    def objective(trial: Trial) -> float:
        print(f"hello from {trial.number}")  # noqa: T201
        return 1.0

    run(objective, workers=1, max_trials=3, directory=tmp_path)
    logs = sorted((tmp_path / "study" / "logs").glob("*.log"))
    times = r"\[bohb: start-up [\d.]+ m?s, objective [\d.]+ m?s, checkpoint [\d.]+ m?s\]\n"
    assert len(logs) == 3
    for n, path in enumerate(logs):
        assert re.fullmatch(f"hello from {n}\n{times}", path.read_text())


def test_a_study_runs_outside_the_main_thread() -> None:
    import threading

    result: list[bohb.Study] = []
    thread = threading.Thread(target=lambda: result.append(run(max_trials=5)))
    thread.start()
    thread.join(60)
    assert len(result[0].trials) == 5


def calls_per_trial(trials: int, **keywords: Any) -> tuple[bohb.History, dict[int, Counter[tuple[str, str]]]]:
    """Return for each trial the calls of functions below src/bohb from its objective to that of the next trial."""
    root = str(Path(bohb.__file__).parent)
    found: dict[int, Counter[tuple[str, str]]] = {}

    def count(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found[max(found)][frame.f_code.co_filename.removeprefix(root), frame.f_code.co_qualname] += 1

    def objective(trial: Trial) -> float:
        found[trial.number] = Counter()
        sys.setprofile(count)
        return float((trial.config["x"] - 0.3) ** 2 + 1 / trial.budget)

    try:
        study = run(objective, preset="paper", max_trials=trials, **keywords)
    finally:
        sys.setprofile(None)
    return study.history, found


def test_a_trial_in_the_middle_of_a_rung_costs_at_most_250_calls_in_25_modules() -> None:
    """In memory, with checkpoints, without callbacks and progress; the next configuration is drawn at random."""
    history, found = calls_per_trial(60)
    middle = [
        n
        for n in range(20, 59)
        if (pair := [history.trials[n], history.trials[n + 1]])
        and len({(trial.bracket, trial.rung) for trial in pair}) == 1
        and pair[1].origin is Origin.RANDOM
    ]
    assert len(middle) >= 3
    for number in middle:
        assert found[number].total() <= 250
        assert len({file for file, _ in found[number]}) <= 25


@pytest.mark.parametrize("stored", [False, True])
def test_the_result_of_a_trial_is_read_checked_and_stored_once(stored: bool, tmp_path: Path) -> None:
    _, found = calls_per_trial(40, journal=tmp_path / "a.db" if stored else None)
    for number in range(20, 39):
        names: Counter[str] = Counter()
        for (_, name), n in found[number].items():
            names[name] += n
        assert (names["outcome_of"], names["check_storable"], names["Ledger.catch_up"]) == (1, 1, 2)
        assert names["Ledger.store"] == 2  # the start of a trial and its result
