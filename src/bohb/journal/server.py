"""Connections to PostgreSQL: how long we wait for the server, and what we need of each transaction."""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from typing import Any

import psycopg
from psycopg import waiting
from psycopg.pq import PipelineStatus
from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.engine import URL, ExceptionContext

from bohb.errors import InvalidArgument

_VARIABLE = "BOHB_SERVER_TIMEOUT"
_ANSWER_SECONDS = 30.0
_CONNECT_SECONDS = 10.0

# Set for each transaction rather than for the session: a connection pooler may give every transaction another session.
_SETTINGS = """SELECT
    set_config('lock_timeout', %(lock)s, true),
    set_config('statement_timeout', %(statement)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)"""


def answer_seconds() -> float:
    """Return how long a server may send nothing before its connection counts as lost."""
    given = os.environ.get(_VARIABLE, "")
    try:
        seconds = float(given or _ANSWER_SECONDS)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 3600:
        raise InvalidArgument(f"{_VARIABLE}={given!r} must be a number of seconds between 1 and 3600")
    return seconds


def postgres_engine(url: URL, read_only: bool, idle_seconds: float) -> Engine:
    """Return an engine whose transactions do not depend on the defaults of the server, the database or the role.

    idle_seconds: after this time without a statement the server ends a transaction and its connection.

    The server gives up on a lock and on a statement before we give up on the server, so that a connection is only
    closed if the server is out of reach. Parameters of the URL, such as `connect_timeout`, have precedence.
    """
    answer = answer_seconds()
    ours = {
        "connect_timeout": max(2, round(min(answer, _CONNECT_SECONDS))),
        "keepalives_idle": 30,  # also keeps routers from forgetting a connection that is rarely used
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": round(1000 * answer),
    }
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        poolclass=NullPool,
        connect_args={name: value for name, value in ours.items() if name not in url.query},
        isolation_level="READ COMMITTED",
    )
    settings = {
        "lock": _milliseconds(answer * 2 / 3),
        "statement": _milliseconds(answer * 5 / 6),
        "idle": _milliseconds(idle_seconds),
    }

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: object, _record: object, arguments: Any, parameters: Any) -> Any:
        connection = _Connection.connect(*arguments, **parameters)
        connection.answer_seconds = answer
        connection.read_only = True if read_only else None  # None: the server decides, since it may be a standby
        return connection

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(_SETTINGS, settings)

    @event.listens_for(engine, "handle_error")
    def _recognise_lost(context: ExceptionContext) -> None:
        """Count a connection as lost that was cut within `executemany`: it cannot leave psycopg's pipeline mode."""
        if context.connection is not None and not context.is_disconnect:
            driver = context.connection.connection.dbapi_connection
            context.is_disconnect = isinstance(driver, _Connection) and driver.is_stuck

    return engine


def _milliseconds(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up on a server which sends nothing; psycopg itself waits forever."""

    answer_seconds = _ANSWER_SECONDS

    @property
    def is_stuck(self) -> bool:
        """Whether it is in pipeline mode after a statement has failed, so that no other can be sent."""
        return not self.closed and self.pgconn.pipeline_status != PipelineStatus.OFF

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:  # noqa: ARG002
        """Wait for an answer; Ctrl-C gives up at once."""
        try:
            return waiting.wait(self._bounded(gen), self.pgconn.socket, interval)
        except KeyboardInterrupt:
            self.pgconn.finish()  # the server rolls back; cancelling the statement would need an answer as well
            raise

    def _bounded(self, gen: Any) -> Generator[Any, Any, Any]:
        """Pass everything on to a generator of psycopg, which is given 0 while there is nothing to read or write."""
        last = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    last = now
                elif now - last > self.answer_seconds:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"the server has sent nothing for {self.answer_seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value
