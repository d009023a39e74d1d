"""Output of the command line: aligned columns, JSON, and no control characters."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import click

from bohb.units import aligned, printable

Params = Callable[..., Any]


def json_option(function: Params) -> Params:
    """Add the options that every command has."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    function = debug(function)
    return click.option("--json", "as_json", is_flag=True, help="Write only JSON to stdout.")(function)


def emit(as_json: bool, data: Any, text: str) -> None:
    """Write the result of a command: JSON for scripts, or text for people."""
    click.echo(json.dumps(data, indent=2, allow_nan=False, default=str) if as_json else text)


def note(text: str) -> None:
    """Write a note to stderr, where it does not mix with the result; nobody may be there to read it."""
    with suppress(OSError):
        click.echo(printable(text), err=True)


def as_data(text: str) -> str:
    """Return text that programs read: exact in a file or a pipe, without control characters in a terminal."""
    return printable(text) if sys.stdout.isatty() else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Align columns to the right, those named in `left` to the left. In a terminal, lines are cut to its width."""
    cells = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    align = [str.ljust if name in left else str.rjust for name in head]
    lines = ["  ".join(f(cell, width) for f, cell, width in zip(align, row, widths, strict=True)) for row in cells]
    return "\n".join(_cut(line.rstrip()) for line in lines)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Align names and texts in two columns. In a terminal, texts are wrapped by words."""
    return aligned(rows, _terminal_width())


def wrapped(text: str) -> str:
    """Return a sentence without control characters. In a terminal it is wrapped by words."""
    width = _terminal_width()
    text = printable(text)
    return text if width is None else textwrap.fill(text, width, break_on_hyphens=False)


def _cut(line: str) -> str:
    width = _terminal_width()
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


def _terminal_width() -> int | None:
    """Return the columns of the terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
