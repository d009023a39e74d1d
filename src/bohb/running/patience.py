"""Waits for the server of a shared study while a runner starts; a running one waits by itself."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

from bohb.errors import JournalUnavailable

T = TypeVar("T")
log = logging.getLogger("bohb")
_SECONDS = 1.0  # between two attempts
COMPLAIN_SECONDS = 60.0  # after which the same trouble is reported again


def patiently(shared: bool, act: Callable[[], T]) -> T:
    """Call `act`, and retry while the server is unavailable.

    shared: whether the journal is on a server; otherwise the error is raised at once.
    """
    complained = -math.inf
    while True:
        try:
            return act()
        except JournalUnavailable as error:
            if not shared:
                raise
            if time.monotonic() - complained > COMPLAIN_SECONDS:
                complained = time.monotonic()
                log.error("%s; the study starts when this is resolved", error)
            time.sleep(_SECONDS)
