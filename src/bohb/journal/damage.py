"""Cut a damaged SQLite journal back to its last valid event, and keep the old file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from bohb.errors import InvalidArgument, JournalDamaged, JournalError
from bohb.journal.database import NEW_HEAD, NEW_STUDY
from bohb.journal.location import shown_journal
from bohb.journal.lock import WriterLock
from bohb.journal.records import Reader, Record, check_study_name
from bohb.journal.sql import SqlJournal

_BATCH = 1000


def last_good(target: str | Path, study: str = "study") -> int:
    """Return the number of valid events of a study before the first damaged one."""
    return sum(1 for _ in _sound(target, study))


def repair(target: str | Path, study: str = "study") -> int:
    """Cut a study back to its valid events. Return their number.

    A new file is written, because a damaged one cannot safely be changed in place. It contains the other studies as
    well, each up to its last valid event. The old file is kept as `<file>.bak`.
    """
    check_study_name(study)
    if "://" in str(target):
        shown = shown_journal(str(target))
        raise JournalError(f"{shown}: repair works on SQLite files; for a server, restore the database's own backup")
    path = Path(target).resolve()
    lock = WriterLock(path, exclusive=True)
    try:
        _back_up(path)
        fresh = path.with_name(path.name + ".repair")
        fresh.unlink(missing_ok=True)
        kept = {name: _copy(path, name, fresh) for name in {*_names(path), study}}
        for leftover in (f"{path}-wal", f"{path}-shm"):
            Path(leftover).unlink(missing_ok=True)
        os.replace(fresh, path)
        for leftover in (f"{fresh}.lock", f"{fresh}.turn"):
            Path(leftover).unlink(missing_ok=True)
        lock.discard()
        return kept[study]
    finally:
        lock.release()


@contextmanager
def _reading(target: str | Path, study: str) -> Iterator[SqlJournal]:
    with SqlJournal(target, study, read_only=True) as journal, journal.database.transaction(reads=True):
        yield journal


def _sound(target: str | Path, study: str) -> Iterator[Record]:
    """Yield the stored rows before the first damaged one."""
    reader = Reader(study)
    try:
        with _reading(target, study) as journal:
            for row in journal.raw_rows():
                reader.check([row])
                yield row
    except JournalDamaged:
        return


def _names(path: Path) -> set[str]:
    """Return the names of the studies that either table contains."""
    names: set[str] = set()
    for table in ("study", "event"):
        try:
            with _reading(path, "study") as journal:
                found = journal.database.execute(f"SELECT DISTINCT study FROM {table}")
        except JournalError:
            continue
        for (name,) in found:
            with suppress(InvalidArgument):  # a damaged one
                names.add(check_study_name(name))
    return names


def _back_up(path: Path) -> None:
    """Copy the file and its write-ahead log; an earlier backup is never overwritten."""
    names = (f"{path}.bak{number if number > 1 else ''}" for number in count(1))
    backup = next(name for name in names if not Path(name).exists())
    for suffix in ("-wal", ""):
        if Path(f"{path}{suffix}").exists():
            shutil.copy2(f"{path}{suffix}", f"{backup}{suffix}")


def _copy(path: Path, study: str, fresh: Path) -> int:
    """Copy the valid rows of one study to a new file."""
    with SqlJournal(fresh, study) as journal, journal.database.transaction() as database:
        rows, last = list[Record](), None
        for last in _sound(path, study):
            rows.append(last)
            if len(rows) == _BATCH:
                database.insert(study, rows)
                rows.clear()
        if last is None:
            return 0
        database.insert(study, rows)
        database.execute(NEW_STUDY, of=study)
        end = {"length": last.position + 1, "crc": last.crc}
        database.execute(NEW_HEAD, of=study, **end, epoch=last.epoch + 1, owner="repair")
    return last.position + 1
