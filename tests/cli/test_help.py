"""Every command explains itself, and fails in one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import bohb
from bohb.cli import app
from tests.cli.running import call, complaint, process, written

COMMANDS = sorted(app.commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples_of_itself(name: str) -> None:
    text = call(name, "--help").stdout
    _, _, examples = text.partition("Examples:\n")
    assert f"bohb {name}" in examples


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_json(name: str) -> None:
    assert "--json" in call(name, "--help").stdout


def test_the_page_on_the_command_line_shows_every_command() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text()
    assert [name for name in COMMANDS if f"bohb {name}" not in page] == []


def test_the_summary_names_every_command_in_whole_sentences() -> None:
    text = call("--help").stdout
    listed = text.partition("Commands:\n")[2].splitlines()
    assert sorted(line.split()[0] for line in listed) == COMMANDS
    assert "..." not in text.partition("Commands:\n")[2]


def test_wrong_usage_is_one_line_and_code_2() -> None:
    assert complaint("nothing", code=2) == "bohb: No such command 'nothing' (see 'bohb --help')"
    assert "--no-such" in complaint("run", "--no-such", code=2)
    assert "'many' must be a number or a string such as" in complaint("run", "--max-seconds", "many", code=2)


def test_errors_are_one_line_without_a_traceback_unless_asked_for(tmp_path: Path) -> None:
    line = complaint("run", "none.toml")
    assert line == "bohb: none.toml: no such file or directory; 'bohb init' writes a study file"
    result = process("run", "none.toml", "--debug", cwd=tmp_path, code=1)
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("bohb: none.toml")


def test_a_study_that_does_not_match_its_journal_is_a_table_of_differences(tmp_path: Path) -> None:
    file = written(tmp_path)
    call("run", file, "--max-trials", "1", "--quiet", "--workers", "0")
    text = file.read_text().replace("[0, 1]", "[0, 2]").replace("max = 9", "max = 8")
    file.write_text(text)
    result = call("run", file, "--max-trials", "1", "--quiet", "--workers", "0", code=1).stderr
    first, head, *rows, last = result.splitlines()
    assert first.startswith("bohb: the stored study cannot be continued")
    assert head.split() == ["what", "stored", "given"]
    cells = {row.split()[0]: row.split()[1:] for row in rows}
    assert cells["x.upper"] == ["1.0", "2.0"]
    assert set(cells) == {"x.upper", "x.default_value", "budgets"}
    assert "warm_start" in last


@pytest.mark.parametrize("command", ["plan", "check", "run"])
def test_a_journal_in_place_of_a_study_file_is_recognised(finished: Path, command: str) -> None:
    assert complaint(command, finished) == (
        f"bohb: {finished} is a journal, not a study file; 'bohb status {finished}' shows its study"
    )


@pytest.mark.parametrize("command", ["status", "best", "trials"])
def test_a_study_file_without_a_journal_says_how_to_start(tmp_path: Path, command: str) -> None:
    file = written(tmp_path)
    assert f"has no journal yet; 'bohb run {file}' starts it" in complaint(command, file)


def test_help_and_looking_import_nothing_heavy(finished: Path) -> None:
    heavy = {"numpy", "scipy", "ConfigSpace", "psycopg", "plotly", "starlette", "sklearn", "rich", "pandas", "dask"}
    script = (
        "import sys\nfrom bohb.cli import app\n"
        "for args in (['--help'], ['status', sys.argv[1]], ['trials', sys.argv[1]]):\n"
        "    app.main(args, standalone_mode=False)\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(finished)], capture_output=True, text=True, timeout=300, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


def test_the_package_gives_its_names_when_they_are_asked_for() -> None:
    assert [name for name in bohb.__all__ if not hasattr(bohb, name)] == []
    assert dir(bohb) == sorted({*bohb.__all__, "errors"})
    assert bohb.errors.BohbError is not None
    assert not hasattr(bohb, "no_such_module")
    assert not hasattr(bohb, "_private")


@pytest.mark.parametrize(("shell", "start"), [("bash", "complete "), ("zsh", "compdef "), ("fish", "complete ")])
def test_a_shell_learns_to_complete_commands(shell: str, start: str) -> None:
    script = call("completion", shell).stdout
    assert f"_BOHB_COMPLETE={shell}_complete" in script
    assert any(line.strip().startswith(start) for line in script.splitlines())
    assert "'csh' is not one of" in complaint("completion", "csh", code=2)
