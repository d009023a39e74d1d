"""`bohb export`, `import`, `replay`, `repair`, `plot`, `report`: a study in other forms."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bohb import History
from bohb.core.events import BracketPlanned, TrialStarted
from bohb.journal import SqlJournal
from tests.cli.running import STUDY, answer, call, complaint, written
from tests.integrations.test_hpbandster import LOGS

WITH_CHOICE = STUDY + 'c = ["a", "b"]\n'


def events(path: Path, study: str = "bowl") -> list[Any]:
    with SqlJournal(path, study, read_only=True) as journal:
        return list(journal.read())


def test_a_study_survives_the_way_through_text(finished: Path, tmp_path: Path) -> None:
    text, copy = tmp_path / "a.jsonl", tmp_path / "copy.db"
    assert answer("export", finished, "--out", text)["events"] == len(events(finished))
    assert answer("import", text, "--journal", copy)["study"] == "bowl"
    assert events(copy) == events(finished)
    decisions = sum(isinstance(event, TrialStarted | BracketPlanned) for event in events(finished))
    counts = {"decisions": decisions, "exact": decisions, "within_tolerance": 0, "different": 0, "differences": []}
    assert answer("replay", copy) == counts
    assert "already has a study 'bowl'" in complaint("import", text, "--journal", copy)
    call("import", text, "--journal", copy, "--study", "twin")
    assert events(copy, "twin") == events(finished)


def test_torn_text_does_not_become_a_journal(finished: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.jsonl"
    call("export", finished, "--out", text)
    text.write_text(text.read_text()[:-200])
    assert "damaged at position" in complaint("import", text, "--journal", tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_hpbandsters_results_start_a_study(tmp_path: Path) -> None:
    file = written(tmp_path, WITH_CHOICE)
    data = answer("import", LOGS, file)
    assert (data["observations"], data["failed"]) == (20, 2)
    result = call("run", file, "--max-trials", "5", "--workers", "0")
    assert "5 finished" in result.stdout
    history = History().extend(events(tmp_path / "study.db"))
    assert len(history.observed) == 20
    assert {trial.origin for trial in history.trials.values()} >= {"model"}, "the model knew enough from the start"
    assert answer("replay", file)["different"] == 0
    assert "20 observations from earlier studies" in call("status", file).stdout
    assert answer("import", LOGS, file)["observations"] == 20
    assert answer("status", file)["observations"] == 40
    assert answer("replay", file)["different"] == 0


def test_foreign_budgets_are_mentioned_and_bad_logs_store_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, WITH_CHOICE.replace("max = 9", "max = 4"))
    assert "budgets 1, 3, 9, which the study does not have (1.33333, 4)" in call("import", LOGS, file).stderr
    other = written(tmp_path, STUDY.replace('"bowl"', '"x"\njournal = "x.db"'), "x.toml")
    assert "is not a hyperparameter" in complaint("import", LOGS, other)
    assert "holds no study yet" in complaint("status", tmp_path / "x.db")


def test_imports_say_what_they_need(finished: Path, tmp_path: Path) -> None:
    assert "name the study file" in complaint("import", LOGS)
    text = tmp_path / "a.jsonl"
    call("export", finished, "--out", text)
    assert "with --journal" in complaint("import", text)
    assert "does not exist" in complaint("import", tmp_path / "none", code=2)


def test_a_study_is_written_as_hpbandsters_logs(finished: Path, tmp_path: Path) -> None:
    data = answer("export", finished, "--out", tmp_path / "logs")
    assert data["runs"] == 40
    lines = (tmp_path / "logs" / "results.json").read_text().splitlines()
    assert all(len(json.loads(line)) == 5 for line in lines)


def test_plots_are_listed_and_drawn(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    names = answer("plot")
    assert {"trajectory", "slice", "importance"} <= set(names)
    assert "there is no plot 'nonsense'" in complaint("plot", "nonsense", finished)
    data = answer("plot", "trajectory", "losses", finished, "--out", tmp_path / "figures")
    assert [Path(file).name for file in data["files"]] == ["trajectory.html", "losses.html"]
    assert all("<script" in Path(file).read_text() for file in data["files"])
    call("plot", "slice", finished, "--out", tmp_path / "s.json")
    assert "data" in json.loads((tmp_path / "s.json").read_text())
    over = call("plot", "trajectory", finished, "--over", "cost", "--out", tmp_path / "t.json")
    assert "budget spent" in (tmp_path / "t.json").read_text(), over
    assert "--over is not an option of the plot 'slice'" in complaint("plot", "slice", finished, "--over", "cost")
    assert "must be a directory for 2 plots" in complaint("plot", "slice", "losses", finished, "--out", "a.html")


def test_a_report_is_one_file(finished: Path, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    assert answer("report", finished, "--out", tmp_path / "r.html") == {"file": str(tmp_path / "r.html")}


def test_a_dashboard_for_everybody_demands_a_token(finished: Path) -> None:
    pytest.importorskip("uvicorn")
    assert "token" in complaint("dashboard", finished, "--host", "0.0.0.0")


@pytest.mark.parametrize(
    ("module", "command"), [("plotly", ["plot"]), ("plotly", ["report"]), ("starlette", ["dashboard"])]
)
def test_a_missing_extra_is_named_in_one_line(
    finished: Path, monkeypatch: pytest.MonkeyPatch, module: str, command: list[str]
) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == module or name.startswith(("bohb.plots", "bohb.dashboard")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    assert 'pip install ".[' in complaint(*command, finished)
