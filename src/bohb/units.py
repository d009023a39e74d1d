"""Parse and format durations, sizes, times, counts and text."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import re
import shlex
import textwrap
from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest

DASH = "–"  # an unknown value
_SPANS = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def seconds(value: object) -> float:
    """Parse a duration: a number of seconds, or a string such as "10ms", "90s", "30m", "8h" or "2d"."""
    return _quantity(value, {"": 1, "ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}, '"30m", "8h"')


def memory(value: object) -> int:
    """Parse a size: a number of bytes, or a string such as "512MB" or "4GiB"."""
    units = {f"{p}{b}": 10 ** (3 * i) for i, p in enumerate(("", "k", "M", "G", "T")) for b in ("", "B")}
    units |= {f"{p}i{b}": 2 ** (10 * i) for i, p in enumerate(("K", "M", "G", "T"), 1) for b in ("", "B")}
    return int(_quantity(value, units, '"512MB", "4GiB"'))


def _quantity(value: object, units: Mapping[str, float], examples: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", value) if isinstance(value, str) else None
    if found is None or found[2] not in units:
        raise ValueError(f"must be a number or a string such as {examples}")
    number = float(found[1]) * units[found[2]]
    return int(number) if number.is_integer() else number


def moment(value: object, now: datetime.datetime | None = None) -> float:
    """Parse a time of day and return it in seconds since the epoch.

    A clock time such as "18:00" is the next one, today or tomorrow. A date with a time, "2026-05-01 18:00" in ISO form
    or a datetime, must have a time zone or is local time. A number counts seconds since the epoch.
    """
    now = now or datetime.datetime.now()
    if isinstance(value, int | float) and not isinstance(value, bool):
        if value <= now.timestamp():
            raise ValueError("is in the past")
        return value
    parsed = _parsed_moment(value)
    if isinstance(parsed, datetime.time):
        today = now if parsed.tzinfo is None else now.astimezone(parsed.tzinfo)
        at = today.replace(hour=parsed.hour, minute=parsed.minute, second=parsed.second, microsecond=parsed.microsecond)
        later = at if at.timestamp() > now.timestamp() else at + datetime.timedelta(days=1)
        return later.timestamp()
    if parsed.year < now.year - 1 or parsed.timestamp() <= now.timestamp():  # the year 1 has no time stamp
        raise ValueError("is in the past")
    return parsed.timestamp()


def _parsed_moment(value: object) -> datetime.datetime | datetime.time:
    if isinstance(value, datetime.datetime | datetime.time):
        return value
    parsers: tuple[Callable[[str], datetime.datetime | datetime.time], ...]
    parsers = datetime.time.fromisoformat, datetime.datetime.fromisoformat
    for parse in parsers if isinstance(value, str) and ":" in value else ():
        with contextlib.suppress(ValueError):
            return parse(str(value).strip())
    raise ValueError('must be a time such as "18:00", "2026-05-01 18:00" or a datetime')


def clock(time: float) -> str:
    """Format a moment as local time: 18:00, or with the date if it is more than 20 hours away from now."""
    at, now = datetime.datetime.fromtimestamp(time), datetime.datetime.now()
    return at.strftime("%H:%M" if abs((at - now).total_seconds()) < 72_000 else "%Y-%m-%d %H:%M")


def duration(seconds: float | None) -> str:
    """Format a time span: 20 ms, 0.4 s, 12 s, 3 min 20 s, 5 h 7 min, 2 d 3 h."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds <= 0:
        return "0 s"
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small, below in _SPANS:
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def size(n_bytes: float) -> str:
    """Format a number of bytes: 512 B, 1.5 MiB, 20 GiB."""
    value = float(n_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.3g} {unit}"
        value /= 1024
    return f"{value:.3g} TiB"


def date(time: float | None) -> str:
    """Format a time of day in UTC: 2026-05-01 12:30 UTC."""
    with contextlib.suppress(OverflowError, ValueError, OSError):  # no clock has shown it
        if time is not None:
            return datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return "unknown"


def number(value: float | None, digits: int = 6) -> str:
    """Format a number with a few significant digits; a dash for None."""
    return DASH if value is None else f"{value:.{digits}g}"


def value_text(value: object) -> str:
    """Format the value of a hyperparameter: floats with six digits, text as it is, anything else as JSON."""
    if isinstance(value, float):
        return number(value)
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def option_text(value: object) -> str:
    """Format the value of a hyperparameter for a command: text and numbers as they are, anything else as JSON."""
    return json.dumps(value) if isinstance(value, bool | list | tuple | None) else str(value)


def command_line(config: Mapping[str, object]) -> str:
    """Format a configuration as options of a command, quoted for a shell."""
    parts = ((f"--{name}", option_text(value)) for name, value in config.items())
    return " ".join(shlex.quote(part) for pair in parts for part in pair)


def aligned(rows: Iterable[tuple[str, str]], width: int | None = None) -> str:
    """Align labels and texts in two columns, without control characters.

    width: texts are wrapped by words so that lines have at most so many characters; None does not wrap.
    """
    found = list(rows)
    indent = 2 + max(len(label) for label, _ in found)
    lines = []
    for label, text in found:
        parts = [printable(text)]
        if width is not None:
            parts = textwrap.wrap(parts[0], max(20, width - indent), break_on_hyphens=False) or [""]
        lines += [f"{name:{indent}}{part}".rstrip() for name, part in zip_longest([label], parts, fillvalue="")]
    return "\n".join(lines)


def grouped(n: int) -> str:
    """Format a count with its thousands apart: 10 000."""
    return f"{n:,}".replace(",", " ")


def counted(n: int, what: str, plural: str | None = None) -> str:
    """Format a count with its noun: 1 trial, 2 trials, 10 000 trials."""
    return f"{grouped(n)} {what if n == 1 else plural or f'{what}s'}"


def short(value: object, limit: int = 80) -> str:
    """Format any value, cut to `limit` characters."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Replace control characters other than line ends: a terminal would obey those in names, values and errors."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)
