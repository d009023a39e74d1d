"""Journals in SQLite files: durable settings, turns of several processes, and what errors of the disk mean."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar
from urllib.parse import quote

from bohb.errors import JournalDamaged, JournalError, JournalUnavailable
from bohb.journal.database import FULL, OF_A_PROGRAM, Connection, Database, one_line
from bohb.journal.location import check_file, has_log, not_a_journal, other_kind
from bohb.journal.lock import TurnLock, WriterLock, check_complete, lock_file, short_name
from bohb.journal.records import End

BUSY_SECONDS = 10
_logger = logging.getLogger("bohb")

# https://www.sqlite.org/rescode.html: the low byte is the kind of error
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
# What somebody could put into a file in order to be run by whoever opens it: views, triggers, indexes of their own,
# virtual tables and generated columns. A journal has plain tables only.
_FOREIGN = """SELECT type || ' ' || name FROM sqlite_master
    WHERE name NOT LIKE 'sqlite~_%' ESCAPE '~' AND NOT (type = 'table' AND rootpage > 0)
    UNION ALL SELECT 'column ' || c.name FROM sqlite_master AS t, pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND t.rootpage > 0 AND c.hidden <> 0"""
_NO_SHARED_MEMORY = {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}


def connect_sqlite(uri: str) -> sqlite3.Connection:
    """Open a SQLite file; tests replace this function to simulate a failing disk."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


