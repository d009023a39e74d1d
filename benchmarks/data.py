"""Where the benchmark data lies: --data, the environment variable BOHB_DATA, or ../shared/data."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "BOHB_DATA"
DEFAULT = Path(__file__).parents[2] / "shared" / "data"


class Missing(Exception):
    """Something that an experiment needs is not here; the message says what, where, and what to do."""


def directory() -> Path:
    """The data directory; whether it exists is for `find` to say."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def find(*parts: str) -> Path:
    """A file or folder of the data directory."""
    path = directory().joinpath(*parts)
    if not path.exists():
        raise Missing(f"{path} is missing: name the data directory with --data or {VARIABLE}")
    return path
