"""Objectives and constraints in a study file, of a command and on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import bohb
from bohb.cli.app import app
from bohb.core.goals import goals_of
from bohb.errors import InvalidArgument
from bohb.studyfile.load import load

FILE = """
command = [{python}, "-c", "import json, sys; x = float(sys.argv[1]); print(json.dumps({result}))", "{{x}}"]
workers = 0
seed = 1
{goals}
[space]
x = {{float = [0.0, 1.0]}}
[budget]
values = [1]
[limits]
max_trials = 6
{tables}
"""
BOTH = "{'losses': {'error': x, 'speed': x * x}, 'memory': 1 + x}"


def written(place: Path, result: str, goals: str = "", tables: str = "") -> Path:
    path = place / "study.toml"
    path.write_text(FILE.format(python=json.dumps(sys.executable), result=result, goals=goals, tables=tables))
    return path


def test_a_study_file_may_have_a_list_or_a_table_of_objectives(tmp_path: Path) -> None:
    constraints = '[constraints]\nmemory = "<= 1GB"'
    by_list = load(written(tmp_path, BOTH, 'objectives = ["error", "-speed"]', constraints)).goals
    table = f'[objectives]\nerror = "minimize"\nspeed = "maximize"\n{constraints}'
    by_table = load(written(tmp_path, BOTH, "", table)).goals
    assert by_list == by_table == goals_of(["error", "-speed"], {"memory": "<= 1GB"})


def test_a_mistake_in_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, BOTH, "", '[constraints]\nmemory = "< 1"')
    ran = CliRunner().invoke(app, ["run", str(path), "--quiet"])
    assert ran.exit_code != 0
    assert "study.toml" in ran.output + str(ran.exception)
    assert "'memory' has '< 1'" in ran.output + str(ran.exception)
    with pytest.raises(InvalidArgument, match="direction='up'"):
        _ = load(written(tmp_path, BOTH, 'direction = "up"')).goals


def test_a_command_prints_its_values_as_json_and_the_commands_show_them(tmp_path: Path) -> None:
    path = written(tmp_path, BOTH, 'objectives = ["error", "-speed"]', '[constraints]\nmemory = ">= 1.2"')
    run = CliRunner().invoke(app, ["run", str(path), "--quiet", "--json"])
    assert run.exit_code == 0, run.output
    incumbent = json.loads(run.stdout)["incumbent"]
    assert incumbent["feasible"]
    assert incumbent["values"]["error"] == incumbent["loss"] >= 0.2
    best = CliRunner().invoke(app, ["best", str(path)]).output
    assert best.startswith(f"error {incumbent['loss']:.6g}, speed ")
    trials = CliRunner().invoke(app, ["trials", str(path), "--sort", "-speed"]).output.splitlines()
    assert trials[0].split()[:5] == ["trial", "status", "error", "speed", "memory"]
    history = bohb.load(str(tmp_path / "study.db")).history
    assert {"values.error", "values.speed", "values.memory"} <= set(bohb.Study(history).to_dataframe().columns)
    assert [r.values["error"] for r in history.front] == sorted(r.values["error"] for r in history.front)


def test_options_replace_the_goals_of_the_file_and_a_score_is_shown_as_it_was_printed(tmp_path: Path) -> None:
    path = written(tmp_path, "{'score': x, 'memory': 1 + x}")
    options = ["--direction", "maximize", "--constraint", "memory<=1.9", "--target-loss", "2"]
    run = CliRunner().invoke(app, ["run", str(path), "--quiet", "--json", *options])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)
    assert found["trials"]["finished"] == 6
    assert found["incumbent"]["loss"] == found["incumbent"]["values"]["score"] <= 0.9
    assert f"score {found['incumbent']['loss']:.6g}" in CliRunner().invoke(app, ["status", str(path)]).output
