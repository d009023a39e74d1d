"""What people see: showing never stops running, and names and values cannot control a terminal."""

from __future__ import annotations

import errno
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import bohb
from bohb import BOHB, Limits
from bohb.journal import SqlJournal
from bohb.running.progress import Progress
from tests.cli.running import CONTROL, STUDY, call, process

ESCAPES = "\x1b]0;title\x07\x1b[31m\x9b31m\r\u202eX"


@contextmanager
def closed_pipe() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def full_disk() -> Iterator[int]:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@contextmanager
def closed_terminal() -> Iterator[int]:
    """A terminal whose window was closed; the study has another session, so that no signal tells it."""
    window, terminal = pty.openpty()
    os.close(window)
    yield terminal
    os.close(terminal)


@pytest.mark.parametrize(("place", "workers"), [(closed_pipe, "1"), (full_disk, "1"), (closed_terminal, "0")])
def test_a_study_goes_on_when_nobody_can_see_its_progress(
    place: Callable[[], Any], workers: str, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(STUDY.replace('"echo {x}"', "\"sh -c 'test {x} = 9 || echo {x}'\""))
    with place() as stderr:
        done = subprocess.run(
            [sys.executable, "-m", "bohb", "run", "--workers", workers, "--max-trials", "30"],
            cwd=tmp_path,
            stderr=stderr,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            timeout=300,
            check=False,
        )
    assert done.returncode == 0
    assert done.stdout.startswith("trials    30 finished (0 failed)")
    with SqlJournal(tmp_path / "study.db", "bowl", read_only=True) as journal:
        assert len(BOHB.from_events(journal.read(0)).history.outcomes) == 30


def test_a_study_without_any_output_stream_runs(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    line = f"{shlex.quote(sys.executable)} -m bohb run --max-trials 9 <&- >&- 2>&-"
    assert subprocess.run(line, shell=True, cwd=tmp_path, timeout=300, check=False).returncode == 0
    with SqlJournal(tmp_path / "study.db", "bowl", read_only=True) as journal:
        assert len(BOHB.from_events(journal.read(0)).history.outcomes) == 9


def test_a_reader_that_has_gone_ends_a_command_quietly(escaping: Path) -> None:
    with closed_pipe() as stdout:
        command = [sys.executable, "-m", "bohb", "trials", "a.db"]
        done = subprocess.run(command, cwd=escaping, stdout=stdout, stderr=subprocess.PIPE, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


class BrokenStream(io.StringIO):
    """A terminal that fails after some writes."""

    left = 3

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


@pytest.mark.parametrize("left", range(6))
def test_a_panel_that_breaks_gives_the_streams_of_the_script_back(left: int) -> None:
    optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=0)
    optimizer.ask_many(3)
    stream = BrokenStream()
    stream.left = left
    before = sys.stdout, sys.stderr
    with Progress(Limits(), Console(file=stream, force_terminal=True)) as progress:
        for second in range(3):
            progress.update(optimizer.history, second, final=True)
    assert (sys.stdout, sys.stderr) == before


def escaping_study(folder: Path, trials: int = 12) -> bohb.Study:
    """A study with control characters in names, values, errors and information."""

    def objective(trial: bohb.Trial) -> dict[str, Any]:
        if trial.number % 4 == 3:
            raise RuntimeError(f"error {ESCAPES}")
        return {"loss": trial.config["y"], "info": {f"info {ESCAPES}": ESCAPES}}

    space = {f"name {ESCAPES}": [f"a {ESCAPES}", f"b {ESCAPES}"], "y": (0.0, 1.0)}
    return bohb.minimize(
        objective, space, budgets=[1, 3], seed=0, max_trials=trials, journal=folder / "a.db", progress=False
    )


@pytest.fixture(scope="module")
def escaping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("escaping")
    escaping_study(folder, 60)
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "status a.db",
        "best a.db",
        "best a.db --format args",
        "why 3 a.db",
        "trials a.db --format csv",
        "trials a.db --sort z",
    ],
)
def test_escape_sequences_of_names_and_values_do_not_reach_a_terminal(command: str, escaping: Path) -> None:
    window, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "bohb", *command.split()],
        cwd=escaping,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80"},
        timeout=300,
        check=False,
    )
    os.close(terminal)
    shown = everything(window).decode().replace("\r\n", "\n")
    assert len(shown) > 20
    assert not CONTROL.search(re.sub(r"\x1b\[(0|31)m", "", shown)), shown
    assert "\u202e" not in shown


@pytest.mark.parametrize("command", ["why 17 study.db", "plan --min 1 --max 9 --sizes paper", "best study.db"])
def test_sentences_are_wrapped_between_words_at_the_width_of_the_terminal(command: str, finished: Path) -> None:
    window, terminal = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "bohb", *command.split()],
        cwd=finished.parent,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "COLUMNS": "40"},
        timeout=300,
        check=True,
    )
    os.close(terminal)
    shown = everything(window).decode().replace("\r\n", "\n")
    ran = process(*command.split(), cwd=finished.parent)
    assert all(len(line) <= 40 for line in shown.splitlines())
    assert any(len(line) > 40 for line in ran.stdout.splitlines())
    assert shown.split() == (ran.stdout + ran.stderr).split()


def everything(window: int) -> bytes:
    """Read what was written to a terminal until its last writer has closed it."""
    data = b""
    try:
        while chunk := os.read(window, 2**16):
            data += chunk
    except OSError:  # Linux reports the end as an error
        pass
    os.close(window)
    return data


def test_escape_sequences_do_not_reach_the_panel_or_the_summary(tmp_path: Path) -> None:
    study = escaping_study(tmp_path)
    assert not CONTROL.search(str(study).replace("\n", ""))
    optimizer = BOHB({f"name {ESCAPES}": [ESCAPES, "b"]}, min_budget=1, max_budget=9, seed=0)
    optimizer.ask_many(4)
    stream = io.StringIO()
    with Progress(Limits(), Console(file=stream, force_terminal=True, width=80)) as progress:
        progress.update(optimizer.history, 1.0)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", stream.getvalue())
    assert "trial 0" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\x9b" not in shown


def test_the_options_of_the_best_configuration_survive_xargs_and_a_shell(tmp_path: Path) -> None:
    values = ["a  b", "it's", 'say "so"', "$HOME", "*", "\\"]
    for number, value in enumerate(values):
        folder = tmp_path / str(number)
        folder.mkdir()
        bohb.minimize(
            lambda trial: 0.5, {"n": (1, 2), "the name": [value]}, budgets=[1], max_trials=1, journal=folder / "a.db"
        )
        printed = process("best", "a.db", "--format", "args", cwd=folder).stdout
        show = f"{shlex.quote(sys.executable)} -c 'import sys; print(sys.argv[1:])'"
        for line in (f"xargs {show}", f'eval {shlex.quote(show)} "$(cat)"'):
            out = subprocess.run(line, shell=True, input=printed, capture_output=True, text=True, check=True).stdout
            assert out.strip().endswith(str(["--the name", value])[1:])
    assert call("best", "--help").output.count("xargs") == 2
