"""Notes and tags on studies and trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bohb
from bohb.analysis.trials import notes_of, tags_of
from bohb.cli.app import app
from bohb.errors import InvalidArgument, UnknownTrial
from tests.objectives import SPACE, quadratic

OPTIONS: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0, "progress": False}


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_notes_of_callbacks_studies_and_the_command_line_are_stored_and_change_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "study.db"

    def remark(study: bohb.RunningStudy) -> None:
        if study.latest[0].number == 2:
            study.note("looks good", trial=2, tags=["check"])

    plain = bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=6)
    study = bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=6, journal=path, callbacks=[remark])
    study.note("a first attempt", tags=["baseline", "check"])
    assert [note.text for note in notes_of(study.history)] == ["a first attempt"]
    assert call("note", "", path, "--trial", 2, "--tag", "again").exit_code == 0
    loaded = bohb.load(path)
    assert tags_of(loaded.history) == ["baseline", "check"]
    assert tags_of(loaded.history, 2) == ["check", "again"]
    assert [trial.config for trial, _ in loaded.trials] == [trial.config for trial, _ in plain.trials]
    assert bohb.replay(path).ok
    assert loaded.to_dataframe()["tags"].dropna().to_dict() == {2: "check, again"}


def test_status_studies_and_trials_show_notes(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=3, journal=path)
    assert "tags" not in call("trials", path).output + call("studies", path).output + call("status", path).output
    call("note", "line one\nline two", path, "--tag", "baseline")
    call("note", "\x1b[31mred", path, "--trial", 1)
    assert "line one line two" in call("status", path).output
    assert json.loads(call("status", path, "--json").output)["tags"] == ["baseline"]
    assert call("studies", path).output.splitlines()[1].split(maxsplit=3) == [
        "study",
        "3",
        "baseline",
        "line one line two",
    ]
    table = call("trials", path).output
    assert "red" in table
    assert "\x1b" not in table


@pytest.mark.parametrize(
    ("text", "trial", "tags", "error"),
    [
        ("", None, [], "text or a tag"),
        ("x" * 10_001, None, [], "at most 10,000"),
        ("x", None, ["a,b"], "without a comma"),
        ("x", None, [""], "1 to 50"),
        ("x", None, "tag", "must be a list"),
        ("x", 7, [], "trial 7 does not exist"),
    ],
)
def test_a_note_that_cannot_be_stored_is_refused(text: str, trial: int | None, tags: Any, error: str) -> None:
    optimizer = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=0)
    with pytest.raises((InvalidArgument, UnknownTrial), match=error):
        optimizer.note(text, trial=trial, tags=tags)
    assert optimizer.history.notes == []


def test_a_study_without_a_journal_says_how_to_get_one() -> None:
    study = bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=1)
    with pytest.raises(InvalidArgument, match=r"journal='study\.db'"):
        study.note("x")


def test_delete_asks_and_names_its_copy_and_rename_keeps_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=2, journal=path)
    assert call("rename", "mnist", path).exit_code == 0
    assert bohb.studies(path) == {"mnist": 2}
    refused = CliRunner().invoke(app, ["delete", str(path)], input="n\n")
    assert refused.exit_code == 1
    assert "bohb: nothing was deleted" in refused.output
    assert "with 2 finished trials?" in refused.output
    assert bohb.studies(path) == {"mnist": 2}
    answer = json.loads(call("delete", path, "--yes", "--json").output)
    assert bohb.studies(path) == {}
    assert call("import", answer["kept"][0], "--journal", tmp_path / "restored.db").exit_code == 0
    assert bohb.studies(tmp_path / "restored.db") == {"mnist": 2}
