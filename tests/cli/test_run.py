"""`bohb run`: studies from a file, run, interrupted and resumed."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bohb import BOHB, History
from bohb.journal import SqlJournal
from tests.cli.running import EXAMPLES, STUDY, answer, call, complaint, process, written

OBJECTIVE = """
import math, os
def objective(trial):
    return (trial.config["x"] - 0.3) ** 2 + 1 / trial.budget
def failing(trial):
    raise RuntimeError("always")
"""


def history(path: Path, study: str = "bowl") -> History:
    with SqlJournal(path, study, read_only=True) as journal:
        return History().extend(journal.read())


@pytest.fixture
def awk(tmp_path: Path) -> Path:
    shutil.copy(EXAMPLES / "train.awk", tmp_path)
    written(tmp_path, (EXAMPLES / "study.toml").read_text().replace("max = 27", "max = 9"))
    return tmp_path


def test_a_training_loop_in_awk_is_tuned_resumed_and_explained(awk: Path) -> None:
    first = process("run", "--workers", "1", "--max-trials", "10", "--json", cwd=awk)
    data = json.loads(first.stdout)
    assert data["stopped"] == "max_trials=10 reached"
    assert first.stderr.startswith("new study 'awk' in ")
    ended = r"\[ +[\d.]+ s\] trials: 10 of 10 finished \(0 failed\), 0 running; best: loss \S+ on budget \d"
    assert re.search(ended, first.stderr)
    again = process("run", "--workers", "1", cwd=awk)
    assert "continues: 10 trials finished" in again.stderr
    assert "all 3 brackets are complete" in again.stdout
    told = history(awk / "awk.db", "awk")
    assert len(told.trials) == 22
    best = told.incumbent
    assert best is not None
    assert best.budget == 9
    assert best.loss < 30  # the start is at 259
    assert best.outcome.curve[-1][0] == 9
    assert best.outcome.info.keys() == {"x", "y"}
    continued = [t for t in told.trials.values() if t.previous_budget is not None]
    curves = [(t.previous_budget, told.outcomes[t.number].curve) for t in continued if told.outcomes[t.number].ok]
    assert all(before is not None and curve[0][0] == before + 1 for before, curve in curves)
    failed = [o for o in told.outcomes.values() if not o.ok]
    assert all("diverged in epoch" in str(o.error) for o in failed)
    assert {"momentum" in t.config for t in told.trials.values()} == {True, False}


def test_a_program_for_node_is_tuned_too(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    (tmp_path / "train.js").write_text(
        "const [x, name, budget] = process.argv.slice(2);\n"
        "console.log('training', name);\n"
        "console.log(JSON.stringify({loss: (x - 0.3) ** 2 + 1 / budget, name}));\n"
    )
    text = STUDY.replace("echo {x}", "node train.js {x} {name} {budget}") + 'name = ["it\'s", "a b"]\n'
    data = answer("run", written(tmp_path, text), "--max-trials", "5")
    assert (data["trials"]["finished"], data["trials"]["failed"]) == (5, 0)
    assert data["incumbent"]["info"]["name"] == data["incumbent"]["config"]["name"]


def test_a_function_beside_the_file_is_found_by_the_workers(tmp_path: Path) -> None:
    (tmp_path / "my_objective_1.py").write_text(OBJECTIVE)
    file = written(tmp_path, STUDY.replace('command = "echo {x}"', 'objective = "my_objective_1:objective"'))
    data = json.loads(process("run", file, "--json", "--quiet", cwd=tmp_path.parent).stdout)
    assert data["stopped"] == "all 3 brackets are complete"
    assert data["trials"]["failed"] == 0
    assert (tmp_path / "study.db").exists()
    assert answer("replay", file)["different"] == 0


def test_options_replace_what_the_file_says(tmp_path: Path) -> None:
    file = written(tmp_path)
    other = tmp_path / "other.db"
    for study, seed in (("a", "1"), ("b", "2"), ("c", "1")):
        given = ["--journal", str(other), "--study", study, "--seed", seed, "--max-trials", "4", "--workers", "0"]
        call("run", file, *given, "--quiet")
    configs = {s: [t.config for t in history(other, s).trials.values()] for s in "abc"}
    assert configs["a"] == configs["c"] != configs["b"]
    assert not (tmp_path / "study.db").exists()
    assert "stopped   max_trials=3" in call("run", file, "--max-trials", "3", "--workers", "0", "--quiet").stdout


@pytest.mark.parametrize(
    ("until", "why"),
    [
        ("2020-01-01 10:00", "is in the past"),
        ("0001-01-01 00:00", "is in the past"),
        ("100", "must be a time"),
    ],
)
def test_an_end_that_cannot_be_reached_is_refused(tmp_path: Path, until: str, why: str) -> None:
    assert f"'{until}' {why}" in complaint("run", written(tmp_path), "--until", until, code=2)


def test_limits_of_a_trial_hold_for_commands_and_their_children(tmp_path: Path) -> None:
    command = "sh -c 'echo $$ >> pids; sleep 600 & echo $! >> pids; wait'"
    text = STUDY.replace('"echo {x}"', f'"{command}"') + "\n[limits]\nmax_initial_failures = 2\n"
    told = call("run", written(tmp_path, text), "--trial-seconds", "3", "--quiet", code=1)
    assert "ran longer than trial_seconds=3" in told.stdout
    assert "the first 2 trials all failed" in told.stdout
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 4
    assert [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and alive(pid)] == []


def alive(pid: str) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_failures_of_a_broken_objective_can_be_forgotten_and_their_number_limited(tmp_path: Path) -> None:
    (tmp_path / "objective.py").write_text(OBJECTIVE)
    broken = written(tmp_path, STUDY.replace('command = "echo {x}"', 'objective = "objective:failing"'), "broken.toml")
    options = ("--workers", "0", "--quiet", "--journal", tmp_path / "a.db")
    first = call("run", broken, "--max-initial-failures", "3", *options, code=1)
    assert "the first 3 trials all failed, 3 of them with: RuntimeError: always" in first.stdout
    fixed = written(tmp_path, STUDY)
    call("run", fixed, "--max-trials", "2", *options)
    call("run", fixed, "--max-trials", "3", "--forget-failures", *options)
    assert history(tmp_path / "a.db").forgotten == {0, 1, 2}


def test_the_json_of_a_study_without_a_success_names_the_cause(tmp_path: Path) -> None:
    (tmp_path / "objective.py").write_text(OBJECTIVE)
    file = written(tmp_path, STUDY.replace('command = "echo {x}"', 'objective = "objective:failing"'))
    result = call("run", file, "--workers", "0", "--max-trials", "2", "--quiet", "--json", code=1)
    assert json.loads(result.stdout)["error"] == "2 of them with: RuntimeError: always"


def test_a_study_in_which_nothing_succeeds_exits_with_1(tmp_path: Path) -> None:
    file = written(tmp_path, STUDY.replace("echo {x}", "sh -c 'echo broken >&2; exit 4'"))
    told = call("run", file, "--quiet", "--workers", "0", code=1)
    assert "the first 10 trials all failed" in told.stdout
    assert "exit code 4: broken" in told.stdout


def test_earlier_results_and_first_configurations_come_from_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    call("run", file, "--max-trials", "6", "--workers", "0", "--quiet")
    text = STUDY.replace("seed = 1", 'journal = "new.db"\nwarm_start = ["study.db"]\ninitial_configs = [{x = 0.25}]')
    call("run", written(tmp_path, text, "new.toml"), "--max-trials", "2", "--workers", "0", "--quiet")
    told = history(tmp_path / "new.db")
    assert told.trials[0].config == {"x": 0.25}
    assert len(told.observed) == 6


def test_the_repair_of_a_journal_in_use_is_refused_in_one_line(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "study.db", "bowl") as journal:
        BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, journal=journal)
        assert "is in use by process" in complaint("repair", tmp_path / "study.db")


@contextmanager
def terminal_run(directory: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """`bohb run` in a pseudo terminal; gives the process and what has been shown."""
    ours, theirs = pty.openpty()
    shown = bytearray()
    running = subprocess.Popen(
        [sys.executable, "-m", "bohb", "run", *arguments],
        cwd=directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)

    def screen() -> str:
        while True:
            try:
                data = os.read(ours, 2**16)
            except (BlockingIOError, OSError):
                break
            if not data:
                break
            shown.extend(data)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode(errors="replace"))

    try:
        yield running, screen
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        os.close(ours)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


WAITING = STUDY.replace(
    '"echo {x}"', "'''sh -c 'echo s >> started; while [ ! -e go ]; do sleep 0.02; done; echo {x}' '''"
)


def both_started(directory: Path) -> bool:
    started = directory / "started"
    return started.exists() and len(started.read_text().split()) >= 2


def test_ctrl_c_once_finishes_the_running_trials(tmp_path: Path) -> None:
    written(tmp_path, WAITING)
    with terminal_run(tmp_path, "--workers", "2") as (running, screen):
        wait_until(lambda: both_started(tmp_path) and "2 running" in screen())
        os.kill(running.pid, signal.SIGINT)
        wait_until(lambda: "finishing the running trials" in screen())
        assert running.poll() is None
        (tmp_path / "go").touch()
        wait_until(lambda: "stopped   interrupted" in screen() and running.poll() is not None)
        assert running.returncode == 130
    told = history(tmp_path / "study.db")
    assert len(told.outcomes) == len(told.trials) == 2
    assert all(outcome.ok for outcome in told.outcomes.values())


def test_ctrl_c_twice_stops_at_once_and_the_next_run_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path, WAITING)
    with terminal_run(tmp_path, "--workers", "2") as (running, screen):
        wait_until(lambda: both_started(tmp_path))
        os.kill(running.pid, signal.SIGINT)
        wait_until(lambda: "finishing the running trials" in screen())
        os.kill(running.pid, signal.SIGINT)
        wait_until(lambda: running.poll() is not None, 20)
        assert "interrupted twice" in screen()
        assert running.returncode == 130
    assert len(history(tmp_path / "study.db").outcomes) == 0
    (tmp_path / "go").touch()
    call("run", file, "--workers", "1", "--max-trials", "3", "--quiet")
    told = history(tmp_path / "study.db")
    assert len(told.outcomes) == 3
    assert [trial.attempt for trial in told.trials.values()] == [2, 2, 1]


def test_a_configuration_is_added_to_a_study_that_has_begun(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert "has no journal yet" in complaint("enqueue", '{"x": 0.5}', file)
    call("run", file, "--max-trials", "2", "--quiet", "--workers", "0")
    assert answer("enqueue", '{"x": 0.5}', file) == {"added": True, "waiting": 1}
    assert call("enqueue", '{"x": 0.5}', file).stdout.startswith("not added, because the study was given")
    call("run", file, "--max-trials", "3", "--quiet", "--workers", "0")
    assert answer("trials", file)[-1]["origin"] == "given"
    assert answer("trials", file)[-1]["config"] == {"x": 0.5}


def test_a_long_configuration_is_no_name_of_a_file(tmp_path: Path) -> None:
    table = "".join(f"hyperparameter_{n} = {{float = [0, 1]}}\n" for n in range(30))
    file = written(tmp_path, STUDY.replace("x = {float = [0, 1]}", table).replace("{x}", "0.5"))
    call("run", file, "--max-trials", "1", "--quiet", "--workers", "0")
    config = json.dumps({f"hyperparameter_{n}": 0.123456789 for n in range(30)})
    assert answer("enqueue", config, file)["added"]
    assert "larger whole number than floats can hold" in complaint(
        "enqueue", f'{{"hyperparameter_0": {10**400}}}', file
    )


def test_a_configuration_that_cannot_be_added_is_named(tmp_path: Path) -> None:
    file = written(tmp_path)
    call("run", file, "--max-trials", "1", "--quiet", "--workers", "0")
    assert "is not JSON" in complaint("enqueue", "x=0.5", file, code=2)
    assert "must be a JSON object" in complaint("enqueue", "[0.5]", file, code=2)
    assert "7" in complaint("enqueue", '{"x": 7}', file)
    assert "there is no study 'other'" in complaint("enqueue", '{"x": 0.5}', file, "--study", "other")
    with SqlJournal(tmp_path / "study.db", "bowl"):  # another process may have it open
        call("enqueue", '{"x": 0.5}', file)


NOISY = """
def objective(trial):
    return (trial.config["x"] - 0.3) ** 2 + trial.seed % 100 / 1000
