"""Journals on a PostgreSQL server: how long we wait for it, what we need of each transaction, what its errors mean."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import psycopg
from psycopg import IsolationLevel, waiting
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PipelineStatus

from bohb.errors import InvalidArgument, JournalDamaged, JournalError, JournalUnavailable
from bohb.journal.database import FULL, TURN_SECONDS, Connection, Database, LockTimeout, one_line
from bohb.journal.location import shown_journal

_VARIABLE = "BOHB_SERVER_TIMEOUT"
_ANSWER_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_reached: set[str] = set()  # servers that this process has been connected to
_ADVISORY = 0x626F6862  # 'bohb'

# Set for each transaction rather than for the session: a connection pooler may give every transaction another session.
_SETTINGS = """SELECT
    set_config('lock_timeout', %(lock)s, true),
    set_config('statement_timeout', %(statement)s, true),
    set_config('idle_in_transaction_session_timeout', %(idle)s, true),
    set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'), true)"""
_TURN = """SELECT length, set_config('idle_in_transaction_session_timeout', :idle, true) FROM study
    WHERE study = :of FOR UPDATE"""

# https://www.postgresql.org/docs/current/errcodes-appendix.html: the first two characters are the class of the error
_READ_ONLY, _LOCK_TIMEOUT, _DISK_FULL = "25006", "55P03", "53100"
# connection; serialization failure, deadlock; out of memory, disk space or connections; cancelled, shutting down,
# starting up; input or output; idle in a transaction for too long, transaction timeout
_PASSING = ("08", "40", "53", "57", "58", "25P03", "25P04")
_DAMAGED = ("XX001", "XX002")


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


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the parameters of a connection that a URL names. An error shows no part of the URL that may be secret."""
    try:
        return conninfo_to_dict(url.replace("+psycopg", "", 1))
    except psycopg.ProgrammingError as error:
        message = one_line(error)
    if "invalid URI query parameter" not in message:
        message = re.split('[:"]', message)[0].strip()
    raise InvalidArgument(f"journal={shown_journal(url)!r} is not a URL of a PostgreSQL database ({message})")


class PostgresDatabase(Database):
    """A connection to a server, whose transactions do not depend on the defaults of the server, database or role.

    The server gives up on a lock and on a statement before we give up on the server, so that a connection is only
    closed if the server is out of reach. Parameters of the URL, such as `connect_timeout`, have precedence.
    """

    # All times are those of the server, so that the clocks of the runners do not matter.
    words: ClassVar = {"clock": "extract(epoch FROM clock_timestamp())", "lock": "FOR UPDATE", "without_rowid": ""}
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    creation_lock = f"SELECT pg_advisory_xact_lock({_ADVISORY})"  # CREATE IF NOT EXISTS fails if two runners start
    errors = (psycopg.Error,)
    duplicate = psycopg.IntegrityError

    def __init__(self, url: str, read_only: bool) -> None:
        super().__init__(shown_journal(url), None, read_only)
        self._answer = answer = answer_seconds()
        ours: dict[str, Any] = {
            "connect_timeout": max(2, round(min(answer, _CONNECT_SECONDS))),
            "keepalives_idle": 30,  # also keeps routers from forgetting a connection that is rarely used
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": round(1000 * answer),
        }
        self._parameters: dict[str, Any] = ours | connection_parameters(url)
        self._settings = {
            "lock": _milliseconds(answer * 2 / 3),
            "statement": _milliseconds(answer * 5 / 6),
            "idle": _milliseconds(TURN_SECONDS),
        }
        try:
            self.prepare()
        except BaseException:
            self.close()
            raise

    def connect(self) -> Connection:
        try:
            connection = _Connection.connect(make_conninfo(**self._parameters))
        except psycopg.Error as error:
            message = one_line(error)
            if self.n_connections or (not self.read_only and self.name in _reached):  # trying again can help
                advice = "the next call connects again"
                raise JournalUnavailable(f"{self.name} cannot be reached ({message}); {advice}") from error
            advice = "check the address, and that the server runs"
            raise JournalError(f"cannot connect to {self.name} ({message}); {advice}") from error
        _reached.add(self.name)
        connection.answer_seconds = self._answer
        connection.read_only = True if self.read_only else None  # None: the server decides, since it may be a standby
        return connection

    def begin(self, reads: bool) -> None:
        connection = self._connected()
        assert isinstance(connection, _Connection)
        connection.isolation_level = IsolationLevel.REPEATABLE_READ if reads else IsolationLevel.READ_COMMITTED
        connection.execute(_SETTINGS, self._settings)

    def written(self, statement: str) -> str:
        # with the placeholders of psycopg
        return re.sub(r":(\w+)", r"%(\1)s", super().written(statement).replace("%", "%%"))

    @contextmanager
    def turn(self, study: str, seconds: float) -> Iterator[None]:
        """Lock the row of a study in a transaction that all others join; the server ends it after these seconds."""
        with self.transaction():
            self.execute(_TURN, of=study, idle=_milliseconds(seconds))
            yield

    def explained(self, error: Exception) -> JournalError:
        """Return our error; a connection that was lost, or whose server became read-only, is closed."""
        state, message, name = getattr(error, "sqlstate", None) or "", one_line(error), self.name
        if isinstance(self._connection, _Connection) and self._connection.is_lost:
            self._disconnect()
            return JournalUnavailable(f"the connection to {name} was lost ({message}); the next call connects again")
        if state == _DISK_FULL:
            return JournalUnavailable(FULL.format(name))
        if state in _DAMAGED:
            return JournalDamaged(f"{name} is damaged ({message}); restore a backup of the server")
        if state == _READ_ONLY:  # a standby, or made read-only; after a failover, another server may accept events
            self._disconnect()
            return JournalUnavailable(f"{name} is read-only at the moment ({message}); the next call connects again")
        if state == _LOCK_TIMEOUT:
            return LockTimeout(f"another runner holds a lock of {name} ({message}); try again")
        if state.startswith(_PASSING):
            return JournalUnavailable(f"{name} cannot be used at the moment ({message}); try again")
        return JournalError(f"{name}: {message}")


def _milliseconds(seconds: float) -> str:
    return f"{round(1000 * seconds)}ms"


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up on a server which sends nothing; psycopg itself waits forever."""

    answer_seconds = _ANSWER_SECONDS

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be sent any more.

        One that was cut within `executemany` may stay in psycopg's pipeline mode, in which no statement can be sent.
        """
        return self.closed or self.broken or self.pgconn.pipeline_status != PipelineStatus.OFF

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
