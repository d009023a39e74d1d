"""The locks of a SQLite file: who writes to it, and whose turn it is. Both end with their process.

The lock file also says how far each study was acknowledged, since the end of the write-ahead log can get lost: SQLite
ignores a log from its first damaged frame on, and cannot know that it had more. These entries are written after a
commit is durable, so they are never ahead of the journal. They are not synced: they survive a killed process, and after
a power cut they may be some seconds old. They then name fewer events than were stored, which still opens.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import socket
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from bohb.errors import JournalBusy, JournalError, JournalUnavailable
from bohb.journal.location import has_log
from bohb.journal.records import DamagedAt, End

SIZE = 4096  # of a lock file: one page, which a killed process writes completely or not at all
OPEN_SECONDS = 10.0  # for another process that has just opened the file, and holds the lock alone for a moment
_SHORT = 48  # bytes of the longest name that a lock file has as it is
_HELD = {errno.EACCES, errno.EAGAIN, errno.EWOULDBLOCK, errno.EDEADLK}  # errors that mean: somebody else has the lock
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO must not block a reader
_STUCK_SECONDS = 0.05  # that a turn waits while another process keeps the lock for too long
_PAUSES = (0.001, 0.002, 0.005, 0.01, 0.02)  # seconds between two attempts to take a lock; the last one is repeated
T = TypeVar("T")


def this_process() -> str:
    """Return a description of this process for the message to a refused one."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    return f"process {os.getpid()} on {socket.gethostname()} since {since}"


@dataclass(frozen=True, slots=True)
class Entries:
    """The contents of a lock file.

    holder: who wrote to it last.
    ends: where the studies ended at least, by `short_name`, the one that was appended to last at the end.
    """

    holder: str = ""
    ends: Mapping[str, End] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the contents as bytes; of many studies, as many of the latest as the file can hold."""
        ends = list(self.ends.items())
        while True:
            text = json.dumps([self.holder, ends], ensure_ascii=False).encode()
            line = b"%d %s" % (zlib.crc32(text), text)  # a power cut may leave it half written
            if len(line) <= SIZE:
                return line.ljust(SIZE)
            del ends[0]

    @classmethod
    def decoded(cls, line: bytes) -> Entries:
        """Return what the bytes say; nothing if they are missing or damaged."""
        checksum, _, text = line.rstrip().partition(b" ")
        with suppress(ValueError, TypeError, RecursionError):
            if int(checksum) == zlib.crc32(text):
                holder, ends = json.loads(text)
                return cls(str(holder), {str(name): End(*map(int, end)) for name, end in ends})
        return cls()


def lock_file(database: Path) -> Path:
    """Return the lock file of a journal."""
    return database.with_name(database.name + ".lock")


def short_name(study: str) -> str:
    """Return the name of a study as the lock file has it, so that dozens fit."""
    name = study.encode()
    return study if len(name) <= _SHORT else f"{study[:8]}…{hashlib.sha256(name).hexdigest()[:16]}"


def entries(database: Path) -> Entries:
    """Return what the lock file of a journal says; nothing if it cannot be read.

    A reader asks before it reads the journal, which then has at least these events.
    """
    with suppress(OSError):  # there is none: a journal may be copied without it
        handle = os.open(lock_file(database), _READ)
        try:
            return Entries.decoded(os.read(handle, SIZE))
        finally:
            os.close(handle)
    return Entries()


def check_complete(study: str, expected: End, found: End) -> None:
    """Refuse a study that ends before its last acknowledged event. Raises DamagedAt."""
    lost = expected.length - found.length
    if lost > 0:
        what = (
            f"the event is missing; {lost} of {expected.length} stored events are lost, because the write-ahead log "
            "(the file that ends in -wal) was damaged, cut or deleted"
        )
        raise DamagedAt(study, found.length, what)
    if lost == 0 and found.crc != expected.crc:
        what = f"its checksum is {found.crc}, but an event with checksum {expected.crc} was stored there"
        raise DamagedAt(study, found.length - 1, what)


class _Lock:
    """An open lock file. It is closed at last with its object, with its process, and at once in a forked child, which
    would otherwise keep the lock after its holder has ended."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self._handle = handle
        self.close = weakref.finalize(self, os.close, handle)
        _open.add(self)


_open: weakref.WeakSet[_Lock] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [lock.close() for lock in list(_open)])


