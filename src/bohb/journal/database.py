"""The tables of a journal, and one connection to them: the part that SQLite and PostgreSQL have in common.

`execute` takes SQL that both understand, with parameters like `:of`. What differs are a few words of SQL, how a
connection is made, how writers take turns, and what errors mean: `SqliteDatabase` and `PostgresDatabase` say that.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from bohb.errors import Conflict, JournalDamaged, JournalError, JournalUnavailable
from bohb.journal.lock import WriterLock
from bohb.journal.records import SCHEMA, End, Record

FULL = "the disk of {} is full; nothing of this step was stored. Free some space and go on"
TURN_SECONDS = 60.0  # after which a runner that was stopped in the middle of its turn loses it, unless it says less

Row = tuple[Any, ...]
Connection = Any  # of the Python Database API (PEP 249): with cursor, commit, rollback and close

TABLES = {
    "bohb_format": "(version INTEGER NOT NULL)",
    # where each study ends: missing events at the end would not be noticed otherwise
    "study": """(study TEXT NOT NULL PRIMARY KEY, length BIGINT NOT NULL, crc BIGINT NOT NULL,
        epoch BIGINT NOT NULL, owner TEXT NOT NULL)""",
    "event": """(study TEXT NOT NULL, position BIGINT NOT NULL, epoch BIGINT NOT NULL, kind TEXT NOT NULL,
        key TEXT NOT NULL, body TEXT NOT NULL, crc BIGINT NOT NULL,
        PRIMARY KEY (study, position), UNIQUE (study, key)) {without_rowid}""",
    "lease": """(study TEXT NOT NULL, holder TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
        PRIMARY KEY (study, holder))""",
}
HEAD = "SELECT length, crc FROM study WHERE study = :of"
HEAD_LOCKED = f"{HEAD} {{lock}}"  # one append per study at a time
NEW_STUDY = "INSERT INTO study VALUES (:of, :length, :crc, :epoch, :owner)"
CLAIM = """INSERT INTO study VALUES (:of, 0, 0, 1, :owner)
    ON CONFLICT (study) DO UPDATE SET epoch = study.epoch + 1, owner = excluded.owner"""
EPOCH = "SELECT epoch FROM study WHERE study = :of"
END = "UPDATE study SET length = :length, crc = :crc WHERE study = :of"
ROWS = """SELECT position, epoch, kind, key, body, crc FROM event
    WHERE study = :of AND position >= :first AND position < :last ORDER BY position"""
NEW_ROWS = "INSERT INTO event VALUES (:study, :position, :epoch, :kind, :key, :body, :crc)"
RENEW_LEASE = """INSERT INTO lease VALUES (:of, :holder, {clock} + :seconds)
    ON CONFLICT (study, holder) DO UPDATE SET expires = excluded.expires"""
LEASE = "SELECT holder FROM lease WHERE study = :of AND holder = :holder"
END_LEASE = "DELETE FROM lease WHERE study = :of AND holder = :holder"
END_EXPIRED_LEASE = f"{END_LEASE} AND expires < {{clock}}"
LEASES = "SELECT holder FROM lease WHERE study = :of AND expires >= {clock}"
EXPIRED_LEASES = "SELECT holder, {clock} - expires FROM lease WHERE study = :of AND expires < {clock}"
OF_A_PROGRAM = "trial "  # how holders of leases begin that are kept although no process has the journal open


class LockTimeout(JournalUnavailable):
    """Somebody else has held a lock of a server for too long."""


class Database(ABC):
    """One connection, which several threads may use in turn.

    name: the file or the URL without its password, for messages.
    path: the file; None for a server.
    lock: the lock of a file that is open for writing, which also says how far studies were acknowledged.
    doubt: the error after which nobody knows what the disk holds; None while there was none.
    """

    words: ClassVar[dict[str, str]]  # what differs: {clock} of leases, {lock} of the rows found, {without_rowid}
    tables: ClassVar[str]  # a query for the names of all tables
    creation_lock: ClassVar[str] = ""  # keeps others from creating the tables until the transaction ends
    errors: tuple[type[Exception], ...]  # all errors of the driver
    duplicate: type[Exception]  # its error for a key that exists

    def __init__(self, name: str, path: Path | None, read_only: bool) -> None:
        self.name = name
        self.path = path
        self.read_only = read_only
        self.lock: WriterLock | None = None
        self.doubt: JournalError | None = None
        self.n_connections = 0  # so far, one after the other
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._open = True
        self._connection: Connection | None = None
        self._closer: weakref.finalize[[Connection, int], Any] | None = None
        self._active = False  # whether a transaction is under way

    @abstractmethod
    def connect(self) -> Connection:
        """Return a new connection."""

    @abstractmethod
    def begin(self, reads: bool) -> None:
        """Begin a transaction; one that only `reads` sees one state of the database."""

    @abstractmethod
    def explained(self, error: Exception) -> JournalError:
        """Return our error for one of the driver: what happened to which journal, and what to do."""

    @abstractmethod
    def turn(self, study: str, seconds: float) -> AbstractContextManager[None]:
        """Keep other writers from appending; see `SharedJournal.turn`."""

    def written(self, statement: str) -> str:
        """Return a statement as the driver wants it."""
        return statement.format(**self.words)

    @contextmanager
    def transaction(self, reads: bool = False) -> Iterator[Self]:
        """Commit everything that is executed at the end, or nothing. A transaction within another is part of that one.

        reads: whether nothing will be changed; other processes can then write to a file meanwhile.
        """
        with self._mutex:
            if self._active:
                yield self
                return
            self._connected()
            self._active = True
            try:
                with self._explaining():
                    self.begin(reads)
                yield self
                with self._explaining():
                    self.commit()
            except BaseException:
                self._undo()
                raise
            finally:
                self._active = False

    def commit(self) -> None:
        """Store what was changed, durably."""
        self._alive().commit()

    def execute(self, statement: str, **parameters: Any) -> list[Row]:
        """Run a statement within a transaction, and return the rows that it finds."""
        with self._explaining():
            cursor = self._alive().cursor()
            cursor.execute(self.written(statement), parameters)
            return cursor.fetchall() if cursor.description else []

    def end(self, study: str, statement: str = HEAD) -> End:
        """Return where a study ends, within a transaction."""
        rows = self.execute(statement, of=study)
        found = End(*rows[0]) if rows else End(0, 0)
        if type(found.length) is not int or type(found.crc) is not int:
            raise JournalDamaged(f"{self.name}: the entry that says where study {study!r} ends is damaged")
        return found

    def insert(self, study: str, rows: Sequence[Record]) -> None:
        """Store records of a study. Raises Conflict if it has one of their keys."""
        values = [{"study": study, **row._asdict()} for row in rows]
        with self._explaining():
            try:
                self._alive().cursor().executemany(self.written(NEW_ROWS), values)
            except self.duplicate as error:
                keys = ", ".join(row.key for row in rows[:3])
                raise Conflict(f"study {study!r} already has one of the events {keys} ({error})") from error

    def prepare(self) -> None:
        """Create the tables of a new journal; refuse databases that are not journals or have a newer format."""
        with self.transaction(reads=True):
            if self._is_journal():
                return
        if self.read_only:
            advice = "start the study first, or check the name"
            raise JournalError(f"{self.name} is not a bohb journal (it is empty); {advice}")
        with self.transaction():
            if self.creation_lock:
                self.execute(self.creation_lock)
            if not self._is_journal():
                for table, columns in TABLES.items():
                    self.execute(f"CREATE TABLE {table} {columns}")
                self.execute("INSERT INTO bohb_format VALUES (:version)", version=SCHEMA)

    def close(self) -> None:
        """Release everything; closing twice has no effect."""
        with self._mutex:
            self._disconnect()
            self._open = False

    def _is_journal(self) -> bool:
        """Whether the tables exist. Raises JournalError if they are not ours, or have another format."""
        tables = {str(row[0]) for row in self.execute(self.tables)}
        if "bohb_format" not in tables:
            taken = tables if self.path is not None else tables & TABLES.keys()
            if taken:
                raise JournalError(
                    f"{self.name} is not a bohb journal (it is a database with the tables "
                    f"{', '.join(sorted(taken)[:5])}); choose another file or database"
                )
            return False
        versions = [row[0] for row in self.execute("SELECT version FROM bohb_format")]
        if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
            raise JournalDamaged(f"{self.name} states its format as {versions!r}, which no version of bohb has written")
        if versions[0] > SCHEMA:
            raise JournalError(
                f"{self.name} was written by a newer bohb (format {versions[0]}, this version reads up to {SCHEMA}); "
                "it was left as it is. Upgrade bohb to use it"
            )
        return True

    def _alive(self) -> Connection:
        """Return the connection of the current transaction, which a failed statement may have lost."""
        if self._connection is None:
            raise JournalUnavailable(f"the connection to {self.name} was lost; the next call connects again")
        return self._connection

    def _connected(self) -> Connection:
        """Return the connection; make it if there is none."""
        if os.getpid() != self._pid:
            raise JournalError(
                f"{self.name} was opened by process {self._pid}, this is its child {os.getpid()}; open it again here"
            )
        if not self._open:
            raise JournalError(f"{self.name} is closed; open it again")
        if self._connection is None:
            with self._explaining():
                self._connection = self.connect()
            self._closer = weakref.finalize(self, _close, self._connection, self._pid)
            self._closer.atexit = False
            self.n_connections += 1
        return self._connection

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise errors of the driver as ours."""
        try:
            yield
        except self.errors as error:
            raise self.explained(error) from error

    def _undo(self) -> None:
        """Roll back, and close the connection only if it is lost.

        After a failed fsync another connection would read the unsynced events from the log of SQLite and treat them as
        stored; this connection does not.
        """
        if self._connection is None:
            return
        try:
            self._connection.rollback()
        except self.errors:
            self._disconnect()

    def _disconnect(self) -> None:
        self._connection = None
        if self._closer is not None:
            self._closer()


def one_line(error: Exception) -> str:
    """Return the message of a driver in one line."""
    return " ".join(str(error).split())


def _close(connection: Connection, pid: int) -> None:
    """Close a connection, unless this is a forked child: it would end the connection of its parent."""
    if os.getpid() == pid:
        connection.close()
