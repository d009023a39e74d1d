"""Limits of HTTP connections: how many there are, how long a request may take to arrive, and how much is logged.

Whoever opens connections and sends nothing must not keep others out, and must not fill a log.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 200
BATCH = 50  # connections that are accepted at a time
QUEUE = 1000  # connections that wait to be accepted
REQUEST_SECONDS = 10.0  # for a request to arrive, after the connection was made or the last answer was sent
LOG_SECONDS = 60.0  # between two log messages of the same kind


def most_connections() -> int:
    """Return how many connections may be open, so that enough file descriptors are left for the journal."""
    if sys.platform == "win32":
        return MOST_CONNECTIONS
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MOST_CONNECTIONS, files // 4))


class LimitedServer(uvicorn.Server):
    """A server that accepts connections in batches and lets the others wait.

    asyncio has one number for both. With a large one it would accept more connections at a time than there are file
    descriptors; with a small one the system would refuse those that come in between, and they would try again later.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections, then lengthen the queue."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(QUEUE)


class LimitedConnection(H11Protocol):
    """A connection that is closed if no request arrives in time, or if it is the oldest of too many.

    since: when it was made, or when its last answer was sent.
    """

    _deadline: asyncio.TimerHandle | None = None
    since = 0.0

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Close the connection that has waited longest if there are too many; one that is answered goes last."""
        super().connection_made(transport)
        self.since = time.monotonic()
        self._expect_request()
        others = [c for c in self.connections if isinstance(c, LimitedConnection) and c is not self]
        if len(others) >= most_connections():
            oldest = min(others, key=lambda other: (other.is_answering, other.since))
            self.connections.discard(oldest)
            oldest.transport.abort()

    def on_response_complete(self) -> None:
        """Wait for the next request of the same connection."""
        self.since = time.monotonic()
        self._expect_request()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(REQUEST_SECONDS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        if not self.is_answering:
            self.transport.abort()


class _Seldom(logging.Filter):
    """Passes one message of a kind per minute, as one line."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = str(record.msg).partition("\n")[0]
        now = time.monotonic()
        if now - self._last.get(kind, -LOG_SECONDS) < LOG_SECONDS:
            return False
        self._last[kind] = now
        if record.name == "asyncio":  # which adds a traceback of its own code
            record.msg, record.args, record.exc_info = kind, (), None
        return True


@contextmanager
def seldom_logged() -> Iterator[None]:
    """Limit the messages about connections to one of a kind per minute."""
    limit = _Seldom()
    loggers = [logging.getLogger(name) for name in ("asyncio", "uvicorn.error")]
    for logger in loggers:
        logger.addFilter(limit)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(limit)
