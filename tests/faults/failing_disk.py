"""A disk that can lose its power, fill up or fail to sync, as an apsw VFS under the real SQLite and the real journal.

The files are real; beside them the disk keeps what is on the platter (synced) and what is still on its way. A power
cut leaves the platter plus an arbitrary part of the rest, in sectors of 512 bytes, some of them torn.
"""

from __future__ import annotations

import errno
import random
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import apsw

from bohb.journal import sqlite

if TYPE_CHECKING:
    from tests.faults.calls import Calls

_SECTOR = 512
_CODES = {
    "open": apsw.SQLITE_CANTOPEN,
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}
_NEEDS_DIRSYNC = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


def _trouble(kind: type[apsw.Error], code: int) -> apsw.Error:
    error: Any = kind("injected")
    error.result, error.extendedresult = code & 0xFF, code
    return cast(apsw.Error, error)


class _File:
    """What is known of one file: its synced bytes (None: not there after a power cut), and the writes since."""

    def __init__(self) -> None:
        self.durable: bytearray | None = None
        self.pending: list[tuple[int, bytes | None]] = []  # (offset, data), or (size, None) for a truncation

    def sync(self) -> None:
        self.durable = self.after(self.pending)
        self.pending = []

    def after(self, writes: Sequence[tuple[int, bytes | None]]) -> bytearray:
        image = bytearray(self.durable or b"")
        for place, data in writes:
            end = place + len(data or b"")
            image.extend(bytes(max(0, end - len(image))))
            if data is None:
                del image[place:]
            else:
                image[place:end] = data
        return image