"""


def test_the_best_configurations_are_confirmed_and_best_shows_the_winner(tmp_path: Path) -> None:
    (tmp_path / "noisy_objective.py").write_text(NOISY)
    file = written(tmp_path, STUDY.replace('command = "echo {x}"', 'objective = "noisy_objective:objective"'))
    assert "has no journal yet" in complaint("confirm", file)
    call("run", file, "--workers", "0", "--quiet")
    arguments = ("confirm", file, "--workers", "0", "--top", "3", "--repeats", "3", "--default", '{"x": 0.9}')
    assert "12 of at most 12: " in call(*arguments).stderr
    data = answer(*arguments)  # the stored answer
    assert [len(candidate["losses"]) for candidate in data["candidates"]][-1] == 3
    best = answer("best", file)
    assert best["config"] == data["candidates"][data["winner"]]["config"]
    assert best["confirmation"] == data == answer("status", file)["confirmation"]
    assert json.loads(call("best", file, "--format", "json").stdout) == best["config"]
    for command in ("best", "status"):
        assert f"confirmed: trial {best['trial']} has the expected loss" in call(command, file).stdout
    assert "is not JSON" in complaint("confirm", file, "--default", "{", code=2)
    assert "is not a hyperparameter" in complaint("confirm", file, "--default", '{"y": 1}')
