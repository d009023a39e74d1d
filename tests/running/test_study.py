"""The everyday interface of a study: its best trial, its table, loading it from its journal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb import BOHB, Status, Trial, minimize
from bohb.errors import InvalidArgument, JournalError, MissingExtra, NoResult
from bohb.journal import SqlJournal
from tests import objectives
from tests.objectives import SPACE


def run(objective: Any = objectives.quadratic, space: Any = SPACE, **keywords: Any) -> bohb.Study:
    return minimize(objective, space, **{"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False, **keywords})


def mixed(trial: Trial) -> dict[str, Any]:
    if trial.number == 1:
        raise RuntimeError("no luck")
    return {"loss": float(trial.number), "info": {"epochs": 3}}


def test_the_best_trial_is_the_incumbent() -> None:
    study = run(max_trials=30)
    assert study.incumbent is not None
    assert study.best_trial is study.incumbent.trial
    assert study.best_config == study.incumbent.config
    assert study.best_loss == study.incumbent.loss


def test_ask_and_tell_have_the_best_trial_too() -> None:
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    with pytest.raises(NoResult, match="none has finished"):
        _ = optimizer.best_config
    trial = optimizer.ask()
    optimizer.tell(trial, 0.25)
    assert (optimizer.best_config, optimizer.best_loss, optimizer.best_trial) == (trial.config, 0.25, trial)


def test_changes_of_the_best_config_do_not_reach_the_history() -> None:
    study = run(max_trials=3)
    study.best_config["x"] = 7
    assert study.best_config["x"] <= 1


@pytest.mark.parametrize("name", ["best_config", "best_loss", "best_trial"])
def test_a_study_without_success_says_that_there_is_no_best_trial(name: str) -> None:
    study = run(objectives.failing, max_trials=2)
    with pytest.raises(NoResult, match="no trial has succeeded yet \\(all 2 finished trials failed\\)"):
        getattr(study, name)


def test_a_data_frame_has_one_row_per_trial() -> None:
    pytest.importorskip("pandas")
    space = {"kind": [1, "two", (3, 4)], "x": (0.0, 1.0)}
    study = run(mixed, space, max_trials=4)
    frame = study.to_dataframe()
    assert frame["number"].tolist() == [0, 1, 2, 3]
    assert frame["status"].tolist() == ["ok", "crashed", "ok", "ok"]
    assert frame["loss"].tolist()[2:] == [2.0, 3.0]
    assert frame["loss"].isna().tolist() == [False, True, False, False]
    assert frame["info.epochs"].dropna().tolist() == [3, 3, 3]
    assert frame["config.x"].tolist() == [trial.config["x"] for trial, _ in study.trials]
    assert frame["config.kind"].tolist() == [trial.config["kind"] for trial, _ in study.trials]
    assert set(frame["origin"]) == {"random"}
    assert (frame["seconds"] >= 0).all()
    assert {"budget", "bracket", "rung"} <= set(frame.columns)


@pytest.mark.parametrize("n", [0, 2])
def test_a_data_frame_without_losses_still_has_a_numeric_column_for_them(n: int) -> None:
    pytest.importorskip("pandas")
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    for _ in range(n):
        optimizer.tell(optimizer.ask(), bohb.Outcome(Status.CRASHED, error="no luck"))
    frame = bohb.Study(optimizer.history, "").to_dataframe()
    assert len(frame) == n
    assert frame["loss"].dtype == float
    assert frame["seconds"].dtype == float


def test_polars_takes_the_place_of_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    polars = pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    frame = run(mixed, {"kind": [1, "two", (3, 4)], "x": (0.0, 1.0)}, max_trials=4).to_dataframe()
    assert isinstance(frame, polars.DataFrame)
    assert frame["loss"].to_list() == [0.0, None, 2.0, 3.0]
    assert set(frame["config.kind"]) <= {"1", "two", "[3, 4]"}


def test_without_pandas_and_polars_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match="pip install pandas"):
        run(max_trials=1).to_dataframe()


def test_a_loaded_study_has_everything_that_the_returned_one_has(tmp_path: Path) -> None:
    returned = run(objectives.half_nan, journal=tmp_path / "a.db", max_trials=12)
    loaded = bohb.load(tmp_path / "a.db")
    assert loaded.trials == returned.trials
    assert loaded.incumbent == returned.incumbent
    assert loaded.best_config == returned.best_config
    assert loaded.failures == returned.failures
    assert loaded.cost == returned.cost
    assert str(loaded.plan()) == str(returned.plan())
    assert str(loaded) == re.sub("^stopped .*\n", "", str(returned), flags=re.MULTILINE)
    assert loaded._repr_html_()


def test_a_study_can_be_loaded_while_it_runs(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "a.db") as journal:
        optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
        optimizer.tell(optimizer.ask(), 0.5)
        running = optimizer.ask()
        loaded = bohb.load(str(tmp_path / "a.db"))
        assert loaded.best_loss == 0.5
        assert loaded.trials[-1] == (running, None)


def test_the_studies_of_a_journal_are_listed_with_their_finished_trials(tmp_path: Path) -> None:
    run(journal=tmp_path / "a.db", study="second", max_trials=5)
    run(objectives.failing, journal=tmp_path / "a.db", study="first", max_trials=2)
    with SqlJournal(tmp_path / "a.db", "new") as journal:
        BOHB(SPACE, min_budget=1, max_budget=9, journal=journal).ask()
    assert list(bohb.studies(tmp_path / "a.db").items()) == [("first", 2), ("new", 0), ("second", 5)]
    assert len(bohb.load(tmp_path / "a.db", study="second").trials) == 5


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"there is no journal .*nowhere\.db"):
        bohb.load(tmp_path / "nowhere.db")
    with pytest.raises(JournalError, match=r"there is no journal .*nowhere\.db"):
        bohb.studies(tmp_path / "nowhere.db")
    assert not (tmp_path / "nowhere.db").exists()
    for name in ("one", "two"):
        run(journal=tmp_path / "a.db", study=name, max_trials=1)
    with pytest.raises(InvalidArgument, match="holds 2 studies; choose one with study=… or --study: one, two"):
        bohb.load(tmp_path / "a.db")
    with pytest.raises(JournalError, match=r"there is no study 'three' in .*; its studies are: one, two"):
        bohb.load(tmp_path / "a.db", study="three")
