"""Export a study to a text file and import it; rename, delete and repair the studies of a journal that nobody runs.

A text file has one JSON object per line, with checksums as in the database. They show damage; they are no signature:
whoever changes a file on purpose can compute them again.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bohb.core.events import Event
from bohb.errors import InvalidArgument, JournalBusy, JournalDamaged, JournalError, JournalUnavailable
from bohb.journal.base import Journal
from bohb.journal.database import HEAD, NEW_STUDY, Database
from bohb.journal.location import files_directory, has_log, plain_component, shown_journal
from bohb.journal.lock import WriterLock, this_process
from bohb.journal.records import DamagedAt, Reader, Record, chained, check_study_name, contents
from bohb.journal.sql import SqlJournal

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Imported:
    """The contents of a file: the study's name, its events, and the damage that ended them, if any."""

    study: str
    events: list[Event] = field(repr=False)
    damage: JournalDamaged | None = None


def export_jsonl(journal: Journal, path: str | Path) -> int:
    """Write all events of a journal to a file, completely or not at all. Return their number.

    The first line has the name of the study and the number of events, so that missing lines are noticed.
    """
    events = journal.read()
    study = getattr(journal, "study", "study")
    partial = Path(f"{path}.{uuid.uuid4().hex[:8]}.part")
    try:
        with partial.open("x", encoding="ascii", newline="\n") as file:
            header = {"bohb": "journal", "format": FORMAT, "study": study, "events": len(events)}
            file.write(json.dumps(header) + "\n")
            for record in chained(study, 0, 0, 0, contents(events)):
                place = {"position": record.position, "kind": record.kind, "key": record.key, "crc": record.crc}
                file.write(f'{json.dumps(place)[:-1]}, "body": {record.body}}}\n')
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise JournalError(f"study {study!r} was not exported to {path}: {error.strerror}") from error
    return len(events)


def import_jsonl(path: str | Path, *, damaged: bool = False) -> Imported:
    """Read an exported file.

    damaged: return the events before the first damaged line instead of raising JournalDamaged.
    """
    try:
        with Path(path).open("rb") as file:
            study, length = _header(file.readline(), path)
            reader, events = Reader(study), list[Event]()
            for line in file:
                events += reader.events([_row(line, study, reader.position)])
            reader.finish(length, reader.crc)
    except OSError as error:
        raise JournalError(f"cannot read {path}: {error.strerror}") from error
    except DamagedAt as damage:
        if not damaged:
            raise
        return Imported(study, events, damage)
    return Imported(study, events)


def _header(line: bytes, path: str | Path) -> tuple[str, int]:
    try:
        header = json.loads(line)
        if header["bohb"] != "journal":
            raise ValueError(f"it says {header['bohb']!r}")
        version, study, length = int(header["format"]), check_study_name(header["study"]), int(header["events"])
    except (ValueError, OverflowError, KeyError, TypeError, RecursionError) as error:
        raise JournalDamaged(f"{path}: the first line is not that of an exported study ({error})") from error
    if version > FORMAT:
        raise JournalError(f"{path} has format {version}, this version reads up to {FORMAT}; upgrade bohb to read it")
    return study, length


