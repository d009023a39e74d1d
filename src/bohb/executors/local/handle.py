"""A worker process as the coordinator sees it."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass, field

from bohb.core.trial import Outcome, Trial, with_times
from bohb.executors.local.curve import Point
from bohb.executors.local.deaths import Stage
from bohb.executors.local.wire import Lines


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """One worker process, and the socket to it.

    pid: known once the worker is ready.
    stage: how far it has come.
    launched: when its start was asked for, by the monotonic clock; `startup` is how long it took to be ready.
    began: when its trial began, by the wall clock and by the monotonic clock.
    """

    id: int
    slot: int
    link: socket.socket
    lines: Lines = field(default_factory=Lines)
    unsent: bytes = b""
    pid: int | None = None
    stage: Stage = Stage.STARTING
    trial: Trial | None = None
    launched: float = field(default_factory=time.monotonic)
    startup: float = 0.0
    began: tuple[float, float] = (0.0, 0.0)
    curve: list[Point] = field(default_factory=list)

    def ended_now(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a trial that has just ended with its start and end times, by the monotonic clock."""
        wall, clock = self.began
        return with_times(outcome, wall, wall + time.monotonic() - clock)
