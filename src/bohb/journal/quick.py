"""Reading a SQLite journal without SQLAlchemy, whose import takes as long as reading 10 000 trials.

The functions return None for anything unusual, such as a missing table or a damaged event; `SqlJournal` explains it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from bohb.core.events import Event
from bohb.errors import JournalError
from bohb.journal.acknowledged import acknowledged, check_complete, generation_of, lock_contents
from bohb.journal.records import SCHEMA, Reader, no_collector

_BUSY_SECONDS = 10
_ROWS = "SELECT position, epoch, kind, key, body, crc FROM event WHERE study = ? ORDER BY position"
_LEASES = (
    "SELECT holder FROM lease WHERE study = :study AND generation = :generation AND expires >= :now ORDER BY holder"
)


def quick_read(path: str, study: str) -> list[Event] | None:
    """Return all events of a study, each one checked."""
    reader = Reader(study)
    entry = acknowledged(Path(path))
    try:
        with no_collector(), _connected(path) as connection:
            head = connection.execute("SELECT length, crc FROM study WHERE study = ?", [study]).fetchone()
            events = reader.events(connection.execute(_ROWS, [study]).fetchall())
        reader.finish(*head)
        if entry is not None and entry.study == study:
            check_complete(entry, *head)
    except (sqlite3.Error, JournalError, TypeError):
        return None
    return events


def quick_end(path: str, study: str) -> tuple[int, int] | None:
    """Return the length and checksum of a study; a read-only connection leaves the write-ahead log as it is."""
    try:
        with _connected(path) as connection:
            head = connection.execute("SELECT length, crc FROM study WHERE study = ?", [study]).fetchone() or (0, 0)
            return int(head[0]), int(head[1])
    except (sqlite3.Error, JournalError, TypeError, ValueError):
        return None


def quick_study_names(path: str) -> list[str] | None:
    """Return the names of the studies, sorted."""
    try:
        with _connected(path) as connection:
            return sorted(name for (name,) in connection.execute("SELECT study FROM study"))
    except (sqlite3.Error, JournalError, TypeError):
        return None


def quick_leases(path: str, study: str) -> list[str]:
    """Return the runners whose leases have not expired, sorted; none if that cannot be read."""
    place = {"study": study, "now": time.monotonic(), "generation": generation_of(lock_contents(Path(path)))}
    try:
        with _connected(path) as connection:
            return [holder for (holder,) in connection.execute(_LEASES, place)]
    except (sqlite3.Error, JournalError, TypeError):
        return []


@contextmanager
def _connected(path: str) -> Iterator[sqlite3.Connection]:
    """Open a file for reading; everything that is read belongs to one state of it."""
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        if connection.execute("SELECT version FROM bohb_format").fetchall() != [(SCHEMA,)]:
            raise JournalError(f"{path} has another format")
        yield connection
