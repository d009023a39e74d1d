"""Ctrl-C while trials run: once to finish them, twice to stop at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger("bohb")


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C was pressed; pressing it again raises KeyboardInterrupt.

    Outside the main thread it always returns False, because signals only reach the main thread.
    """
    pressed = 0

    def on_interrupt(*_: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt
        log.warning("interrupted: finishing the running trials; press Ctrl-C again to stop at once")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: pressed > 0
    finally:
        signal.signal(signal.SIGINT, before)
