"""A journal in a SQLite file or a PostgreSQL database: one table of events, one transaction per append."""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from bohb.core.encoding import from_json
from bohb.core.events import Event, NoteAdded
from bohb.errors import Conflict, InvalidArgument, JournalDamaged, JournalError, MissingExtra, install_hint
from bohb.journal import database
from bohb.journal.base import Journal, MemoryJournal
from bohb.journal.database import Database, LockTimeout, Row
from bohb.journal.location import path_of, shown_journal
from bohb.journal.lock import check_complete, entries, short_name, this_process
from bohb.journal.records import Content, DamagedAt, End, Reader, chained, check_study_name, contents, no_collector
from bohb.journal.sqlite import BUSY_SECONDS, SqliteDatabase, check_all

_BATCH = 250  # events that are read at once: more would need more memory, fewer more time
_PATIENCE_SECONDS = 75.0  # longer than a runner that was stopped can keep its turn

# the index of the keys is enough to count these, so that no event is read
_FINISHED = """SELECT study.study, count(event.key) FROM study
    LEFT JOIN event ON event.study = study.study AND event.key LIKE 'finished/%' GROUP BY study.study"""
_NOTES = "SELECT study, body FROM event WHERE key LIKE 'note/%' ORDER BY study, position"


class SqlJournal(AbstractContextManager["SqlJournal"]):
    """The events of one study in a database that may hold several.

    url: a path or `sqlite:///…` for a file of this machine, `postgresql+psycopg://…` for a server.
    study: the name of the study.
    read_only: take no lock and change nothing; the writer never waits for a reader.

    A journal may have several writers: processes of one machine for a file, of any machine for a server. An append
    locks the file or the row of the study, and the slower one of two gets a Conflict. The epoch of a row says who wrote
    it.
    """

    def __init__(self, url: str | Path, study: str = "study", read_only: bool = False) -> None:
        self.study = check_study_name(study)
        self.read_only = read_only
        self.database = _database(url, read_only)
        self.path = self.database.path  # None: a server
        self._where = str(url) if self.path is None else str(self.path)
        self._epoch: int | None = None  # claimed at the first append
        self._end: End | None = None  # of the study, when it was last read or written

    def read(self, after: int = 0, most: int | None = None) -> Sequence[Event]:
        """Return all events from position `after` on. Raises JournalDamaged with the position of the first bad one.

        most: the number of events after which a reader of a large study stops for now.
        """
        expected = self._acknowledged().get(short_name(self.study))
        with self.database.transaction(reads=True):
            end = self.database.end(self.study)
            if not end.length and self._stored(0, 1):
                raise DamagedAt(self.study, 0, "it has events, but the entry that says how many is gone")
            if expected is not None:
                check_complete(self.study, expected, end)
            if end.length <= after:
                self._check_same(after, end)
                return []
            try:
                events, end = self._read(end, after, most)
            except DamagedAt:
                raise
            except JournalDamaged:
                if self.path is not None:  # a server takes no more queries in this transaction
                    deque(self.check_each(), maxlen=0)
                raise
        self._end = end
        return events

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is not exactly `after` events long, unless the same events are already stored
        there: an earlier call was then committed, but its answer was lost.
        """
        self._check_writable()
        given = contents(events)
        with nullcontext() if self.path is None else self.database.turn(self.study, BUSY_SECONDS):  # see TurnLock
            epoch = self.claim()
            end = self._append(given, after, epoch)
            if end is not None:
                self._end = end
                if self.database.lock is not None:
                    self.database.lock.acknowledge(self.study, end)

    def _append(self, given: list[Content], after: int, epoch: int) -> End | None:
        """Store events and return the new end; None if there was nothing to store, or if it was stored before."""
        with self.database.transaction():
            end = self.database.end(self.study, database.HEAD_LOCKED)
            if end.length != after:
                if self._already_stored(given, after):
                    return None
                raise Conflict(f"study {self.study!r} has {end.length} events, not {after}")
            if not given:
                return None
            records = chained(self.study, after, end.crc, epoch, given)
            end = End(after + len(given), records[-1].crc)
            self.database.insert(self.study, records)
            self.database.execute(database.END, of=self.study, length=end.length, crc=end.crc)
        return end

    @contextmanager
    def turn(self, seconds: float = database.TURN_SECONDS) -> Iterator[None]:
        """Keep other runners from appending.

        The row of the study is locked on the server, and runners get their turns in the order in which they asked. The
        events that are appended meanwhile are stored at the end, or never. In a file they are stored at once.

        seconds: after this time without a sign of life the server ends the turn, so that others can go on; at a file
            the others go on without a turn, and the runner that kept them waiting gets a Conflict.
        """
        self._check_writable()
        patience = time.monotonic() + _PATIENCE_SECONDS
        with ExitStack() as turn:
            while True:
                try:
                    if self.path is None:
                        self.claim()  # creates the row to lock, and is committed before the turn
                    turn.enter_context(self.database.turn(self.study, seconds))
                    break
                except LockTimeout:
                    if time.monotonic() > patience:
                        raise
            yield

    def renew_lease(self, holder: str, seconds: float) -> None:
        self._lease(database.RENEW_LEASE, holder=holder, seconds=seconds)

    def end_lease(self, holder: str) -> None:
        self._lease(database.END_LEASE, holder=holder)

    def lease_is_over(self, holder: str) -> bool:
        """Whether a runner has no lease any more; one that has expired is deleted, and renewals wait for that."""
        with self.database.transaction():
            self._lease(database.END_EXPIRED_LEASE, holder=holder)
            return not self._lease(database.LEASE, holder=holder)

    def live_leases(self) -> set[str]:
        return {holder for (holder,) in self._lease(database.LEASES, reads=True)}

    def expired_leases(self) -> dict[str, float]:
        """Return the holders of all leases that have expired, and for how many seconds."""
        return dict(self._lease(database.EXPIRED_LEASES, reads=True))

    def runner(self) -> str | None:
        """Return who runs the study, as far as this machine or the server knows; None if nobody does."""
        leases = sorted(self.live_leases())
        if self.path is None:
            return ", ".join(leases) or None
        if alive := [name for name in leases if not _has_ended(name, r"(?P<machine>.+):(?P<pid>\d+):\w+$")]:
            return ", ".join(alive)
        holder = entries(self.path).holder  # also of a program that asks and tells without a lease
        return None if _has_ended(holder, r"process (?P<pid>\d+) on (?P<machine>\S+) since") else holder or None

    def again(self) -> SqlJournal:
        return SqlJournal(*self.source)

    @property
    def source(self) -> tuple[str, str]:
        """The arguments that open the same study again: path or URL, with its password, and name."""
        return self._where, self.study

    def notes(self) -> dict[str, list[NoteAdded]]:
        """Return the notes of every study in the database that has any, by its name."""
        found: dict[str, list[NoteAdded]] = {}
        for name, body in self._rows(_NOTES):
            note = from_json(NoteAdded.kind, json.loads(body))
            assert isinstance(note, NoteAdded)
            found.setdefault(name, []).append(note)
        return found

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study in the database, in the order of their names."""
        return self._counts("SELECT study, length FROM study")

    def finished(self) -> dict[str, int]:
        """Return the number of finished trials of every study in the database, in the order of their names."""
        return self._counts(_FINISHED)

    def close(self) -> None:
        self.database.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_each(self) -> Iterator[Row]:
        """Yield the stored rows, read and checked one at a time. Raises DamagedAt for the first bad one."""
        reader = Reader(self.study)
        while True:
            try:
                rows = self._stored(reader.position, reader.position + 1)
            except JournalDamaged as error:
                raise DamagedAt(self.study, reader.position, f"it cannot be read ({error.__cause__})") from error
            if not rows:
                return
            reader.check(rows)
            yield rows[0]

    def claim(self) -> int:
        """Return the epoch of this writer: a number that no other writer of this study has."""
        if self._epoch is None:
            with self.database.transaction():
                self.database.execute(database.CLAIM, of=self.study, owner=this_process())
                epoch = int(self.database.execute(database.EPOCH, of=self.study)[0][0])
            self._epoch = epoch
        return self._epoch

    def _acknowledged(self) -> Mapping[str, End]:
        """Return where the studies of a file have to end at least; a writer has checked that before."""
        return entries(self.path).ends if self.path is not None and self.read_only else {}

    def _rows(self, statement: str) -> list[Row]:
        """Return rows about all studies. Raises DamagedAt if one of them is shorter than it was."""
        expected = self._acknowledged()
        with self.database.transaction(reads=True):
            check_all(expected, self.database)
            return self.database.execute(statement)

    def _counts(self, statement: str) -> dict[str, int]:
        return dict(sorted((str(name), int(number)) for name, number in self._rows(statement)))

    def _stored(self, first: int, last: int) -> list[Row]:
        return self.database.execute(database.ROWS, of=self.study, first=first, last=last)

    def _lease(self, statement: str, reads: bool = False, **values: Any) -> list[Row]:
        """Run a statement about leases. Of a file, all runners have the monotonic clock of the machine."""
        with self.database.transaction(reads):
            return self.database.execute(statement, of=self.study, now=time.monotonic(), **values)

    def _read(self, end: End, after: int, most: int | None) -> tuple[list[Event], End]:
        """Return the events from a position on, in batches, and where they end; checksums continue."""
        last = end.length if most is None else min(end.length, after + most)
        reader, events = Reader(self.study, after), list[Event]()
        if after > 0:
            before = self._stored(after - 1, after)
            reader.crc = before[0][-1] if before else -1
            self._check_same(after, End(end.length, reader.crc))
        with no_collector():
            for first in range(after, last, _BATCH):
                events += reader.events(self._stored(first, min(first + _BATCH, last)))
        found = End(reader.position, reader.crc)
        if last == end.length:
            reader.finish(*end)
        return events, found

    def _check_same(self, after: int, found: End) -> None:
        """Refuse to go on with a server that has lost events which were read or written here.

        found: the length of the study, and the checksum of the event before position `after` if it is that long.
        """
        if self.path is not None or self._end is None or self._end.length != after:
            return
        if found.length < after or found.crc != self._end.crc:
            raise JournalError(
                f"{self.database.name} no longer has the events of study {self.study!r} that this process has seen: "
                f"it had {after}, now there are {found.length}. A backup was restored, or a failover lost the latest; "
                "start again to continue with what is stored"
            )

    def _check_writable(self) -> None:
        if self.read_only:
            raise JournalError(f"{self.database.name} was opened with read_only=True; open it for writing to append")
        doubt = self.database.doubt
        if doubt is not None:
            raise JournalError(f"nothing more is written after an earlier failure: {doubt}") from doubt

    def _already_stored(self, given: list[Content], after: int) -> bool:
        """Whether this writer stored the same events here; of two runners that decide alike, only one was first."""
        found = self._stored(after, after + len(given))
        stored = [(epoch, kind, key, json.loads(body)) for _, epoch, kind, key, body, _ in found]
        return bool(given) and stored == [(self._epoch, kind, key, json.loads(body)) for kind, key, body in given]


