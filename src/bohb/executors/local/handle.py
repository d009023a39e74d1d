"""One worker process, as the coordinator sees it."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from bohb.core.trial import Trial
from bohb.executors.local.curve import Point
from bohb.executors.local.wire import Lines


@dataclass(slots=True, eq=False)
class Hand:
    """One worker process, as the coordinator sees it."""

    id: int
    slot: int
    link: socket.socket
    lines: Lines = field(default_factory=Lines)
    unsent: bytes = b""
    pid: int | None = None  # known once it is ready
    trial: Trial | None = None
    began: tuple[float, float] = (0.0, 0.0)  # by the wall clock and by the monotonic one
    curve: list[Point] = field(default_factory=list)
