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

# https://www.postgresql.org/docs/current/errcodes-appendix.html: the first two characters are the class of the error
_READ_ONLY, _LOCK_TIMEOUT = "25006", "55P03"
_PASSING = (
    "08",  # connection
    "40",  # serialization failure, deadlock
    "53",  # out of memory, disk space or connections
    "57",  # cancelled, shutting down, starting up
    "58",  # input or output
    "25P03",  # idle in a transaction for too long
    "25P04",  # transaction timeout
    _READ_ONLY,
    _LOCK_TIMEOUT,
)
_SERVER_DAMAGED = ("XX001", "XX002")


def _code(error: DBAPIError) -> int:
    return getattr(error.orig, "sqlite_errorcode", 0)


def _state(error: DBAPIError) -> str:
    """Return the SQLSTATE of a server's error; an empty text for SQLite, and for errors of the connection."""
    return getattr(error.orig, "sqlstate", None) or ""


def _message(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())


def is_read_only(error: DBAPIError) -> bool:
    """Whether the server accepts no changes: it is a standby, or was made read-only."""
    return _state(error) == _READ_ONLY


def is_lock_timeout(error: BaseException | None) -> bool:
    """Whether somebody else held a lock of the server for too long."""
    return isinstance(error, DBAPIError) and _state(error) == _LOCK_TIMEOUT


def is_damage(error: DBAPIError) -> bool:
    """Whether the file is damaged, or one of its texts cannot be decoded."""
    return _code(error) & 0xFF in _DAMAGED or "Could not decode" in str(error.orig)


def is_not_a_database(error: DBAPIError) -> bool:
    """Whether SQLite does not recognise the file."""
    return _code(error) & 0xFF == sqlite3.SQLITE_NOTADB


def is_uncertain(error: DBAPIError) -> bool:
    """Whether the disk failed, so that nobody knows what it holds; no later write could be trusted."""
    return _code(error) & 0xFF == sqlite3.SQLITE_IOERR and _code(error) not in _NO_SHARED_MEMORY


def unreachable(error: DBAPIError, name: str, was_connected: bool) -> JournalError:
    """Return our error for a failed connection to a server.

    was_connected: whether an earlier connection succeeded. The URL is then right, so that trying again can help.
    """
    if was_connected:
        return JournalUnavailable(f"{name} cannot be reached ({_message(error)}); the next call connects again")
    return JournalError(f"cannot connect to {name} ({_message(error)}); check the address, and that the server runs")


def translated(error: DBAPIError, name: str) -> JournalError:
    """Return an error of ours: what happened to which journal, and what to do."""
    code, message = _code(error), _message(error)
    if code == sqlite3.SQLITE_FULL or _state(error) == "53100":
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
    if _state(error) in _SERVER_DAMAGED:
        return JournalDamaged(f"{name} is damaged ({message}); restore a backup of the server")
    if is_read_only(error):
        return JournalUnavailable(f"{name} is read-only at the moment ({message}); the next call connects again")
    if is_lock_timeout(error):
        return JournalUnavailable(f"another runner holds a lock of {name} ({message}); try again")
    if _state(error).startswith(_PASSING):
        return JournalUnavailable(f"{name} cannot be used at the moment ({message}); try again")
    return JournalError(f"{name}: {message}")
