"""Sizes of tests that repeat one claim: small in `make test`, full in `make test-long`."""

from __future__ import annotations

import os


def size(quick: int, full: int) -> int:
    """Return the number of repetitions: `full` where BOHB_LONG_TESTS is set, otherwise `quick`."""
    return full if "BOHB_LONG_TESTS" in os.environ else quick
