"""How the command line writes: plain columns, short numbers, and nothing that a terminal could take for a command."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

Params = Callable[..., Any]


def json_option(function: Params) -> Params:
    """The options that every command has."""
    debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
    function = debug(function)
    return click.option("--json", "as_json", is_flag=True, help="Write JSON to stdout, and nothing else.")(function)


def emit(as_json: bool, data: Any, text: str) -> None:
    """Write the result of a command: data for a script, or text for people."""
    click.echo(json.dumps(data, indent=2, allow_nan=False, default=str) if as_json else text)


def note(text: str) -> None:
    """Say something that is not the result: to stderr."""
    click.echo(clean(text), err=True)


def clean(text: str) -> str:
    """Text without control characters: names and messages may come from anywhere."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def number(value: float | None, digits: int = 6) -> str:
    """A number in few characters; a dash for none."""
    return "–" if value is None else f"{value:.{digits}g}"


def value_text(value: Any) -> str:
    """The value of a hyperparameter."""
    if isinstance(value, float):
        return number(value)
    return clean(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def duration(seconds: float | None) -> str:
    """A time span for people: 0.4 s, 12 s, 3 min 20 s, 5 h 7 min, 2 d 3 h."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def counted(n: int, what: str) -> str:
    """1 trial, 2 trials."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[str] = ()) -> str:
    """Aligned columns: to the right, but for those named in `left`; cut to the width of a terminal, if it is one."""
    cells = [[clean(str(cell)).replace("\n", " ") for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    texts = {i for i, name in enumerate(head) if name in set(left)}
    lines = []
    for row in cells:
        placed = zip(range(len(row)), row, widths, strict=True)
        lines.append("  ".join(cell.ljust(width) if i in texts else cell.rjust(width) for i, cell, width in placed))
    return "\n".join(_cut(line.rstrip()) for line in lines)


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Two columns: what, and how much."""
    found = list(rows)
    width = max(len(name) for name, _ in found)
    return "\n".join(_cut(f"{name.ljust(width)}  {clean(text)}") for name, text in found)


def _cut(line: str) -> str:
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return line if len(line) <= width else line[: width - 1] + "…"
