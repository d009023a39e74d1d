"""Renames and deletes the studies of a journal, while nobody runs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from bohb.errors import InvalidArgument, JournalBusy, JournalError
from bohb.journal import schema
from bohb.journal.files import files_directory
from bohb.journal.jsonl import export_jsonl
from bohb.journal.records import body_of, chained, check_study_name
from bohb.journal.sql import Head, SqlJournal


def rename_study(target: str | Path, old: str, new: str) -> None:
    """Give a study another name, and its files with it. Raises InvalidArgument if the name is taken.

    target: a file or the URL of a database. The checksums of all events contain the name and are computed again.
    """
    check_study_name(new)
    with SqlJournal(target, old) as journal:
        bodies = [(event, body_of(event)) for event in journal.read()]
        with _alone(journal) as (connection, head):
            if connection.execute(schema.HEAD, {"of": new}).first() is not None:
                raise InvalidArgument(f"{journal.name} already has a study {new!r}; choose another name")
            _remove(connection, old, len(bodies), head)
            records = chained(new, 0, 0, head.epoch, bodies)
            connection.execute(schema.NEW_STUDY, {"of": new})
            connection.execute(schema.NEW_ROWS, [{"study": new, **record._asdict()} for record in records])
            values = {"length": len(records), "crc": records[-1].crc, "epoch": head.epoch + 1, "owner": head.owner}
            connection.execute(schema.STUDY.update().where(schema.STUDY.c.study == new).values(values))
        _move_files(journal, new)


def delete_study(target: str | Path, study: str) -> list[Path]:
    """Delete a study from its journal. Return what was kept: an exported copy, and the study's files if there are any.

    `bohb import` restores the copy.
    """
    with SqlJournal(target, study) as journal:
        place = journal.path or Path("bohb")  # on a server, the copy is written to the current directory
        suffix = next(n for n in range(1, 10_000) if not _copy(place, study, n).exists())
        kept = [_copy(place, study, suffix)]
        n_events = export_jsonl(journal, kept[0])
        with _alone(journal) as (connection, head):
            _remove(connection, study, n_events, head)
        moved = _move_files(journal, f"{study}.deleted{suffix}")
    return kept if moved is None else [*kept, moved]


def _copy(place: Path, study: str, number: int) -> Path:
    name = files_directory(place, study)
    assert name is not None
    return place.with_name(f"{place.name}.{name.name}.deleted{number}.jsonl")


@contextmanager
def _alone(journal: SqlJournal) -> Iterator[tuple[Connection, Head]]:
    """Begin a transaction in which nobody else changes the study. Raises JournalBusy if it has a runner."""
    with journal.turn():
        runners, names = sorted(journal.live_leases()), list(journal.lengths())
        if runners:
            raise JournalBusy(f"study {journal.study!r} is being run by {', '.join(runners)}; stop it first")
        if journal.study not in names:
            raise InvalidArgument(f"{journal.name} has no study {journal.study!r}; it has {', '.join(names) or 'none'}")
        with journal.database.transaction() as connection:
            head = connection.execute(schema.HEAD_LOCKED, {"of": journal.study}).one()
            journal.database.forget(journal.study)  # before the commit: an entry that is missing does no harm
            yield connection, Head._make(head)


def _remove(connection: Connection, study: str, n_events: int, head: Head) -> None:
    if head.length != n_events:
        raise JournalError(f"study {study!r} has just got more events; try again when nobody writes to it")
    connection.execute(schema.EVENT.delete().where(schema.EVENT.c.study == study))
    connection.execute(schema.STUDY.delete().where(schema.STUDY.c.study == study))


def _move_files(journal: SqlJournal, new: str) -> Path | None:
    """Rename the directory of a study's checkpoints and logs; return its new place, None if it has none."""
    old, place = (files_directory(journal.path, name) for name in (journal.study, new))
    if old is None or place is None or not old.is_dir():
        return None
    if place.exists():
        raise JournalError(f"the study was changed, but its files stay in {old}, because {place} exists already")
    old.rename(place)
    return place
