"""Programs in any language evaluate trials by two commands: JSON in, JSON out, one line for what is wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bohb import load
from bohb.cli import app
from tests.cli.running import EXAMPLES, STUDY, answer, call, complaint, written

WITHOUT_COMMAND = STUDY.replace('command = "echo {x}"\n', "")
LOGARITHMIC = WITHOUT_COMMAND.replace("x = {float = [0, 1]}", "lr = {float = [1e-4, 1], log = true}")


def asked(*arguments: str | Path) -> dict[str, Any]:
    (line,) = call("ask", *arguments).stdout.splitlines()
    trial: dict[str, Any] = json.loads(line)
    return trial


def told(study: Path, *results: Any, code: int = 0) -> str:
    """Tell results on stdin and return what the command writes."""
    lines = "\n".join(result if isinstance(result, str) else json.dumps(result) for result in results)
    result = CliRunner().invoke(app, ["tell", str(study)], input=lines, prog_name="bohb")
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


@pytest.mark.parametrize("command", ["tell", "report"])
def test_an_unknown_option_is_no_negative_loss(command: str, tmp_path: Path) -> None:
    study = written(tmp_path, WITHOUT_COMMAND)
    assert re.search("No such option:? '?--otu", complaint(command, study, "--otu", "x.html", code=2))
    assert re.search("No such option:? '?-x", complaint(command, study, "-x=1", code=2))


def test_a_negative_loss_and_a_reason_that_begins_with_a_minus_are_stored(tmp_path: Path) -> None:
    study = written(tmp_path, WITHOUT_COMMAND)
    for arguments in (["-1.5e-3"], ["--failed", "-x"]):
        number = asked(study)["number"]
        call("tell", study, str(number), *arguments)
    first, second = answer("trials", study)
    assert first["loss"] == -1.5e-3
    assert "-x" in second["error"]


def test_a_study_is_created_asked_and_told_without_any_objective(tmp_path: Path) -> None:
    file, journal = written(tmp_path, WITHOUT_COMMAND), tmp_path / "other.db"
    trial = asked(file, "--journal", journal)
    assert trial["number"] == 0
    assert set(trial["config"]) == {"x"}
    assert (trial["budget"], trial["previous_budget"], trial["attempt"]) == (1, None, 1)
    assert Path(trial["checkpoint_dir"]).is_dir()
    assert asked(journal)["number"] == 1
    assert call("tell", journal, "0", "-0.5").stdout == "trial 0: loss -0.5\n"
    assert call("report", journal, "1", "--step", "3", "0.5").stdout == "trial 1: loss 0.5 at step 3\n"
    assert answer("tell", journal, "1", "--failed", "out of memory") == {"number": 1, "result": "stored"}
    rows = answer("trials", journal)
    assert [row["status"] for row in rows] == ["ok", "crashed"]
    assert rows[0]["loss"] == -0.5


def test_the_line_that_ask_printed_can_be_told_with_its_loss(tmp_path: Path) -> None:
    file = written(tmp_path)
    first, second = asked(file), asked(file)
    assert told(file, first | {"loss": 0.25, "info": {"a": 1}, "cost": 2}, second | {"lost": "preempted"}) == (
        "trial 0: loss 0.25\ntrial 1: lost\n"
    )
    again = asked(file, "--lease", "1h")
    assert (again["number"], again["attempt"], again["config"]) == (1, 2, second["config"])
    assert "late" in told(file, second | {"loss": 1})
    assert told(file, again | {"loss": 1}) == "trial 1: loss 1\n"


def test_a_program_asks_for_another_try_which_counts_as_neither_failed_nor_lost(tmp_path: Path) -> None:
    file = written(tmp_path)
    for _ in range(3):
        asked(file)
    assert call("tell", file, "0", "--retry", "no GPU here").stdout == "trial 0: starts again later\n"
    assert told(file, {"number": 1, "retry": "no licence"}) == "trial 1: starts again later\n"
    assert answer("tell", file, "2", "--retry", "no GPU here") == {"number": 2, "result": "stored"}
    (journal,) = tmp_path.glob("*.db")
    history = load(journal).history
    reasons = [again.reason for n in range(3) for again in history.retries[n]]
    assert reasons == ["no GPU here", "no licence", "no GPU here"]
    assert (history.losses, history.n_failed) == ({}, 0)
    assert [row["status"] for row in answer("trials", file)] == ["waiting"] * 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.5", "'0.5' must be a JSON object"),
        ("{", "'{' is not JSON"),
        ('{"loss": 1}', '"number" is missing'),
        ('{"number": "0", "loss": 1}', "number='0' must be a whole number"),
        ('{"number": 0}', "trial 0 needs exactly one of loss, losses, failed, lost, retry"),
        ('{"number": 0, "loss": 1, "failed": "x"}', "trial 0 needs exactly one of loss, losses, failed, lost, retry"),
        ('{"number": 0, "retry": 1}', "retry=1 must be a text"),
        ('{"number": 0, "los": 1}', "the key 'los' is unknown; use number"),
        ('{"number": 0, "loss": null}', "loss=None is of type NoneType"),
        ('{"number": 7, "loss": 1}', "trial 7 was never asked for"),
        ("", "stdin is empty"),
    ],
)
def test_wrong_json_is_refused_in_one_line(tmp_path: Path, line: str, message: str) -> None:
    file = written(tmp_path)
    asked(file)
    complaint = told(file, line, code=2 if line == "" else 1)
    assert message in complaint
    assert len(complaint.splitlines()) == 1


def test_wrong_arguments_are_refused_in_one_line(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert "has no journal yet" in complaint("tell", file, "0", "1")
    asked(file)
    assert "'much' is not a valid float" in complaint("tell", file, "0", "much", code=2)
    assert "--failed" in complaint("tell", file, "0", "--faild", "x", code=2)
    assert "exactly one of loss, losses, failed, lost" in complaint("tell", file, "0")
    assert "needs NUMBER, LOSS and --step" in complaint("report", file, "0", "1", code=2)
    assert "belong to a study file" in complaint("ask", tmp_path / "study.db", "--seed", "1", code=2)
    assert "there is no journal" in complaint("ask", tmp_path / "none.db")


def test_a_client_that_asks_again_gets_its_own_trial(tmp_path: Path) -> None:
    file = written(tmp_path)
    first = asked(file, "--client", "a")
    assert asked(file, "--client", "b")["number"] == 1
    assert asked(file, "--client", "a") == first
    call("tell", file, "0", "0.5")
    assert asked(file, "--client", "a")["number"] == 2


@pytest.mark.parametrize("lease", ["0", "0.5", "-1", "nan", "inf"])
def test_a_lease_that_would_take_trials_from_living_programs_is_refused(tmp_path: Path, lease: str) -> None:
    file = written(tmp_path)
    asked(file)
    told = call("ask", file, "--lease", lease, code=1 if lease in ("0", "0.5") else 2).stderr
    assert "must be a" in told
    assert answer("status", file)["trials"] | {"running": 1, "waiting": 0} == answer("status", file)["trials"]


def test_the_exit_code_says_whether_to_ask_again(tmp_path: Path) -> None:
    file = written(tmp_path)
    asked(file, "--max-trials", "1")
    assert "max_trials=1 reached" in complaint("ask", file, "--max-trials", "1", code=4)
    for _ in range(8):
        asked(file, "--max-brackets", "1")
    assert "ask again" in complaint("ask", file, "--max-brackets", "1", "--wait", "0", code=3)


@pytest.mark.skipif(not os.environ.get("BOHB_LONG_TESTS"), reason="every command is a process and takes a second")
@pytest.mark.parametrize("script", ["any_language.sh", "any_language.mjs"])
def test_the_examples_in_other_languages_run_side_by_side(tmp_path: Path, script: str) -> None:
    interpreter = shutil.which({"sh": "bash", "mjs": "node"}[script.rpartition(".")[2]])
    if interpreter is None:
        pytest.skip(f"{script} needs an interpreter that is not installed")
    command = tmp_path / "bin" / "bohb"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -W error -m bohb "$@"\n')
    command.chmod(0o755)
    n = 4
    arguments = [interpreter, str(EXAMPLES / script), str(written(tmp_path, LOGARITHMIC)), "--max-trials", str(n)]
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    loops = [subprocess.Popen(arguments, env=environment, stdout=pipe, stderr=pipe, text=True) for _ in range(2)]
    try:
        printed = [loop.communicate(timeout=560) for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
    assert [loop.returncode for loop in loops] == [0, 0], printed
    lines = "".join(stdout for stdout, _ in printed).splitlines()
    told = [line.partition(": loss")[0] for line in lines if line.startswith("trial")]
    assert sorted(told) == [f"trial {number}" for number in range(n)]
    assert all("lr" in stdout for stdout, _ in printed)
