"""One writer per SQLite file: a lock that ends with its process and names its holder."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import weakref
from pathlib import Path

from bohb.errors import JournalBusy, JournalError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def this_process() -> str:
    """Return a description of this process for the message to a refused runner."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


class WriterLock:
    """A lock that is held until `release`, or until the object or the process ends.

    The lock is an flock on a separate file, because closing any handle of the database file would release the locks of
    SQLite. The file is not removed: two processes could then lock two files of the same name.
    """

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(database.name + ".lock")
        handle = _open_and_lock(self.path, database)
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"holder": this_process()}).encode())
        self._close = weakref.finalize(self, os.close, handle)
        self._handle = handle
        _held.add(self)

    def release(self) -> None:
        """Release the lock."""
        if self._close.alive:
            os.ftruncate(self._handle, 0)
            self._close()

    def forget(self) -> None:
        """Close the copy of a forked child, which would keep the lock after its holder has ended."""
        self._close()


_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _open_and_lock(path: Path, database: Path) -> int:
    while True:
        try:
            handle = os.open(path, _FLAGS, 0o644)
        except OSError as error:
            raise JournalError(
                f"cannot create the lock file {path} ({error.strerror}); a journal needs a directory it can write to, "
                "or read_only=True"
            ) from error
        try:
            _lock(handle)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            raise JournalBusy(
                f"{database} is in use by {holder}; a SQLite journal has one runner at a time. Wait for it or stop it, "
                "or open the journal with read_only=True"
            ) from error
        if _same_file(handle, path):  # otherwise the file was removed between opening and locking it
            return handle
        os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        os.lseek(handle, 2**30, os.SEEK_SET)  # outside the text, which others must be able to read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _same_file(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        return str(json.loads(os.read(handle, 4096))["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # it has not written its name yet
