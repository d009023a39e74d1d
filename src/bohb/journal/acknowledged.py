"""How far a SQLite journal was acknowledged, kept in its lock file: the end of the write-ahead log can get lost.

SQLite ignores a log from its first damaged frame on, and cannot know that it had more. The entry is written after each
commit is durable, so it is never ahead of the journal. It is not synced: it survives a killed process, and after a
power cut it may be some seconds old. It then names fewer events than were stored, which still opens.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import NamedTuple

from bohb.journal.records import DamagedAt

SIZE = 4096  # of a lock file: one page, which a killed process writes completely or not at all
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a FIFO must not block a reader


class Acknowledged(NamedTuple):
    """Where the study that was appended to last ended: its name, length and checksum."""

    study: str
    length: int
    crc: int

    @property
    def check(self) -> int:
        """A checksum of the entry itself, which a power cut may leave half written."""
        return zlib.crc32(repr(tuple(self)).encode())


def lock_file(database: Path) -> Path:
    """Return the lock file of a journal."""
    return database.with_name(database.name + ".lock")


def encoded(holder: str | None, entry: Acknowledged | None, generation: str | None = None) -> bytes:
    """Return the contents of a lock file: who wrote to it last, and how far the journal was acknowledged.

    generation: the name of the time since a writer was the only one (`WriterLock`).
    """
    contents: dict[str, object] = {} if holder is None else {"holder": holder}
    if generation is not None:
        contents["generation"] = generation
    if entry is not None:
        contents["acknowledged"] = [*entry, entry.check]
    return json.dumps(contents).encode().ljust(SIZE) if contents else b""


def decoded(contents: bytes) -> Acknowledged | None:
    """Return the entry of a lock file; None if it has none, or a damaged one."""
    try:
        study, length, crc, check = json.loads(contents)["acknowledged"]
        entry = Acknowledged(str(study), int(length), int(crc))
        return entry if check == entry.check else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def generation_of(contents: bytes) -> str | None:
    """Return the generation of the writers; None if there are none, or if they were of an older version."""
    try:
        found = json.loads(contents)["generation"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def acknowledged(database: Path) -> Acknowledged | None:
    """Return how far a journal was acknowledged, or None if that is unknown.

    A reader asks before it reads the journal, which then has at least these events.
    """
    return decoded(lock_contents(database))


def lock_contents(database: Path) -> bytes:
    """Return the contents of a lock file; nothing if it cannot be read."""
    try:
        handle = os.open(lock_file(database), _READ)
    except OSError:  # none; a journal may be copied without it
        return b""
    try:
        return os.read(handle, SIZE)
    except OSError:
        return b""
    finally:
        os.close(handle)


def check_complete(entry: Acknowledged, length: int, crc: int) -> None:
    """Refuse a study that ends before its last acknowledged event. Raises DamagedAt.

    length, crc: where the stored study ends.
    """
    if length < entry.length:
        raise DamagedAt(
            entry.study,
            length,
            f"the event is missing; {entry.length - length} of {entry.length} stored events are lost, because the "
            "write-ahead log (the file that ends in -wal) was damaged, cut or deleted",
        )
    if length == entry.length and crc != entry.crc:
        raise DamagedAt(
            entry.study, length - 1, f"its checksum is {crc}, but an event with checksum {entry.crc} was stored there"
        )