class Disk(apsw.VFS):
    """A VFS over the machine's own.

    steps_left: how many writes, syncs and deletions happen before the power goes; None: it stays.
    space_left: how many bytes files may still grow by; None: any.
    fail_sync: whether fsync reports an error.
    calls: counts all calls, and lets one of them fail.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, base="")
        self.name = name
        self.files: dict[str, _File] = {}
        self.deleted: dict[str, _File] = {}  # removed, but the directory is not synced yet
        self.steps = 0
        self.steps_left: int | None = None
        self.space_left: int | None = None
        self.fail_sync = False
        self.calls: Calls | None = None

    def step(self, kind: str, path: str, torn: Callable[[], Any] = lambda: None) -> None:
        if self.calls is not None and self.calls.concerns(path):
            try:
                self.calls.make(f"database {kind}", torn)
            except OSError as error:
                full = error.errno == errno.ENOSPC
                raise _trouble(apsw.IOError, apsw.SQLITE_FULL if full else _CODES[kind]) from error
        if kind in ("open", "read"):
            return
        if self.steps_left is not None and self.steps >= self.steps_left:
            raise _trouble(apsw.IOError, apsw.SQLITE_IOERR_WRITE)
        self.steps += 1

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        self.step("open", _path(name))
        with nullcontext() if self.calls is None else self.calls.paused():
            return DiskFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.step("delete", filename)
        super().xDelete(filename, syncdir)
        if (file := self.files.pop(filename, None)) is not None:
            self.deleted[filename] = file
        if syncdir:
            self.deleted.clear()

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """Injected errors are expected; SQLite gets their codes."""
        return True

    def cut_power(self, rng: random.Random, into: Path) -> None:
        """Write what a machine would find after the power cut into another directory."""
        share = rng.choice([0.0, 0.3, 0.7, 1.0])  # how much of what was on its way has arrived
        survivors = dict(self.files)
        for name, file in self.deleted.items():
            if rng.random() < 0.5:
                survivors[name] = file
        for name, file in survivors.items():
            arrived = [piece for write in file.pending for piece in _sectors(write, share, rng)]
            if file.durable is not None or arrived:
                (into / Path(name).name).write_bytes(file.after(arrived))


def _path(name: str | apsw.URIFilename | None) -> str:
    return name.filename() if isinstance(name, apsw.URIFilename) else str(name)


def _sectors(write: tuple[int, bytes | None], share: float, rng: random.Random) -> Iterator[tuple[int, bytes | None]]:
    place, data = write
    if data is None:
        if rng.random() < share:
            yield write
        return
    start = 0
    while start < len(data):
        end = min(len(data), start + _SECTOR - (place + start) % _SECTOR)
        if rng.random() < share:
            yield place + start, data[start:end]
        elif rng.random() < 0.3:
            yield place + start, data[start : rng.randint(start, end)]  # torn
        start = end


class DiskFile(apsw.VFSFile):
    """One open file on a Disk."""

    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self.path = _path(name)
        new = self.path not in disk.files
        super().__init__("", name, flags)
        self.disk = disk
        self.file = disk.files.setdefault(self.path, _File())
        if new and Path(self.path).exists():
            self.file.durable = bytearray(Path(self.path).read_bytes()) or None
        self.dirsync = new and bool(flags[0] & _NEEDS_DIRSYNC)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self.disk.step("read", self.path)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        write = super().xWrite
        self.disk.step("write", self.path, lambda: write(data[: len(data) // 2], offset))
        growth = max(0, offset + len(data) - self.xFileSize())
        if self.disk.space_left is not None:
            if growth > self.disk.space_left:
                raise _trouble(apsw.FullError, apsw.SQLITE_FULL)
            self.disk.space_left -= growth
        super().xWrite(data, offset)
        self.file.pending.append((offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self.disk.step("truncate", self.path)
        super().xTruncate(newsize)
        self.file.pending.append((newsize, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self.disk.step("sync", self.path)
        if self.disk.fail_sync:
            raise _trouble(apsw.IOError, apsw.SQLITE_IOERR_FSYNC)
        self.file.sync()  # the real fsync is left out: the test's truth is this record, and it is faster
        if self.dirsync:  # SQLite's unix VFS syncs the directory with the first sync of a new log or journal
            self.disk.deleted.clear()
            self.dirsync = False

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:
        """Injected errors are expected; SQLite gets their codes."""
        return True


class _Connection:
    """As much of sqlite3.Connection as a journal uses, over apsw, which alone can put a VFS underneath."""

    def __init__(self, uri: str, disk: Disk) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if "mode=ro" in uri:
            flags = apsw.SQLITE_OPEN_READONLY
        with _translated():
            self.raw = apsw.Connection(unquote(uri.removeprefix("file:").split("?")[0]), flags=flags, vfs=disk.name)

    def cursor(self) -> _Cursor:
        return _Cursor(self.raw)

    def execute(self, sql: str) -> _Cursor:
        return self.cursor().execute(sql)

    def commit(self) -> None:
        if self.raw.in_transaction:
            self.cursor().execute("COMMIT")

    def rollback(self) -> None:
        if self.raw.in_transaction:
            self.cursor().execute("ROLLBACK")

    def close(self) -> None:
        try:
            self.raw.close(True)
        except apsw.Error:
            pass  # as sqlite3 does: what could not be written back stays in the log


class _Cursor:
    def __init__(self, raw: apsw.Connection) -> None:
        self.raw = raw
        self.description: Any = None
        self.rows: list[Any] = []

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None) -> _Cursor:
        cursor = self.raw.cursor()
        cursor.exec_trace = self._describe
        with _translated():
            self.rows = cursor.execute(sql, parameters).fetchall()
        return self

    def executemany(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> _Cursor:
        with _translated():
            self.raw.cursor().executemany(sql, rows)
        return self

    def _describe(self, cursor: apsw.Cursor, _sql: str, _bindings: object) -> bool:
        self.description = [(*column, None, None, None, None, None) for column in cursor.get_description()] or None
        return True

    def fetchall(self) -> list[Any]:
        return self.rows


@contextmanager
def _translated() -> Iterator[None]:
    """Raise apsw's errors as those of sqlite3."""
    try:
        yield
    except apsw.Error as error:
        code = getattr(error, "extendedresult", 0)
        known = sqlite3.IntegrityError if isinstance(error, apsw.ConstraintError) else sqlite3.OperationalError
        translated = known(str(error))
        translated.sqlite_errorcode = code
        translated.sqlite_errorname = str(apsw.mapping_extended_result_codes.get(code, code))
        raise translated from error


@contextmanager
def failing_disk() -> Iterator[Disk]:
    """Journals opened in this context lie on a disk that can fail."""
    disk = Disk("failing")
    real = sqlite.connect_sqlite
    sqlite.connect_sqlite = lambda uri: _Connection(uri, disk)  # type: ignore[assignment, return-value]
    try:
        yield disk
    finally:
        sqlite.connect_sqlite = real
        disk.unregister()