def _has_ended(name: str, pattern: str) -> bool:
    """Whether a process is known to have ended; that of another machine or container is not known.

    pattern: finds the groups `machine` and `pid` in the name of the process.
    """
    found = re.match(pattern, name)
    if found is None or found["machine"] != platform.node():
        return False
    try:
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _database(url: str | Path, read_only: bool) -> Database:
    """Return an open database; the driver of a server is imported only for a server."""
    path = path_of(url)
    if path is not None:
        return SqliteDatabase(path, read_only)
    try:
        from bohb.journal.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        needed = f"journal={shown_journal(str(url))!r} needs the package {error.name!r}"
        raise MissingExtra(f"{needed}: {install_hint('postgres')}") from error
    return PostgresDatabase(str(url), read_only)


def open_journal(target: str | Path | Journal | None, study: str = "study", *, read_only: bool = False) -> Journal:
    """Open the journal that `target` names.

    target: a file such as "study.db"; a URL, `sqlite:///…` or `postgresql+psycopg://…`; ":memory:" or None for a
        journal in memory; or a journal, which is returned unchanged.
    study: the name of the study; a database may hold several.
    read_only: take no lock and change nothing.
    """
    if target is None or target in (":memory:", "sqlite://", "sqlite:///:memory:"):
        check_study_name(study)
        return MemoryJournal()
    if isinstance(target, str | Path):
        return SqlJournal(target, study, read_only)
    if not all(hasattr(target, method) for method in ("read", "append", "close")):
        raise InvalidArgument(
            f"journal={target!r:.80} is neither a path, a URL nor a journal (an object with read, append and close)"
        )
    return target


def stored_events(target: str | Path, study: str) -> Sequence[Event]:
    """Return all events of a study, each one checked. Nothing is locked. Raises JournalError if there is none."""
    with SqlJournal(target, study, read_only=True) as journal:
        events = journal.read()
        if not events:
            names = ", ".join(journal.lengths()) or "none"
            shown = shown_journal(str(target))
            raise JournalError(f"there is no study {study!r} in {shown}; its studies are: {names}")
        return events


def study_names(target: str | Path) -> list[str]:
    """Return the names of the studies in a database, sorted."""
    with SqlJournal(target, read_only=True) as journal:
        return list(journal.lengths())


def only_study(target: str | Path) -> str:
    """Return the name of the only study in a database. Raises JournalError for none, InvalidArgument for several."""
    names, shown = study_names(target), shown_journal(str(target))
    if not names:
        raise JournalError(f"{shown} holds no study yet")
    if len(names) > 1:
        raise InvalidArgument(
            f"{shown} holds {len(names)} studies; choose one with study=… or --study: {', '.join(names)}"
        )
    return names[0]
