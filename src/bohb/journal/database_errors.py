"""Translates the errors of a database: what happened to which journal, and what to do."""

from __future__ import annotations

import sqlite3

from sqlalchemy.exc import DBAPIError

from bohb.errors import JournalDamaged, JournalError, JournalUnavailable

# https://www.sqlite.org/rescode.html: the low byte is the kind of error
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT}
_FORBIDDEN = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN}
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NO_SHARED_MEMORY = {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_SHMMAP}


def _code(error: DBAPIError) -> int:
    return getattr(error.orig, "sqlite_errorcode", 0)


def is_damage(error: DBAPIError) -> bool:
    """Whether the file is damaged, or one of its texts cannot be decoded."""
    return _code(error) & 0xFF in _DAMAGED or "Could not decode" in str(error.orig)


def is_not_a_database(error: DBAPIError) -> bool:
    """Whether SQLite does not recognise the file."""
    return _code(error) & 0xFF == sqlite3.SQLITE_NOTADB


def is_uncertain(error: DBAPIError) -> bool:
    """Whether the disk failed, so that nobody knows what it holds; no later write could be trusted."""
    return _code(error) & 0xFF == sqlite3.SQLITE_IOERR and _code(error) not in _NO_SHARED_MEMORY


def translated(error: DBAPIError, name: str) -> JournalError:
    """Return an error of ours: what happened to which journal, and what to do."""
    code, message = _code(error), " ".join(str(error.orig).split())
    if code == sqlite3.SQLITE_FULL or getattr(error.orig, "sqlstate", "") == "53100":
        return JournalUnavailable(
            f"the disk of {name} is full; nothing of this step was stored. Free some space and go on"
        )
    if is_damage(error):
        return JournalDamaged(f"{name} is damaged ({message}); restore a backup, or use bohb.journal.repair")
    if is_uncertain(error):
        label = getattr(error.orig, "sqlite_errorname", message)
        return JournalError(
            f"the disk of {name} failed ({label}), so the last step may or may not be stored; nothing more is written. "
            "Check the disk, then open the journal again"
        )
    if code & 0xFF in _FORBIDDEN:
        return JournalError(
            f"{name} cannot be opened or written ({message}); check that the directory exists and its permissions"
        )
    if code & 0xFF in _LOCKED:
        return JournalUnavailable(f"{name} is locked by another program ({message}); close it there and try again")
    if error.connection_invalidated:
        return JournalUnavailable(f"the connection to {name} was lost ({message}); the next call connects again")
    return JournalError(f"{name}: {message}")
