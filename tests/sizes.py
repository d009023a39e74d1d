"""Sizes and time limits of tests: modest in `make test`, in full in `make test-long` and `make test-faults`."""

from __future__ import annotations

import os

import pytest

FULL = "BOHB_LONG_TESTS" in os.environ
long = pytest.mark.skipif(not FULL, reason="takes long: set BOHB_LONG_TESTS")


def size(quick: int, full: int) -> int:
    """Return the number of repetitions: `full` where BOHB_LONG_TESTS is set, otherwise `quick`."""
    return full if FULL else quick


def bound(seconds: float) -> float:
    """Return a promised time: `seconds` where BOHB_LONG_TESTS is set, otherwise a minute, for machines under load."""
    return seconds if FULL else 60.0
