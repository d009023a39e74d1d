"""A confirmation runs with the study's workers and journal, survives interruptions, and disturbs nothing."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bohb
from bohb import History, Trial, minimize, replay
from bohb.core.events import ConfirmationFinished, RepeatFinished
from bohb.errors import InvalidArgument, JournalBusy
from bohb.journal import SqlJournal
from bohb.plots.report import report

SPACE = {"x": (0.0, 1.0)}
FIXED: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "preset": "paper", "max_trials": 30}
FIXED |= {"progress": False}


def noisy(trial: Trial) -> float:
    return float((trial.config["x"] - 0.3) ** 2 + 0.1 * np.random.default_rng([trial.seed]).standard_normal())


def events(path: Path) -> list[Any]:
    with SqlJournal(path, read_only=True) as journal:
        return list(journal.read())


def test_the_objective_is_called_afresh_with_a_new_seed_each_time(tmp_path: Path) -> None:
    calls: list[Trial] = []

    def objective(trial: Trial) -> float:
        assert trial.checkpoint_dir is not None
        assert (trial.previous_budget is None) == (not list(trial.checkpoint_dir.iterdir()))
        (trial.checkpoint_dir / "state").write_text("here")
        calls.append(trial)
        return noisy(trial)

    study = minimize(objective, SPACE, journal=tmp_path / "a.db", **FIXED)
    known = {trial.seed for trial in calls}
    calls.clear()
    found = study.confirm(top=3, repeats=4, progress=False)
    assert len(calls) == 12 == len(found.outcomes)
    assert {trial.budget for trial in calls} == {9}
    assert {trial.previous_budget for trial in calls} == {None}
    assert len({trial.seed for trial in calls} | known) == 12 + len(known)
    assert len({trial.number for trial in calls} | set(study.history.trials)) == 12 + len(study.history.trials)
    assert found.config == study.history.trials[found.winner.trial.number].config  # type: ignore[union-attr]
    assert found.interval[0] < found.loss < found.interval[1]
    assert study.confirmation == found
    assert "confirmed: " in str(study)
    assert list((tmp_path / "a.db.files" / "study" / "confirm").glob("working/*/*")) == []


def test_a_confirmation_that_was_killed_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    whole = minimize(noisy, SPACE, journal=tmp_path / "whole.db", **FIXED).confirm(progress=False)
    minimize(noisy, SPACE, journal=tmp_path / "killed.db", **FIXED)
    script = (
        "import os, bohb\n"
        "from tests.running.test_confirmation import noisy\n"
        "calls = []\n"
        "def objective(trial):\n"
        "    calls.append(trial)\n"
        "    return noisy(trial) if len(calls) < 8 else os._exit(7)\n"
        f"bohb.load({str(tmp_path / 'killed.db')!r}).confirm(objective=objective, progress=False)\n"
    )
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    assert subprocess.run([sys.executable, "-c", script], env=environment, cwd=root, timeout=120).returncode == 7
    calls: list[int] = []

    def counting(trial: Trial) -> float:
        calls.append(trial.number)
        return noisy(trial)

    study = bohb.load(tmp_path / "killed.db")
    assert "unfinished after 7 of at most 25 evaluations" in str(study)
    resumed = study.confirm(objective=counting, progress=False)
    assert len(calls) == len(whole.outcomes) - 7
    assert resumed.estimates == whole.estimates
    assert {place: o.loss for place, o in resumed.outcomes.items()} == {p: o.loss for p, o in whole.outcomes.items()}


def test_the_same_request_is_answered_from_the_journal_and_another_one_is_not(tmp_path: Path) -> None:
    study = minimize(noisy, SPACE, journal=tmp_path / "a.db", **FIXED)
    first = study.confirm(top=2, repeats=2, progress=False)
    n = study.history.n_events
    assert study.confirm(top=2, repeats=2, progress=False) == first
    assert study.history.n_events == n
    again = study.confirm(top=2, repeats=2, default="space", progress=False)
    assert (again.index, len(again.candidates)) == (1, 3)
    assert again.candidates[-1].config == {"x": 0.5}
    assert not {o.loss for o in first.outcomes.values()} & {o.loss for o in again.outcomes.values()}


def test_a_study_goes_on_after_a_confirmation_and_all_of_it_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    study = minimize(noisy, SPACE, journal=path, **FIXED)
    found = study.confirm(progress=False)
    longer = minimize(noisy, SPACE, journal=path, **{**FIXED, "max_trials": 40})
    plain = minimize(noisy, SPACE, **{**FIXED, "max_trials": 40})
    assert [t.config for t, _ in longer.trials] == [t.config for t, _ in plain.trials], "no decision uses it"
    report = replay(path)
    assert report.differences == ()
    assert report.decisions == 40 + 2 + len(found.outcomes)
    forged = [e for e in events(path) if not isinstance(e, ConfirmationFinished)]
    at = next(i for i, e in enumerate(forged) if isinstance(e, RepeatFinished))
    forged.insert(at, RepeatFinished(0, 4, 4, forged[at].outcome))
    assert "decided [(0, 0)" in replay(forged).differences[0]


def test_workers_evaluate_a_confirmation_and_one_that_dies_fails_its_evaluation(tmp_path: Path) -> None:
    study = minimize(dies_when_repeated, SPACE, journal=tmp_path / "a.db", workers=1, **{**FIXED, "max_trials": 13})
    found = study.confirm(top=2, repeats=2, progress=False)
    assert [outcome.status for outcome in found.evaluations(0)] == ["crashed"] * 2
    assert found.chosen == 1


def dies_when_repeated(trial: Trial) -> float:
    if trial.number >= 13 and (trial.number - 13) % 2 == 0:
        os._exit(3)
    return noisy(trial)


def test_a_study_without_objective_or_journal_says_what_is_missing(tmp_path: Path) -> None:
    minimize(noisy, SPACE, journal=tmp_path / "a.db", **FIXED)
    with pytest.raises(InvalidArgument, match="give objective="):
        bohb.load(tmp_path / "a.db").confirm()
    with pytest.raises(InvalidArgument, match="only a study of `minimize` or `load`"):
        bohb.Study(History(), "").confirm()
    with pytest.raises(InvalidArgument, match="'spce' must be a configuration, or 'space'"):
        bohb.load(tmp_path / "a.db").confirm(objective=noisy, default="spce")  # type: ignore[arg-type]


def test_a_second_confirmation_at_the_same_time_is_refused_by_name(tmp_path: Path) -> None:
    study = minimize(noisy, SPACE, journal=tmp_path / "a.db", **FIXED)
    refused: list[str] = []

    def objective(trial: Trial) -> float:
        if not refused:
            with pytest.raises(JournalBusy) as caught:
                bohb.load(tmp_path / "a.db").confirm(objective=noisy, progress=False)
            refused.append(str(caught.value))
        return noisy(trial)

    found = study.confirm(objective=objective, progress=False)
    assert f"is being confirmed already (confirming on {platform.node()}:{os.getpid()}:" in refused[0]
    assert len({(e.candidate, e.repeat) for e in events(tmp_path / "a.db") if isinstance(e, RepeatFinished)}) == len(
        found.outcomes
    )
    assert bohb.load(tmp_path / "a.db").confirm(objective=noisy, progress=False) == found


def test_a_study_can_be_confirmed_while_others_have_its_journal_open(tmp_path: Path) -> None:
    study = minimize(noisy, SPACE, journal=tmp_path / "a.db", **FIXED)
    with SqlJournal(tmp_path / "a.db"):
        assert study.confirm(top=1, repeats=2, progress=False).finished


def test_a_study_in_memory_can_be_confirmed_and_its_report_says_so() -> None:
    study = minimize(noisy, SPACE, **FIXED)
    assert study.confirm(top=1, repeats=3, progress=False).probability == 1
    assert len(study.history.confirmations) == 1
    section = report(study.history)
    assert "Confirmed: trial" in section
    assert "95 % interval" in section


def test_a_score_that_is_maximised_is_confirmed_with_its_own_sign() -> None:
    study = minimize(lambda trial: 5 - noisy(trial), SPACE, direction="maximize", **FIXED)
    found = study.confirm(top=2, repeats=3, progress=False)
    assert 4 < found.interval[0] < found.loss < found.interval[1] < 5.5
    assert "expected score 4.9" in str(study) or "expected score 5.0" in str(study)
    assert "expected score" in str(found)
    assert f"  x = {found.config['x']}" in str(found).splitlines()


def test_several_objectives_are_refused() -> None:
    study = minimize(lambda trial: {"a": 1.0, "b": trial.config["x"]}, SPACE, objectives=["a", "b"], **FIXED)
    with pytest.raises(InvalidArgument, match="several objectives"):
        study.confirm()