class SqliteDatabase(Database):
    """A connection to a file; its transactions are on the disk when they end."""

    path: Path
    # The machine's monotonic clock starts again with the machine; its first writer then deletes all leases of runners.
    words: ClassVar = {"clock": ":now", "lock": "", "without_rowid": "WITHOUT ROWID"}
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"
    errors = (sqlite3.Error, UnicodeDecodeError)  # the second one about names in a damaged schema
    duplicate = sqlite3.IntegrityError

    def __init__(self, path: Path, read_only: bool) -> None:
        check_file(path, read_only)
        super().__init__(str(path), path, read_only)
        self._in_file_turn = False
        self._turns: TurnLock | None = None
        self._copy: TemporaryDirectory[str] | None = None
        self.lock = None if read_only else _complete(path)
        if read_only and not lock_file(path).exists() and has_log(path):
            _warn_unchecked(path)
        try:
            if not read_only:
                self._turns = TurnLock(path)
            self.prepare()
            if self.lock is not None:
                self._log_ahead()
                if self.lock.alone:  # all runners that hold leases have ended
                    with self.transaction():
                        self.execute(f"DELETE FROM lease WHERE holder NOT LIKE '{OF_A_PROGRAM}%'")
                self.lock.share()
        except BaseException:
            self.close()
            raise

    def connect(self) -> Connection:
        path, options = self.name, "mode=ro" if self.read_only else "mode=rwc"
        if self.read_only and not os.access(self.path.parent, os.W_OK):
            # read-only media, on which SQLite cannot create its shared memory
            if not Path(f"{path}-wal").exists():
                options += "&immutable=1"
            elif not Path(f"{path}-shm").exists():
                path = self._copied()
        connection = connect_sqlite(f"file:{quote(path)}?{options}")
        try:
            cursor = connection.cursor()
            cursor.execute("PRAGMA synchronous=FULL")  # NORMAL lost acknowledged events in 136 of 200 power cuts
            cursor.execute("PRAGMA fullfsync=1")  # macOS: otherwise fsync does not wait for the disk
            cursor.execute("PRAGMA trusted_schema=0")
            cursor.execute("PRAGMA cell_size_check=1")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _copied(self) -> str:
        """Return a copy of the file and its log, which is removed with this object."""
        self._copy = TemporaryDirectory(prefix="bohb-", ignore_cleanup_errors=True)
        try:
            for suffix in ("", "-wal"):
                shutil.copy(f"{self.path}{suffix}", self._copy.name)
        except OSError as error:
            raise JournalError(f"{self.name} cannot be copied in order to read its log ({error.strerror})") from error
        return f"{self._copy.name}/{self.path.name}"

    def _is_journal(self) -> bool:
        foreign = ", ".join(sorted(str(row[0]) for row in self.execute(_FOREIGN))[:5])
        if foreign:
            raise JournalError(
                f"{self.name} is not a bohb journal (it has the {foreign}, which bohb never makes); use it only if you "
                "know who made it: copy its tables to a new file"
            )
        return super()._is_journal()

    def begin(self, reads: bool) -> None:
        # one that writes waits for another writer now and not in its middle
        self._connected().cursor().execute("BEGIN" if reads or self.read_only else "BEGIN IMMEDIATE")

    @contextmanager
    def turn(self, study: str, seconds: float) -> Iterator[None]:  # noqa: ARG002 - of all studies
        """Keep other writers of the file from deciding and appending.

        seconds: how long to wait before going on without a turn; one that is suspended in its turn gets a Conflict.
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

    def close(self) -> None:
        with self._mutex:
            super().close()
            if self._copy is not None:
                self._copy.cleanup()
            if self._turns is not None:
                self._turns.close()
                self._turns = None
            if self.lock is not None:
                self.lock.release()

    def explained(self, error: Exception) -> JournalError:
        code, message = getattr(error, "sqlite_errorcode", 0), one_line(error)
        kind = code & 0xFF
        if code == sqlite3.SQLITE_FULL:
            return JournalUnavailable(FULL.format(self.name))
        if kind == sqlite3.SQLITE_NOTADB and (other := other_kind(self.path)) is not None:
            return not_a_journal(self.path, other)
        if kind in _DAMAGED or isinstance(error, UnicodeDecodeError) or "Could not decode" in message:
            return JournalDamaged(f"{self.name} is damaged ({message}); restore a backup, or use bohb.journal.repair")
        if kind == sqlite3.SQLITE_IOERR and code not in _NO_SHARED_MEMORY:  # no later write could be trusted
            self.doubt = JournalError(
                f"the disk of {self.name} failed ({getattr(error, 'sqlite_errorname', message)}), so the last step may "
                "or may not be stored; nothing more is written. Check the disk, then open the journal again"
            )
            return self.doubt
        if kind in _FORBIDDEN:
            advice = "check that the directory exists and its permissions"
            return JournalError(f"{self.name} cannot be opened or written ({message}); {advice}")
        if kind in _LOCKED:
            advice = "close it there and try again"
            return JournalUnavailable(f"{self.name} is locked by another program ({message}); {advice}")
        return JournalError(f"{self.name}: {message}")

    def _log_ahead(self) -> None:
        """Enable the write-ahead log: readers and the writer do not wait for each other, a commit is one fsync.

        The tables exist by now, so that a file without its log is still a journal.
        """
        with self._mutex, self._explaining():
            mode = self._connected().cursor().execute("PRAGMA journal_mode=WAL").fetchall()
        if mode != [("wal",)]:
            raise JournalError(
                f"{self.name}: the file system has no write-ahead log for SQLite (journal_mode is {mode[0][0]}); "
                "put the journal on a local disk"
            )


def _complete(path: Path) -> WriterLock:
    """Lock a file for writing. Raises DamagedAt if acknowledged events are missing, before SQLite changes anything."""
    lock = WriterLock(path)
    try:
        if not lock.ends:
            if lock.alone and has_log(path):
                _logger.info("no %s says how many events %s-wal has: it is used as it is", lock.path.name, path.name)
        else:  # a read-only connection leaves the log as it is
            with closing(SqliteDatabase(path, read_only=True)) as database, database.transaction(reads=True):
                check_all(lock.ends, database)
            lock.verified = True
    except BaseException:
        lock.release()
        raise
    return lock


def check_all(ends: Mapping[str, End], database: Database) -> None:
    """Refuse a file of which some study ends before its last acknowledged event. Raises DamagedAt."""
    names = {short_name(str(name)): str(name) for (name,) in database.execute("SELECT study FROM study")}
    for short, end in ends.items():
        name = names.get(short, short)  # nobody knows more of the name of a study that is gone as a whole
        check_complete(name, end, database.end(name))


@cache
def _warn_unchecked(path: Path) -> None:
    """Say once that nobody knows whether the log of a file is whole."""
    _logger.warning(
        "%s was copied without %s, which says how many events its write-ahead log has: if the log is damaged, the "
        "study is shorter than it was", path, lock_file(path).name,
    )  # fmt: skip
