"""Find the benchmark data: --data, the environment variable BOHB_DATA, or ../shared/data."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "BOHB_DATA"
DEFAULT = Path(__file__).parents[2] / "shared" / "data"


class Missing(Exception):
    """Something that an experiment needs is missing; the message names it, its place and the way out."""


def directory() -> Path:
    """Return the data directory, which may not exist."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def find(*parts: str) -> Path:
    """Return a file or folder of the data directory, or raise `Missing`."""
    path = directory().joinpath(*parts)
    if not path.exists():
        raise Missing(f"{path} is missing: name the data directory with --data or {VARIABLE}")
    return path