def _row(line: bytes, study: str, position: int) -> tuple[Any, ...]:
    """Return a line as a row of the table; encoding the body again gives the text of which the checksum was made."""
    try:
        found = json.loads(line)
        body = json.dumps(found["body"], allow_nan=False, separators=(",", ":"))
        return found["position"], 0, found["kind"], found["key"], body, found["crc"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedAt(study, position, f"the line is incomplete or not from bohb ({error})") from error


def rename_study(target: str | Path, old: str, new: str) -> None:
    """Give a study another name, and its files with it. Raises InvalidArgument if the name is taken.

    target: a file or the URL of a database. The checksums of all events contain the name and are computed again.
    """
    check_study_name(new)
    with _existing(target, old) as journal:
        found = contents(journal.read())
        with _removing(journal, len(found)) as epoch:
            if journal.database.execute(HEAD, of=new):
                raise InvalidArgument(f"{journal.database.name} already has a study {new!r}; choose another name")
            _store(journal.database, new, chained(new, 0, 0, epoch, found), epoch)
        _move_files(journal, new)


def delete_study(target: str | Path, study: str) -> list[Path]:
    """Delete a study from its journal. Return what was kept: an exported copy, and the study's files if there are any.

    `bohb import` restores the copy.
    """
    with _existing(target, study) as journal:
        place = journal.path or Path("bohb")  # on a server, the copy is written to the current directory
        name = f"{place.name}.{plain_component(study)}.deleted"
        suffix = next(n for n in count(1) if not place.with_name(f"{name}{n}.jsonl").exists())
        kept = [place.with_name(f"{name}{suffix}.jsonl")]
        with _removing(journal, export_jsonl(journal, kept[0])):
            pass
        moved = _move_files(journal, f"{study}.deleted{suffix}")
    return kept if moved is None else [*kept, moved]


@contextmanager
def _existing(target: str | Path, study: str) -> Iterator[SqlJournal]:
    with SqlJournal(target, study) as journal:
        if study not in (names := journal.lengths()):
            known = ", ".join(names) or "none"
            raise InvalidArgument(f"{journal.database.name} has no study {study!r}; it has {known}")
        yield journal


@contextmanager
def _removing(journal: SqlJournal, n_events: int) -> Iterator[int]:
    """Begin a transaction in which a study is removed; yield its epoch. Raises JournalBusy if it has a runner."""
    database, study = journal.database, journal.study
    with journal.turn():
        if runners := sorted(journal.live_leases()):
            raise JournalBusy(f"study {study!r} is being run by {', '.join(runners)}; stop it first")
        with database.transaction():
            [(length, epoch)] = database.execute("SELECT length, epoch FROM study WHERE study = :of {lock}", of=study)
            if length != n_events:
                raise JournalError(f"study {study!r} has just got more events; try again when nobody writes to it")
            if database.lock is not None:
                database.lock.forget_study(study)  # before the commit: an entry that is missing does no harm
            for table in ("event", "study", "lease"):
                database.execute(f"DELETE FROM {table} WHERE study = :of", of=study)
            yield epoch


def _store(database: Database, study: str, records: list[Record], epoch: int) -> None:
    """Store all records of a study that the database does not have; later writers get higher epochs."""
    length, crc = len(records), records[-1].crc if records else 0
    database.execute(NEW_STUDY, of=study, length=length, crc=crc, epoch=epoch, owner=this_process())
    database.insert(study, records)


def _move_files(journal: SqlJournal, new: str) -> Path | None:
    """Rename the directory of a study's checkpoints and logs; return its new place, None if it has none."""
    old, place = (files_directory(journal.path, name) for name in (journal.study, new))
    if old is None or place is None or not old.is_dir():
        return None
    if place.exists():
        raise JournalError(f"the study was changed, but its files stay in {old}, because {place} exists already")
    try:
        old.rename(place)
    except OSError as error:
        raise JournalError(f"the study was changed, but its files stay in {old} ({error.strerror})") from error
    return place


def last_good(target: str | Path, study: str = "study") -> int:
    """Return the number of valid events of a study before the first damaged one."""
    return len(_sound(target, study))


def repair(target: str | Path, study: str = "study") -> int:
    """Cut a study back to its valid events. Return their number.

    A new file is written, because a damaged one cannot safely be changed in place. It contains the other studies as
    well, each up to its last valid event. The old file is kept as `<file>.bak`.
    """
    check_study_name(study)
    shown = shown_journal(str(target))
    if "://" in str(target):
        raise JournalError(f"{shown}: repair works on SQLite files; for a server, restore the database's own backup")
    path = Path(target).resolve()
    lock = WriterLock(path, exclusive=True)
    backups = (f"{path}.bak{number if number > 1 else ''}" for number in count(1))
    backup = next(name for name in backups if not Path(name).exists())
    try:
        for suffix in ("-wal", ""):
            if Path(f"{path}{suffix}").exists():
                shutil.copy2(f"{path}{suffix}", f"{backup}{suffix}")
        kept = {name: _sound(path, name) for name in {*_names(path), study}}
        with TemporaryDirectory(prefix=f"{path.name}.", dir=path.parent) as directory:
            fresh = Path(directory) / path.name
            with SqlJournal(fresh) as journal, journal.database.transaction() as database:
                for name, records in kept.items():
                    if records:
                        _store(database, name, records, records[-1].epoch)
            if has_log(fresh):  # closing it could not move the events from the log into the file
                raise JournalUnavailable(
                    f"{fresh} cannot be written completely; check the disk and its space, then try again"
                )
            for leftover in (f"{path}-wal", f"{path}-shm"):
                Path(leftover).unlink(missing_ok=True)
            os.replace(fresh, path)
        lock.discard()
    except OSError as error:
        raise JournalError(f"{path} was not repaired ({error.strerror}); what it was is in {backup}") from error
    finally:
        lock.release()
    return len(kept[study])


def _sound(target: str | Path, study: str) -> list[Record]:
    """Return the stored rows before the first damaged one."""
    found = list[Record]()
    with suppress(JournalDamaged), _reading(target, study) as journal:
        found.extend(map(Record._make, journal.check_each()))
    return found


def _names(path: Path) -> set[str]:
    """Return the names of the studies that either table contains."""
    names = set[str]()
    for table in ("study", "event"):
        with suppress(JournalDamaged), _reading(path) as journal:
            for (name,) in journal.database.execute(f"SELECT DISTINCT study FROM {table}"):
                with suppress(InvalidArgument):  # a damaged one
                    names.add(check_study_name(name))
    return names


@contextmanager
def _reading(target: str | Path, study: str = "study") -> Iterator[SqlJournal]:
    with SqlJournal(target, study, read_only=True) as journal, journal.database.transaction(reads=True):
        yield journal