class WriterLock(_Lock):
    """Shows that this process writes to a file, until `release` or until the object or the process ends.

    exclusive: be the only writer, in order to replace the file; otherwise all writers hold the lock together.
    ends: how far the studies were acknowledged, which is stored in the lock file.
    alone: whether no other process had the file open for writing when this one opened it. Others then wait for `share`.
    verified: whether the journal was found to have all acknowledged events.

    The lock is an flock on a separate file, because closing any handle of the database file would release the locks of
    SQLite. The file is not removed: two processes could then lock two files of the same name.
    """

    def __init__(self, database: Path, exclusive: bool = False) -> None:
        handle, self.alone = _opened(lock_file(database), database, exclusive)
        super().__init__(lock_file(database), handle)
        self._database = database
        self._holder = this_process()
        self.ends: dict[str, End] = {}
        try:
            with _explaining(self.path, "write"):
                self._load()
                if self.alone:
                    if not exclusive and (not database.exists() or database.stat().st_size == 0):
                        self.ends = {}  # a new journal, or one that the user has deleted
                    self._write()
        except JournalError:
            self.close()
            raise
        self.verified = not self.ends

    def share(self) -> None:
        """Let other processes write, too."""
        if self.alone:
            with _explaining(self.path, "lock"):  # a faster process may be alone for a moment
                _when_free(lambda: fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB), OPEN_SECONDS)

    def acknowledge(self, study: str, end: End) -> None:
        """Record that the events of a study are durable up to its end; the caller's turn keeps others from it."""
        with suppress(OSError):  # the events are stored; the entry may fall behind
            self._load()
            known = self.ends.pop(name := short_name(study), end)
            self.ends[name] = max(known, end, key=lambda one: one.length)  # this turn may have been lost to another
            self._write()

    def forget_study(self, study: str) -> None:
        """Forget what was acknowledged of a study that was deleted or renamed."""
        with _explaining(self.path, "write"):
            self._load()
            if self.ends.pop(short_name(study), None) is not None:
                self._write()

    def discard(self) -> None:
        """Forget what was acknowledged: the user has accepted the loss."""
        self.ends, self.verified = {}, True
        with _explaining(self.path, "write"):
            self._write()

    def release(self) -> None:
        """Release the lock. The entries stay while events are in the log only, or are missing."""
        if not self.close.alive:
            return
        with suppress(OSError):  # raised if there are other writers
            _take(self._handle, exclusive=True)
            self._load()
            if self.verified and not has_log(self._database):
                self.ends = {}
            self._holder = ""
            self._write()
        self.close()

    def _load(self) -> None:
        """Read how far the studies were acknowledged by now."""
        os.lseek(self._handle, 0, os.SEEK_SET)  # fails for a FIFO, which would block the next line
        self.ends = dict(Entries.decoded(os.read(self._handle, SIZE)).ends)

    def _write(self) -> None:
        os.lseek(self._handle, 0, os.SEEK_SET)
        if os.write(self._handle, Entries(self._holder, self.ends).encoded()) < SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class TurnLock(_Lock):
    """The lock that writers of a file take before they decide and append, so that they do it one after the other.

    It makes waiting fair and keeps acknowledgements in the order of the commits. Nothing else depends on it: an append
    at the wrong place is a Conflict. So a runner that was suspended in its turn does not stop the others for good.
    """

    def __init__(self, database: Path) -> None:
        path = database.with_name(database.name + ".turn")
        super().__init__(path, _created(path))
        self._stuck = False  # whether another process has kept the lock for too long

    def take(self, seconds: float) -> bool:
        """Wait for the lock; return False if another process has held it for all these seconds.

        Until the lock was free once, later calls do not wait for the same process again.
        """
        with _explaining(self.path, "lock"):
            try:
                _when_free(lambda: _take(self._handle, exclusive=True), _STUCK_SECONDS if self._stuck else seconds)
                self._stuck = False
            except OSError as error:
                if error.errno not in _HELD:
                    raise
                self._stuck = True
        return not self._stuck

    def give(self) -> None:
        """Let another process have its turn."""
        with suppress(OSError):  # the others go on without it
            fcntl.flock(self._handle, fcntl.LOCK_UN)


def _opened(path: Path, database: Path, exclusive: bool) -> tuple[int, bool]:
    """Return the open and locked file, and whether no other process holds the lock."""
    try:
        return _when_free(lambda: _locked(path, exclusive), 0.0 if exclusive else OPEN_SECONDS)
    except OSError as error:
        if error.errno not in _HELD:
            raise JournalError(
                f"cannot lock {path} ({error.strerror}); a journal needs a file system with file locks: put it on "
                "another local disk, or open it with read_only=True"
            ) from error
        holder = entries(database).holder or "another process"  # which may not have written its name yet
        advice = "wait for it or stop it, or open the journal with read_only=True"
        raise JournalBusy(f"{database} is in use by {holder}; {advice}") from error


def _locked(path: Path, exclusive: bool) -> tuple[int, bool]:
    """Open and lock the file now. Raises OSError if another process holds the lock."""
    handle = _created(path)
    try:
        alone = _take(handle, exclusive)
        with suppress(FileNotFoundError):  # it was removed between opening and locking it
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                return handle, alone
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    except BaseException:
        os.close(handle)
        raise


def _created(path: Path) -> int:
    with _explaining(path, "create"):
        return os.open(path, _FLAGS, 0o644)


def _when_free(take: Callable[[], T], seconds: float) -> T:
    """Return what `take` returns. While another process holds the lock, try again for so many seconds."""
    deadline, pauses = time.monotonic() + seconds, iter(_PAUSES)
    while True:
        try:
            return take()
        except OSError as error:
            if error.errno not in _HELD or time.monotonic() > deadline:
                raise
        time.sleep(next(pauses, _PAUSES[-1]))


@contextmanager
def _explaining(path: Path, verb: str) -> Iterator[None]:
    """Raise errors of the disk as ours."""
    try:
        yield
    except OSError as error:
        what = f"cannot {verb} the lock file {path}"
        if error.errno in _FULL:
            raise JournalUnavailable(f"{what}: the disk is full. Free some space and go on") from error
        advice = "a journal needs a directory it can write to, or read_only=True"
        raise JournalError(f"{what} ({error.strerror}); {advice}") from error


def _take(handle: int, exclusive: bool) -> bool:
    """Take the lock alone if nobody else holds it, otherwise share it. Return whether it was taken alone.

    exclusive: raise OSError instead of sharing it.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if exclusive or error.errno not in _HELD:
            raise
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    return True
