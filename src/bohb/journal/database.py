"""Database: the connection of a journal, its transactions and its errors."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, make_url
from sqlalchemy.exc import DBAPIError

from bohb.errors import JournalDamaged, JournalError, MissingExtra, install_hint
from bohb.journal import schema
from bohb.journal.acknowledged import check_complete, generation_of, lock_contents
from bohb.journal.database_errors import is_not_a_database, is_read_only, is_uncertain, translated, unreachable
from bohb.journal.location import check_file, not_a_journal, other_kind, path_of
from bohb.journal.lock import SHARED, TurnLock, WriterLock
from bohb.journal.quick import quick_end

_logger = logging.getLogger("bohb")


class Database:
    """One connection to a SQLite file or a PostgreSQL server, which several threads may use in turn.

    path: the file; None for a server.
    name: the file or the URL without its password, for messages.
    shared: whether several processes may write to it.
    doubt: the error after which nobody knows what the disk holds; None while there was none.
    """

    def __init__(self, url: str | Path, read_only: bool) -> None:
        self.path = path_of(url)
        self.doubt: JournalError | None = None
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._was_connected = False
        self._n_connections = 0  # so far, one after the other
        self._connection: Connection | None = None
        self._turn: Connection | None = None  # the connection of the current turn
        self._lock: WriterLock | None = None
        self._turns: TurnLock | None = None  # of a file; its turns are no transactions
        self._in_file_turn = False
        self.shared = self.path is None or SHARED
        if self.path is not None:
            self.name = str(self.path)
            check_file(self.path, read_only)
            self._lock = None if read_only else _complete(self.path)
            self._engine: Engine | None = schema.sqlite_engine(self.path, read_only)
        else:
            self.url = make_url(str(url))
            self.name = self.url.render_as_string(hide_password=True)
            self._engine = self._server_engine(read_only)
        try:
            if self.path is not None and not read_only and SHARED:
                self._turns = TurnLock(self.path)
            with self.file_turn(), self._explaining():  # one process at a time creates the tables
                schema.prepare(self._connected(), self.name, read_only)
        except BaseException:
            self.close()
            raise

    def acknowledge(self, study: str, length: int, crc: int) -> None:
        """Record that the events of a study are durable up to `length`; a server does that itself."""
        if self._lock is not None:
            self._lock.acknowledge(study, length, crc)

    def forget(self, study: str) -> None:
        """Forget how far a study was acknowledged, which was deleted."""
        if self._lock is not None:
            self._lock.forget_study(study)

    @property
    def generation(self) -> str | None:
        """The generation of the writers of a file (`WriterLock`); None for a server, or if nobody writes."""
        if self.path is None or self._lock is not None:
            return None if self._lock is None else self._lock.generation
        return generation_of(lock_contents(self.path))

    @contextmanager
    def transaction(self, reads: bool = False) -> Iterator[Connection]:
        """Yield the connection; everything that is executed is committed at the end, or nothing.

        reads: whether nothing will be changed; other processes can then write to a file meanwhile.
        """
        with self._mutex:
            if self._turn is not None:
                yield self._turn
                return
            with self._explaining():
                connection = self._connected()
                info = connection.info  # now: a connection that is lost has none
                info[schema.READS] = reads
                with connection.begin():
                    info[schema.READS] = False
                    yield connection

    def version(self) -> tuple[int, int] | None:
        """Return numbers that change whenever another connection changes the file; None for a server."""
        if self.path is None:
            return None
        with self._mutex, self._explaining():
            cursor = self._connected().connection.cursor()  # not through SQLAlchemy, which takes 20 times as long
            try:
                cursor.execute("PRAGMA data_version")
                return self._n_connections, int(cursor.fetchall()[0][0])  # which each connection counts by itself
            except sqlite3.Error as error:
                raise DBAPIError("PRAGMA data_version", None, error) from error
            finally:
                cursor.close()

    @contextmanager
    def file_turn(self, seconds: float = schema.BUSY_SECONDS) -> Iterator[None]:
        """Keep other writers of a file from deciding and appending; do nothing for a server.

        seconds: after waiting for so long this process goes on without a turn. One that is suspended in its turn then
            finds that others have appended.
        """
        with self._mutex:
            if self._turns is None or self._in_file_turn:
                yield
                return
            self._in_file_turn = True
            try:
                if not self._turns.take(seconds):
                    _logger.info("another process keeps its turn at %s for %g s: going on without", self.name, seconds)
                yield
            finally:
                self._in_file_turn = False
                self._turns.give()

    @contextmanager
    def turn(self, lock: Executable, parameters: dict[str, Any]) -> Iterator[Connection]:
        """Begin a transaction with a statement that waits for a lock; all others join it until it ends."""
        with self.transaction() as connection:
            connection.execute(lock, parameters)
            self._turn = connection
            try:
                yield connection
            finally:
                self._turn = None

    def close(self) -> None:
        """Release the connection and the lock. Closing twice has no effect."""
        with self._mutex:
            self._disconnect()
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None
            if self._turns is not None:
                self._turns.forget()
                self._turns = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Translate errors of the database, and keep the connection usable for the next call."""
        try:
            yield
        except DBAPIError as error:
            self._undo(error)
            explained = translated(error, self.name)
            if is_not_a_database(error) and self.path is not None and (kind := other_kind(self.path)) is not None:
                explained = not_a_journal(self.path, kind)
            if is_uncertain(error):
                self.doubt = explained
            raise explained from error
        except UnicodeDecodeError as error:  # sqlite3, about names in a damaged schema
            raise JournalDamaged(f"{self.name} is damaged ({error}); restore a backup") from error

    def _undo(self, error: DBAPIError) -> None:
        """Roll back what a failed COMMIT leaves open, and close the connection only if it is lost.

        After a failed fsync another connection would read the unsynced events from the log of SQLite and treat them as
        stored; this connection does not.
        """
        if self._connection is None:
            return
        if error.connection_invalidated:
            self._disconnect()
            return
        try:
            self._connection.connection.rollback()
        except self._connection.dialect.loaded_dbapi.Error:
            self._connection.invalidate()
            self._disconnect()
        if is_read_only(error):  # after a failover, another server may accept events
            self._disconnect()

    def _connected(self) -> Connection:
        if os.getpid() != self._pid:
            raise JournalError(
                f"{self.name} was opened by process {self._pid}, this is its child {os.getpid()}; open it again here"
            )
        if self._engine is None:
            raise JournalError(f"{self.name} is closed; open it again")
        if self._connection is None:
            try:
                self._connection = self._engine.connect()
            except DBAPIError as error:
                if self.path is None:
                    raise unreachable(error, self.name, self._was_connected) from error
                raise
            self._was_connected = True
            self._n_connections += 1
        return self._connection

    def _server_engine(self, read_only: bool) -> Engine:
        try:
            from bohb.journal.server import postgres_engine

            return postgres_engine(self.url, read_only, schema.TURN_SECONDS)
        except ModuleNotFoundError as error:
            raise MissingExtra(
                f"journal={self.name!r} needs the package {error.name!r}: {install_hint('postgres')}"
            ) from error

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._pid:
            connection.close()


def _complete(path: Path) -> WriterLock:
    """Lock a file for writing. Raises DamagedAt if acknowledged events are missing, before SQLite changes anything."""
    lock = WriterLock(path)
    try:
        if lock.acknowledged is None:
            log = Path(f"{path}-wal")
            if log.exists() and log.stat().st_size and lock.alone:
                _logger.info("no %s says how many events %s has: it is used as it is", lock.path.name, log.name)
        elif (end := quick_end(str(path), lock.acknowledged.study)) is not None:  # None: opening the file says why
            check_complete(lock.acknowledged, *end)
            lock.verified = True
    except BaseException:
        lock.release()
        raise
    return lock
