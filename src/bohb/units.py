"""Parse and format durations, sizes, times, counts and text."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping

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


def duration(seconds: float | None) -> str:
    """Format a time span: 0.4 s, 12 s, 3 min 20 s, 5 h 7 min, 2 d 3 h."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
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
    if time is None:
        return "unknown"
    return datetime.datetime.fromtimestamp(time, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def number(value: float | None, digits: int = 6) -> str:
    """Format a number with a few significant digits; a dash for None."""
    return DASH if value is None else f"{value:.{digits}g}"


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
