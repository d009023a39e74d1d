"""The locks of a SQLite file: who writes to it, and whose turn it is. Both end with their process."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import time
import uuid
import weakref
from contextlib import suppress
from pathlib import Path

from bohb.errors import JournalBusy, JournalError, JournalUnavailable
from bohb.journal.acknowledged import SIZE, Acknowledged, decoded, encoded, generation_of, lock_file

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SHARED = sys.platform != "win32"  # Windows has no lock that several processes can hold and that ends with them
OPEN_SECONDS = 10.0  # for another process that has just opened the file, and holds the lock alone for a moment
_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}  # errors that mean: somebody else has the lock
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_STUCK_SECONDS = 0.05  # that a turn waits while another process keeps the lock for too long
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02)  # seconds between two attempts to take a lock; the last one is repeated


def this_process() -> str:
    """Return a description of this process for the message to a refused one."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


class WriterLock:
    """Shows that this process writes to a file, until `release` or until the object or the process ends.

    exclusive: be the only writer, in order to replace the file; otherwise all writers hold the lock together.
    acknowledged: how far the journal was acknowledged, which is stored in the lock file; None if unknown.
    alone: whether no other process had the file open for writing when this one opened it.
    verified: whether the journal was found to have all acknowledged events.
    generation: a name that changes when a writer opens a file that no other one has open. A lease of another
        generation is over, because all runners of that time have ended.

    The lock is an flock on a separate file, because closing any handle of the database file would release the locks of
    SQLite. The file is not removed: two processes could then lock two files of the same name.
    """

    def __init__(self, database: Path, exclusive: bool = False) -> None:
        self.path = lock_file(database)
        self._log = database.with_name(database.name + "-wal")
        self._handle, self.alone = _open_and_lock(self.path, database, exclusive)
        self._close = weakref.finalize(self, os.close, self._handle)
        self._holder: str | None = this_process()
        self.acknowledged: Acknowledged | None = None
        self.generation: str | None = None
        try:
            self.generation = generation_of(self._load())
            if self.alone:
                if not exclusive and (not database.exists() or database.stat().st_size == 0):
                    self.acknowledged = None  # a new journal, or one that the user has deleted
                self.generation = uuid.uuid4().hex
                self._write()
                if SHARED and not exclusive:
                    _share(self._handle)
                    self.generation = generation_of(self._load())  # another process may have been alone in between
        except OSError as error:
            self._close()
            raise _explained(error, self.path, "write") from error
        self.verified = self.acknowledged is None
        _held.add(self)

    def acknowledge(self, study: str, length: int, crc: int) -> None:
        """Record that the events of a study are durable up to `length`; the caller's turn keeps others from it."""
        with suppress(OSError):  # the events are stored; the entry may fall behind
            self._load()
            known = self.acknowledged
            if known is None or known.study != study or known.length < length:  # not if this turn was lost to another
                self.acknowledged = Acknowledged(study, length, crc)
                self._write()

    def forget_study(self, study: str) -> None:
        """Forget what was acknowledged of a study that was deleted or renamed."""
        self._load()
        if self.acknowledged is not None and self.acknowledged.study == study:
            self.discard()

    def discard(self) -> None:
        """Forget what was acknowledged: the user has accepted the loss."""
        self.acknowledged, self.verified = None, True
        self._write()

    def release(self) -> None:
        """Release the lock. The entry of the last writer stays while events are in the log only, or are missing."""
        if not self._close.alive:
            return
        with suppress(OSError):  # raised if there are other writers
            if SHARED:
                _lock(self._handle, exclusive=True)
            self._load()
            if self.verified and not (self._log.exists() and self._log.stat().st_size):
                self.acknowledged = None
            self._holder = self.generation = None
            self._write()
        self._close()

    def _load(self) -> bytes:
        """Read how far the journal was acknowledged by now, and return the whole contents."""
        os.lseek(self._handle, 0, os.SEEK_SET)  # fails for a FIFO, which would block the next line
        contents = os.read(self._handle, SIZE)
        self.acknowledged = decoded(contents)
        return contents

    def _write(self) -> None:
        contents = encoded(self._holder, self.acknowledged, self.generation)
        os.lseek(self._handle, 0, os.SEEK_SET)
        if os.write(self._handle, contents) < len(contents):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not contents:
            os.ftruncate(self._handle, 0)

    def forget(self) -> None:
        """Close the copy of a forked child, which would keep the lock after its holder has ended."""
        self._close()


