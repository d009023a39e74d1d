"""How numbers, times and places are written on the pages."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from bohb.dashboard.markup import Html, el

DASH = "–"


def link_to(path: str, **query: object) -> str:
    """An address on this site; names of studies travel as parameters, so that no name can be a path."""
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def number(value: float | None, digits: int = 6) -> str:
    """A number with as many digits as people read."""
    return DASH if value is None else f"{value:.{digits}g}"


def count(n: int, singular: str, plural: str | None = None) -> str:
    """`1 trial`, `10,000 trials`."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def duration(seconds: float | None) -> str:
    """`0.21 s`, `14 s`, `3 min 20 s`, `5 h 03 min`, `2 d 4 h`."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    if seconds < 10:
        return f"{max(seconds, 0.0):.2g} s" if seconds >= 0.001 else "0 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def moment(seconds: float | None) -> Html:
    """A point in time in UTC; the page's script shows it in the reader's own time zone."""
    try:
        when = datetime.fromtimestamp(seconds or 0.0, UTC)
    except (ValueError, OverflowError, OSError):
        seconds = None
    if seconds is None:
        return el("span", DASH)
    return el(
        "time",
        f"{when:%Y-%m-%d %H:%M:%S} UTC",
        datetime=when.isoformat(timespec="seconds"),
        title=f"{when:%Y-%m-%d %H:%M:%S} UTC",
        data_moment=f"{seconds:.3f}",
    )


def since(start: float | None, now: float) -> Html:
    """How long something has been going on; the page's script lets it tick."""
    if start is None:
        return el("span", DASH)
    return el("span", duration(now - start), data_since=f"{start:.3f}", class_="ticking")


def ago(moment_: float | None, now: float) -> Html:
    """How long ago something was."""
    if moment_ is None:
        return el("span", DASH)
    return el("span", f"{duration(now - moment_)} ago", data_ago=f"{moment_:.3f}", class_="ticking")


def value_text(value: Any) -> str:
    """The value of a hyperparameter: floats to six digits, text as it is."""
    if isinstance(value, float):
        return number(value)
    return value if isinstance(value, str) else str(value)


def config_json(config: dict[str, Any]) -> str:
    """A configuration as JSON, to be copied."""
    return json.dumps(config, indent=2, ensure_ascii=False, default=str)


def size(n: int) -> str:
    """A number of bytes."""
    amount = float(n)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
