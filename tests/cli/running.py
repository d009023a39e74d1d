"""Call the command line in this process or as a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from bohb.cli import app

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f]")

STUDY = """
study = "bowl"
command = "echo {x}"
seed = 1
[budget]
min = 1
max = 9
[space]
x = {float = [0, 1]}
"""


def call(*arguments: str | Path, code: int = 0) -> Result:
    """Call a command in this process; fail unless it exits with `code`."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], prog_name="bohb")
    assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception!r}"
    return result


def answer(*arguments: str | Path) -> Any:
    """Return the JSON that a command writes with --json, which must be all of its stdout."""
    return json.loads(call(*arguments, "--json").stdout)


def complaint(*arguments: str | Path, code: int = 1) -> str:
    """Return the one line that a failing command writes to stderr."""
    result = call(*arguments, code=code)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


def process(*arguments: str | Path, cwd: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own; its output must not contain control characters."""
    done = subprocess.run(
        [sys.executable, "-m", "bohb", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert not CONTROL.search(done.stdout + done.stderr)
    return done


def written(directory: Path, text: str = STUDY, name: str = "study.toml") -> Path:
    """Write a study file."""
    path = directory / name
    path.write_text(text)
    return path
