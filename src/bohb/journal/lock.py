"""One writer per SQLite file: a lock that ends with its process and names its holder."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
import weakref
from contextlib import suppress
from pathlib import Path

from bohb.errors import JournalBusy, JournalError, JournalUnavailable
from bohb.journal.acknowledged import SIZE, Acknowledged, decoded, encoded, lock_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}  # errors that mean: somebody else has the lock
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


def this_process() -> str:
    """Return a description of this process for the message to a refused runner."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


class WriterLock:
    """A lock that is held until `release`, or until the object or the process ends.

    acknowledged: how far the journal was acknowledged, which is stored in the lock file; None if unknown.
    verified: whether the journal was found to have all acknowledged events.

    The lock is an flock on a separate file, because closing any handle of the database file would release the locks of
    SQLite. The file is not removed: two processes could then lock two files of the same name.
    """

    def __init__(self, database: Path) -> None:
        self.path = lock_file(database)
        self._log = database.with_name(database.name + "-wal")
        self._handle = _open_and_lock(self.path, database)
        self._close = weakref.finalize(self, os.close, self._handle)
        self._holder: str | None = this_process()
        try:
            os.lseek(self._handle, 0, os.SEEK_SET)  # fails for a FIFO, which would block the next line
            self.acknowledged = decoded(os.read(self._handle, SIZE))
            self._write()
        except OSError as error:
            self._close()
            raise _explained(error, self.path, "write") from error
        self.verified = self.acknowledged is None
        _held.add(self)

    def acknowledge(self, study: str, length: int, crc: int) -> None:
        """Record that the events of a study are durable up to `length`."""
        self.acknowledged = Acknowledged(study, length, crc)
        with suppress(OSError):  # the events are stored; the entry may fall behind
            self._write()

    def discard(self) -> None:
        """Forget what was acknowledged: the journal is new, or the user has accepted the loss."""
        self.acknowledged, self.verified = None, True
        self._write()

    def release(self) -> None:
        """Release the lock. Its entry stays while events are in the log only, or are missing."""
        if not self._close.alive:
            return
        self._holder = None
        with suppress(OSError):
            if self.verified and not (self._log.exists() and self._log.stat().st_size):
                self.acknowledged = None
            self._write()
        self._close()

    def _write(self) -> None:
        contents = encoded(self._holder, self.acknowledged)
        os.lseek(self._handle, 0, os.SEEK_SET)
        if os.write(self._handle, contents) < len(contents):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not contents:
            os.ftruncate(self._handle, 0)

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
            raise _explained(error, path, "create") from error
        try:
            _lock(handle)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            if error.errno not in _HELD:
                raise JournalError(
                    f"cannot lock {path} ({error.strerror}); a journal needs a file system with file locks: put it on "
                    "another local disk, or open it with read_only=True"
                ) from error
            raise JournalBusy(
                f"{database} is in use by {holder}; a SQLite journal has one runner at a time. Wait for it or stop it, "
                "or open the journal with read_only=True"
            ) from error
        if _same_file(handle, path):  # otherwise the file was removed between opening and locking it
            return handle
        os.close(handle)


def _explained(error: OSError, path: Path, verb: str) -> JournalError:
    if error.errno in _FULL:
        return JournalUnavailable(f"cannot {verb} the lock file {path}: the disk is full. Free some space and go on")
    return JournalError(
        f"cannot {verb} the lock file {path} ({error.strerror}); a journal needs a directory it can write to, "
        "or read_only=True"
    )


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
        return str(json.loads(os.read(handle, SIZE))["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # it has not written its name yet
