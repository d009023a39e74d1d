"""Output of the command line: aligned columns, JSON, and no control characters."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import click

from bohb.units import number, printable

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


def value_text(value: Any) -> str:
    """Format the value of a hyperparameter."""
    if isinstance(value, float):
        return number(value)
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[str] = ()) -> str:
    """Align columns to the right, those named in `left` to the left. In a terminal, lines are cut to its width."""
    cells = [[printable(str(cell)).replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    align = [str.ljust if name in left else str.rjust for name in head]
    lines = ["  ".join(f(cell, width) for f, cell, width in zip(align, row, widths, strict=True)) for row in cells]
    return "\n".join(_cut(line.rstrip()) for line in lines)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Align names and texts in two columns."""
    found = list(rows)
    width = max(len(name) for name, _ in found)
    return "\n".join(_cut(f"{name.ljust(width)}  {printable(text)}") for name, text in found)


def _cut(line: str) -> str:
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else line[: width - 1] + "…"
