"""Objectives that are commands."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bohb import Origin, Outcome, Status, Trial
from bohb.errors import InvalidArgument, InvalidResult
from bohb.studyfile.command import ShellObjective, result_in, texts
from bohb.testing.executors import alive, until


def a_trial(config: dict[str, Any], budget: float = 3.0, **more: Any) -> Trial:
    return Trial(5, config, budget, 2, 0, 0, 77, Origin.RANDOM, **more)


def test_values_take_the_place_of_placeholders() -> None:
    trial = a_trial({"lr": 0.1, "act": "relu", "flag": True, "n": 3, "shape": (3, 3)}, checkpoint_dir=Path("/c"))
    command = "p --lr={lr} {act} {flag} {n} {shape} {budget} {seed} {number} {config_id} {checkpoint_dir} a{n}b{n}"
    run = ShellObjective(command, tuple(trial.config))
    assert run.arguments(trial) == [
        "p", "--lr=0.1", "relu", "true", "3", "[3, 3]", "3", "77", "5", "2", "/c", "a3b3",
    ]  # fmt: skip
    assert json.loads(texts(trial)["config"])["shape"] == [3, 3]


@pytest.mark.parametrize(
    "value", ["; touch x", "$(touch x)", "`touch x`", "a b", "'", '"', "--help", "{lr}", "", "\n", "*"]
)
@pytest.mark.parametrize("shell", [False, True])
def test_a_value_is_never_read_as_anything_but_text(value: str, shell: bool, tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text("import json, sys\nprint(json.dumps({'loss': 1, 'argv': sys.argv[1:]}))")
    run = ShellObjective(f"{sys.executable} {script} {{name}}", ("name", "lr"), str(tmp_path), shell)
    outcome = run(a_trial({"name": value, "lr": 1}))
    assert outcome.info["argv"] == [value]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("p --drop {drop} --lr {lr}", ["p", "--lr", "0.1"]),
        ("p --drop={drop} --lr {lr}", ["p", "--lr", "0.1"]),
        ("p -v drop={drop} -v lr={lr}", ["p", "-v", "lr=0.1"]),
        ("p --verbose --drop={drop}", ["p", "--verbose"]),
        ("p {drop} {lr}", ["p", "0.1"]),
        ("p --from {previous_budget} --lr {lr}", ["p", "--lr", "0.1"]),
        ("p --lr {lr} {drop}", ["p", "--lr", "0.1"]),
    ],
)
def test_what_is_absent_is_left_out_with_its_option(command: str, expected: list[str]) -> None:
    assert ShellObjective(command, ("drop", "lr")).arguments(a_trial({"lr": 0.1})) == expected


def test_in_a_shell_what_is_absent_is_empty(tmp_path: Path) -> None:
    script = shown_arguments(tmp_path)
    run = ShellObjective(f"{script} --drop={{drop}} | cat", ("drop",), shell=True)
    assert run(a_trial({})).info["argv"] == ["--drop="]


def shown_arguments(folder: Path) -> str:
    """Return a command that prints its arguments."""
    script = folder / "show.py"
    script.write_text("import json, sys\nprint(json.dumps({'loss': 1, 'argv': sys.argv[1:]}))")
    return f"{sys.executable} {script}"


HOSTILE = ["'; touch x; '$(touch x)`touch x`", '"; touch x; "$(touch x)`touch x`', "a  b * $HOME \\\n;touch x&"]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("SHOW {v}", ["VALUE"]),
        ("SHOW --v={v}b", ["--v=VALUEb"]),
        ("SHOW 'a'{v}\"b\"", ["aVALUEb"]),
        ("SHOW {v} {v} | cat", ["VALUE", "VALUE"]),
        ("true && (SHOW {v})  # don't run {v}", ["VALUE"]),
        ("y=$(SHOW {v}); printf '%s\\n' \"$y\"", ["VALUE"]),
        ("y=`SHOW {v}`; printf '%s\\n' \"$y\"", ["VALUE"]),
        ('f() { SHOW "$1"; }; f {v}', ["VALUE"]),
        ("sh -c 'SHOW \"$1\"' sh {v}", ["VALUE"]),
        ('cd "$(pwd)"; echo \'it\' "is" >&2; SHOW {v}', ["VALUE"]),
        ("case a in a) SHOW {v};; esac", ["VALUE"]),
        ("SHOW {{v}} {v} ${{v}}", ["{v}", "VALUE"]),
    ],
)
def test_a_shell_never_reads_a_value(command: str, expected: list[str], value: str, tmp_path: Path) -> None:
    text = command.replace("SHOW", shown_arguments(tmp_path))
    outcome = ShellObjective(text, ("v",), str(tmp_path), shell=True)(a_trial({"v": value}))
    assert outcome.info["argv"] == [part.replace("VALUE", value) for part in expected]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("shell", ["sh -c", "/bin/sh -ec", "env A=1 bash -c"])
def test_the_script_of_a_nested_shell_refers_to_values_too(value: str, shell: str, tmp_path: Path) -> None:
    run = ShellObjective([*shell.split(), f"{shown_arguments(tmp_path)} --v={{v}} | cat"], ("v",), str(tmp_path))
    assert run(a_trial({"v": value})).info["argv"] == [f"--v={value}"]
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("command", "where"),
    [
        ('p "{v}"', "inside quotes"),
        ("p '{v}'", "inside quotes"),
        ("p $'a\\'{v}'", "inside quotes"),
        ('p "it\'s" \'a\' "{v}"', "inside quotes"),
        ('p "$(p {v})"', "inside quotes"),
        ('p "$(p "{v}")"', "inside quotes"),
        ('p "`p {v}`"', "inside quotes"),
        ('sh -c "p {v}"', "inside quotes"),
        ("sh -c 'p {v}'", "inside quotes"),
        ("it's {v}", "inside quotes"),
        ('p \\\\"{v}"', "inside quotes"),
        ("p $(({v} + 1))", "inside an arithmetic expression"),
        ("((y = {v}))", "inside an arithmetic expression"),
        ("p $(((1 + 2) * {v}))", "inside an arithmetic expression"),
        ("sh <<EOF\np {v}\nEOF", "after <<"),
        ("p ${v}", r"after a \$ \(write \$\{\{v\}\}"),
        ("p \\{v}", "after a backslash"),
    ],
)
def test_a_placeholder_where_a_shell_could_run_its_value_is_refused_at_once(command: str, where: str) -> None:
    for given, shell in ((command, True), (["bash", "-c", command], False)):
        with pytest.raises(InvalidArgument, match=rf"command: \{{v\}} is {where}.* write it without quotes"):
            ShellObjective(given, ("v",), shell=shell)


@pytest.mark.parametrize(
    ("command", "shell"),
    [
        ("echo {v} $BOHB_SEED {checkpoint_dir}", False),
        ("echo {v} $BOHB_SEED | cat", True),
        (["sh", "-c", "echo {v}"], False),
    ],
)
@pytest.mark.parametrize("value", [*HOSTILE, "a  b", "'"])
def test_the_line_for_a_trial_can_be_pasted_into_a_shell(command: Any, shell: bool, value: str, tmp_path: Path) -> None:
    run = ShellObjective(command, ("v",), str(tmp_path), shell=shell)
    trial = a_trial({"v": value}, checkpoint_dir=tmp_path / "the state")
    pasted = subprocess.run(run.line(trial), shell=True, capture_output=True, text=True, check=True, cwd="/").stdout
    wanted = (
        value if isinstance(command, list) else f"{value} 77" if shell else f"{value} $BOHB_SEED {tmp_path}/the state"
    )
    assert pasted == f"{wanted}\n"
    assert (tmp_path / "the state").is_dir() == ("checkpoint_dir" in command)


def test_python_is_the_interpreter_of_this_process() -> None:
    assert ShellObjective("{python} -c 'print(1)'").arguments(a_trial({}))[0] == sys.executable


def test_braces_of_the_commands_own_stay() -> None:
    run = ShellObjective(["awk", "BEGIN{print {x}} {if(1){print $1}} {{x}}"], ("x",))
    assert run.arguments(a_trial({"x": 2}))[1] == "BEGIN{print 2} {if(1){print $1}} {x}"


@pytest.mark.parametrize(
    ("command", "names", "message"),
    [
        ("p {y}", ("x",), r"\{y\} is unknown; use x, budget"),
        ("p {seed}", ("seed",), "could be the trial's seed or the hyperparameter"),
        ("", (), "is empty"),
        ("p 'x", (), "cannot be split"),
        (["p", 3], (), "must be a list of strings"),
    ],
)
def test_a_command_that_cannot_work_is_refused_at_once(command: Any, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ShellObjective(command, names)
    with pytest.raises(InvalidArgument, match="one string"):
        ShellObjective(["p"], (), shell=True)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("0.5", 0.5),
        ("epoch 1\n0.7\n0.5\nbye", 0.5),
        ('{"loss": 0.5, "acc": 1}', {"loss": 0.5, "acc": 1}),
        ('0.1\nloss is\n{"loss": 0.5}\n{torn', {"loss": 0.5}),
        (" -1e-3 \n\n", -1e-3),
        ("inf", math.inf),
    ],
)
def test_the_loss_is_the_last_number_or_json_line(printed: str, expected: Any) -> None:
    assert result_in(printed) == expected


@pytest.mark.parametrize("printed", ["", "\n", "done", "loss: 0.5", "[0.5]", '"0.5"'])
def test_without_a_loss_the_last_line_is_shown(printed: str) -> None:
    with pytest.raises(InvalidResult, match="printed no loss"):
        result_in(printed)


def run_shell(text: str, **more: Any) -> Outcome:
    return ShellObjective(text, ("x",), shell=True)(a_trial({"x": 1}, **more))


def test_a_command_that_fails_says_why() -> None:
    failed = run_shell("echo 0.5; echo one >&2; echo 'last words' >&2; exit 3")
    assert (failed.status, failed.error) == (Status.CRASHED, "exit code 3: last words")
    assert failed.output == "one\nlast words\n"
    assert run_shell("kill -SEGV $$").error == "killed by SIGSEGV, nothing on stderr"
    assert run_shell("echo nan").status is Status.DIVERGED
    missing = ShellObjective("no-such-program-here", ())(a_trial({}))
    assert missing.error == "cannot start 'no-such-program-here': No such file or directory"


def test_the_environment_tells_the_same() -> None:
    told = run_shell('echo "{\\"loss\\": 1, \\"b\\": \\"$BOHB_BUDGET $BOHB_SEED $BOHB_PREVIOUS_BUDGET\\"}"')
    assert told.info == {"b": "3 77 "}


def test_printed_steps_become_the_learning_curve() -> None:
    curve: list[tuple[float, float]] = []
    trial = a_trial({"x": 1}, reporter=lambda step, loss: curve.append((step, loss)))
    text = """for i in 1 2 3; do echo '{"step": '$i', "loss": 0.'$i'}'; sleep 0.02; done; echo 0.25"""
    assert ShellObjective(text, ("x",), shell=True)(trial).loss == 0.25
    assert curve == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_no_step_is_lost_in_megabytes_of_output() -> None:
    steps: list[float] = []
    trial = a_trial({"x": 1}, reporter=lambda step, loss: steps.append(step))
    line = r'"%0100d\n{\"step\": %d, \"loss\": 1}\n"'
    program = f"BEGIN {{ for (i = 0; i < 40000; i++) printf {line}, i, i; print 0.25 }}"
    assert ShellObjective(["awk", program])(trial).loss == 0.25
    assert steps == list(range(40000))


def test_a_child_that_keeps_the_pipes_open_is_not_waited_for_and_not_left() -> None:
    told = run_shell("sleep 600 & echo '{\"loss\": 0.5, \"pid\": '$!'}'")
    assert told.loss == 0.5
    until(lambda: not alive(told.info["pid"]), "the child ends")


def test_a_flood_of_output_is_read_to_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    told = run_shell("head -c 9000000 /dev/zero | tr '\\0' 'x'; echo; echo 0.5")
    assert told.loss == 0.5
    capfd.readouterr()
