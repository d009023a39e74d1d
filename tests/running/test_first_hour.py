"""The mistakes of the first hour: each is understood or answered with what to write instead."""

from __future__ import annotations

import logging
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Limits, Origin, Trial, minimize, replay
from bohb.cli.run import run as run_command
from bohb.core.events import FailuresForgotten
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from bohb.running.minimize import MinimizeOptions
from bohb.studyfile.load import TABLES
from tests import objectives
from tests.objectives import SPACE

DISCRETE = {"a": [1, 2, 3], "b": ["x", "y"]}


def run(objective: Any = objectives.quadratic, space: Any = SPACE, **keywords: Any) -> bohb.Study:
    return minimize(objective, space, **{"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, **keywords})


def broken(trial: Trial) -> float:
    raise RuntimeError("no such file: data.csv")


@pytest.mark.parametrize("limits", [{"max_trials": 4}, {"max_brackets": 1}])
def test_limits_do_not_count_failures_of_a_broken_objective(limits: dict[str, Any], tmp_path: Path) -> None:
    run(broken, journal=tmp_path / "a.db", max_initial_failures=None, **limits)
    fixed = run(journal=tmp_path / "a.db", **limits)
    assert len(fixed.history.results) == (4 if "max_trials" in limits else 6)


def test_a_fixed_objective_runs_where_the_broken_one_was_stopped(tmp_path: Path) -> None:
    first = run(broken, journal=tmp_path / "a.db")
    assert "the first 10 trials all failed, 10 of them with: RuntimeError: no such file" in first.stopped
    assert "run again" in first.stopped
    assert "the first 10 trials all failed" in run(broken, journal=tmp_path / "a.db").stopped  # and once more
    fixed = run(journal=tmp_path / "a.db")
    assert fixed.incumbent is not None
    assert fixed.incumbent.budget == 9
    assert fixed.history.forgotten == {trial.number for trial, _ in fixed.failures}
    assert replay(tmp_path / "a.db").exact


def test_causes_that_differ_in_every_trial_are_shown_by_an_example() -> None:
    def differs(trial: Trial) -> float:
        raise RuntimeError(f"bad x = {trial.config['x']}")

    assert "the first 10 trials all failed, for example with: RuntimeError: bad x = " in run(differs).stopped


@pytest.mark.parametrize("preset", ["paper", "best"])
def test_failures_of_a_broken_objective_do_not_steer_the_sampler(preset: str, tmp_path: Path) -> None:
    run(broken, journal=tmp_path / "a.db", preset=preset)
    fixed = run(journal=tmp_path / "a.db", preset=preset, max_trials=60)
    history = fixed.history
    assert history.evidence.n_failures == 0
    assert not history.evidence.recent_failed
    assert sum(len(d_b) for d_b in history.evidence.observations.values()) == 60
    assert history.n_failed == 10  # they keep their places
    assert any(trial.origin is Origin.MODEL for trial in history.trials.values())
    assert replay(tmp_path / "a.db").exact


def test_failures_among_successes_stay_evidence_unless_they_are_to_be_forgotten(tmp_path: Path) -> None:
    first = run(objectives.half_nan, journal=tmp_path / "a.db", max_trials=20)
    assert first.failures
    again = run(objectives.half_nan, journal=tmp_path / "a.db", max_trials=21)
    assert not again.history.forgotten
    forgiving = run(journal=tmp_path / "a.db", max_trials=22, forget_failures=True)
    assert forgiving.history.forgotten == {trial.number for trial, _ in again.failures}
    assert forgiving.history.evidence.n_failures == 0
    with SqlJournal(tmp_path / "a.db", read_only=True) as journal:
        assert [e for e in journal.read() if isinstance(e, FailuresForgotten)] == [FailuresForgotten(2, 0)]
    assert replay(tmp_path / "a.db").exact


def test_only_the_failures_of_the_session_that_failed_are_forgotten(tmp_path: Path) -> None:
    first = run(objectives.half_nan, journal=tmp_path / "a.db", max_trials=20)
    run(broken, journal=tmp_path / "a.db", max_trials=23)
    fixed = run(journal=tmp_path / "a.db", max_trials=24)
    assert fixed.history.forgotten == {trial.number for trial, _ in fixed.failures} - {
        t.number for t, _ in first.failures
    }


@pytest.mark.parametrize(("first", "failures", "forgotten"), [(1, 1, 0), (1, 2, 0), (1, 3, 3), (0, 1, 1)])
def test_a_session_that_only_failed_is_forgotten_if_nothing_ever_succeeded_or_after_three_failures(
    first: int, failures: int, forgotten: int, tmp_path: Path
) -> None:
    if first:
        run(journal=tmp_path / "a.db", max_trials=first)
    run(broken, journal=tmp_path / "a.db", max_trials=first + failures)
    fixed = run(journal=tmp_path / "a.db", max_trials=first + failures + 1)
    assert len(fixed.history.forgotten) == forgotten
    assert fixed.history.evidence.n_failures == failures - forgotten


def test_failures_of_sessions_with_one_trial_each_stay_evidence(tmp_path: Path) -> None:
    for n in range(1, 5):
        study = run(broken if n > 1 else objectives.quadratic, journal=tmp_path / "a.db", max_trials=n)
    assert study.history.evidence.n_failures == 3
    assert not study.history.forgotten


def test_configurations_of_forgotten_failures_may_be_proposed_again(tmp_path: Path) -> None:
    budgets: dict[str, Any] = {"budgets": [1], "min_budget": None, "max_budget": None}
    run(broken, DISCRETE, journal=tmp_path / "a.db", max_trials=6, **budgets)
    fixed = run(lambda t: float(t.config["a"]), DISCRETE, journal=tmp_path / "a.db", max_trials=12, **budgets)
    assert len({tuple(result.config.values()) for result in fixed.history.results}) == 6
    assert replay(tmp_path / "a.db").exact


def test_folding_forgotten_failures_in_two_parts_equals_folding_once(tmp_path: Path) -> None:
    run(objectives.half_nan, journal=tmp_path / "a.db", max_trials=20)
    whole = run(journal=tmp_path / "a.db", max_trials=30, forget_failures=True).history
    with SqlJournal(tmp_path / "a.db", read_only=True) as journal:
        events = list(journal.read())
    parts = bohb.History().extend(events[:25]).extend(events[25:])
    assert parts.forgotten == whole.forgotten
    assert {b: d.losses.tolist() for b, d in parts.evidence.observations.items()} == {
        b: d.losses.tolist() for b, d in whole.evidence.observations.items()
    }


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("n_trials", "did you mean 'max_trials'?"),
        ("max_trial", "did you mean 'max_trials'?"),
        ("random_fracton", "did you mean 'random_fraction'?"),
        ("n_jobs", "did you mean 'workers'?"),
        ("timeout", "use max_seconds for the whole study or trial_seconds"),
        ("directions", "a minus for each value to maximise"),
        ("pruner", "the brackets already stop poor configurations"),
        ("qqqq", "help(bohb.minimize)"),
    ],
)
def test_an_unknown_argument_is_answered_with_the_one_that_was_meant(name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        run(**{name: 3})
    assert f"there is no argument {name!r}; " in str(caught.value)
    assert hint in str(caught.value)


def test_ask_and_tell_need_no_callbacks() -> None:
    with pytest.raises(
        InvalidArgument, match=r"argument of bohb\.minimize; with ask and tell, call your functions after"
    ):
        BOHB(SPACE, min_budget=1, max_budget=9, callbacks=[print])  # type: ignore[call-arg]


def test_the_optimizer_refuses_unknown_arguments_too() -> None:
    with pytest.raises(InvalidArgument, match="did you mean 'max_budget'"):
        BOHB(SPACE, min_budget=1, max_budgt=9)  # type: ignore[call-arg]


def test_a_warm_start_can_be_a_study_a_journal_or_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    earlier = run(journal=path, max_trials=5)
    with SqlJournal(path, read_only=True) as journal:
        for source, n in ((earlier, 5), (path, 5), (str(path), 5), (journal, 5), ([earlier, str(path)], 10)):
            assert len(run(warm_start=source, max_trials=1).history.observed) == n


def test_a_warm_start_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(journal=tmp_path / "a.db", study=name, max_trials=1)
    for source, message in (
        (tmp_path / "none.db", "there is no such file"),
        (tmp_path / "a.db", r"name one of them as .*a\.db::NAME; it has one, two"),
        (7, "warm_start=7 must be a Study"),
        ({"lr": 1}, "must be a Study"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            run(warm_start=source, max_trials=1)


def test_a_single_initial_configuration_is_refused_with_the_list_to_write() -> None:
    with pytest.raises(InvalidArgument, match=r"write initial_configs=\[\{…\}\]"):
        run(initial_configs={"x": 0.5, "y": 0.5})


def test_initial_configurations_of_a_later_call_are_added_once(tmp_path: Path) -> None:
    first, second = {"x": 0.25, "y": 0.5}, {"x": 0.75, "y": 0.5}
    run(journal=tmp_path / "a.db", initial_configs=[first], max_trials=2)
    for n in (4, 6):
        study = run(journal=tmp_path / "a.db", initial_configs=[first, second], max_trials=n)
    given = [trial for trial, _ in study.trials if trial.origin is Origin.GIVEN]
    assert [trial.config for trial in given] == [first, second]
    assert given[1].number == 2
    assert replay(tmp_path / "a.db").exact


def test_a_study_without_a_success_names_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "bohb"):
        study = run(broken, max_trials=3)
    cause = "3 crashed: RuntimeError: no such file: data.csv"
    assert f"failed    {cause}" in str(study)
    assert all(len(line) <= 80 for line in str(study).splitlines()), "a terminal would break words"
    assert cause in study._repr_html_()
    assert "3 of them with: RuntimeError: no such file: data.csv" in caplog.text


def test_limits_are_the_same_for_minimize_the_study_file_and_the_command_line() -> None:
    limits = {limit.name: limit.default for limit in fields(Limits)}
    assert limits.keys() <= MinimizeOptions.__optional_keys__
    assert list(TABLES["limits"]) == [*limits, "grace"]  # grace says how a deadline ends
    options = [parameter.name for parameter in run_command.params]
    assert [name for name in options if name in limits] == list(limits)


def test_a_study_and_a_plan_are_shown_as_tables() -> None:
    study = run(space={**SPACE, "<b>": ["</td>", "&"]}, max_trials=40)
    page = study._repr_html_()
    assert repr(study) == str(study)
    assert "&lt;b&gt;" in page
    assert "<b></td>" not in page
    labels = [line.split()[0] for line in str(study).splitlines() if not line.startswith(" ")]
    assert labels
    assert all(f"<b>{label}</b>" in page for label in labels)
    assert "<svg" in page
    plan = study.plan()
    assert repr(plan) == str(plan)
    assert plan._repr_html_().count("<tr>") == len(str(plan).splitlines()) - 1