class TurnLock:
    """The lock that writers of a file take before they decide and append, so that they do it one after the other.

    It makes waiting fair and keeps acknowledgements in the order of the commits. Nothing else depends on it: an append
    at the wrong place is a Conflict. So a runner that was suspended in its turn does not stop the others for good.
    """

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".turn")
        try:
            self._handle = os.open(path, _FLAGS, 0o644)
        except OSError as error:
            raise _explained(error, path, "create") from error
        self._close = weakref.finalize(self, os.close, self._handle)
        self._stuck = False  # whether another process has kept the lock for too long
        _held.add(self)

    def take(self, seconds: float) -> bool:
        """Wait for the lock; return False if another process has held it for all these seconds.

        Until the lock was free once, later calls do not wait for the same process again.
        """
        deadline, pauses = time.monotonic() + (_STUCK_SECONDS if self._stuck else seconds), list(_PAUSES)
        while True:
            try:
                _lock(self._handle, exclusive=True)
                self._stuck = False
                return True
            except OSError as error:
                if error.errno not in _HELD:
                    raise
            if time.monotonic() > deadline:
                self._stuck = True
                return False
            time.sleep(pauses.pop(0) if len(pauses) > 1 else pauses[0])

    def give(self) -> None:
        """Let another process have its turn."""
        if sys.platform != "win32":
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def forget(self) -> None:
        """Close the file; an explicit `give` in the parent of a forked child still works."""
        self._close()


_held: weakref.WeakSet[WriterLock | TurnLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _open_and_lock(path: Path, database: Path, exclusive: bool) -> tuple[int, bool]:
    """Return the open and locked file, and whether no other process holds the lock."""
    deadline = time.monotonic() + (OPEN_SECONDS if SHARED and not exclusive else 0.0)
    while True:
        try:
            handle = os.open(path, _FLAGS, 0o644)
        except OSError as error:
            raise _explained(error, path, "create") from error
        try:
            alone = _lock(handle, exclusive)
        except OSError as error:
            holder = _holder(handle)
            os.close(handle)
            if error.errno not in _HELD:
                raise JournalError(
                    f"cannot lock {path} ({error.strerror}); a journal needs a file system with file locks: put it on "
                    "another local disk, or open it with read_only=True"
                ) from error
            if time.monotonic() > deadline:
                raise JournalBusy(
                    f"{database} is in use by {holder}; wait for it or stop it, or open the journal with read_only=True"
                ) from error
            time.sleep(_PAUSES[-1])
            continue
        if _same_file(handle, path):  # otherwise the file was removed between opening and locking it
            return handle, alone
        os.close(handle)


def _explained(error: OSError, path: Path, verb: str) -> JournalError:
    if error.errno in _FULL:
        return JournalUnavailable(f"cannot {verb} the lock file {path}: the disk is full. Free some space and go on")
    return JournalError(
        f"cannot {verb} the lock file {path} ({error.strerror}); a journal needs a directory it can write to, "
        "or read_only=True"
    )


def _lock(handle: int, exclusive: bool) -> bool:
    """Take the lock alone if nobody else holds it, otherwise share it. Return whether it was taken alone.

    exclusive: raise OSError instead of sharing it.
    """
    if sys.platform == "win32":
        os.lseek(handle, 2**30, os.SEEK_SET)  # outside the text, which others must be able to read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if exclusive or error.errno not in _HELD:
                raise
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    return True


def _share(handle: int) -> None:
    """Let others share the lock. This waits for a process that was faster and is alone for a moment."""
    deadline = time.monotonic() + OPEN_SECONDS
    while sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in _HELD or time.monotonic() > deadline:
                raise
        time.sleep(_PAUSES[-1])


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
