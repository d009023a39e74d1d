"""The session recorded in docs/cli.md is what happens.

`python -m tests.cli.test_session` records it again.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bohb.cli import app
from tests.cli.running import CONTROL, EXAMPLES

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^\$ (.+)$", flags=re.MULTILINE)


def commands(page: str) -> list[str]:
    return [line for block in _BLOCK.findall(page) for line in _COMMAND.findall(block)]


def outputs(page: str) -> list[str]:
    return [text.strip("\n") for block in _BLOCK.findall(page) for text in _COMMAND.split(block)[2::2]]


def play(lines: list[str], directory: Path) -> list[str]:
    """What each command writes, to stdout and stderr together."""
    for name in ("study.toml", "train.awk"):
        shutil.copy(EXAMPLES / name, directory)
    before = Path.cwd()
    os.chdir(directory)
    try:
        outputs_now = [CliRunner().invoke(app, shlex.split(line)[1:], prog_name="bohb").output for line in lines]
    finally:
        os.chdir(before)
    return [text.replace(f"{directory}/", "").strip("\n") for text in outputs_now]


def normal(text: str) -> str:
    """The text without what differs from run to run and from machine to machine.

    These are progress lines, which are printed at certain times, then times, fractions and spaces.
    """
    text = re.sub(r"^\[ *\d.*\] .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\d+(\.\d+)? (d|h|min|ms|s)\b( \d+ (h|min|s)\b)?", "# s", text)
    text = re.sub(r"-?\d+\.\d+(e[-+]?\d+)?", "#", text)
    return re.sub(r"[ \t]+", " ", text)


def test_the_recorded_session_is_what_happens(tmp_path: Path) -> None:
    page = PAGE.read_text()
    lines, expected = commands(page), outputs(page)
    assert len(lines) > 10
    for line, then, now in zip(lines, expected, play(lines, tmp_path), strict=True):
        assert not CONTROL.search(now)
        assert normal(now) == normal(then), f"$ {line}\n(python -m tests.cli.test_session records the session again)"


@pytest.mark.parametrize("text", ["took 0.4 s", "took 12 s", "took 3 min 20 s", "took 5 h"])
def test_times_are_all_alike(text: str) -> None:
    assert normal(text) == "took # s"


def record() -> None:
    page = PAGE.read_text()
    with tempfile.TemporaryDirectory() as directory:
        outputs_now = iter(play(commands(page), Path(directory)))
    blocks = _BLOCK.sub(
        lambda block: (
            "```console\n"
            + "".join(
                f"$ {line}\n{text}\n" for line in _COMMAND.findall(block[1]) if (text := next(outputs_now)) is not None
            )
            + "```"
        ),
        page,
    )
    PAGE.write_text(blocks)


if __name__ == "__main__":
    record()
