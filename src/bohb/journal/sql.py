"""A journal in a SQLite file or a PostgreSQL database: one table of events, one transaction per append."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self

from bohb.core.encoding import from_json
from bohb.core.events import Event, NoteAdded
from bohb.errors import Conflict, InvalidArgument, JournalDamaged, JournalError, MissingExtra, install_hint
from bohb.journal import database
from bohb.journal.base import Journal, MemoryJournal
from bohb.journal.database import Database, LockTimeout, Row
from bohb.journal.location import path_of, shown_journal
from bohb.journal.lock import End, check_complete, entries, this_process
from bohb.journal.records import DamagedAt, Reader, Record, body_of, chained, check_study_name, no_collector
from bohb.journal.sqlite import BUSY_SECONDS, SqliteDatabase

_BATCH = 1000
_PATIENCE_SECONDS = 75.0  # longer than a runner that was stopped can keep its turn

# the index of the keys is enough to count these, so that no event is read
_FINISHED = """SELECT study.study, count(event.key) FROM study
    LEFT JOIN event ON event.study = study.study AND event.key LIKE 'finished/%' GROUP BY study.study"""
_NOTES = "SELECT study, body FROM event WHERE key LIKE 'note/%' ORDER BY study, position"


class Head(NamedTuple):
    """The length and checksum of a study, and its last writer."""

    length: int
    crc: int
    epoch: int
    owner: str


class SqlJournal:
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
        self.name = self.database.name
        self.shared = self.database.shared  # whether several runners may work on the study at once
        self._where = str(url) if self.path is None else str(self.path)
        self._epoch: int | None = None  # claimed at the first append
        self._version: tuple[int, int] | None = None  # of the file when it was last read
        self._end: End | None = None  # of the study, when it was last read or written

    def read(self, after: int = 0) -> Sequence[Event]:
        """Return all events from position `after` on. Raises JournalDamaged with the position of the first bad one."""
        version = None if self.read_only else self.database.version()
        if version is not None and self._end is not None and self._end[0] == after and version == self._version:
            return []  # a runner asks all the time, and mostly nobody else has written
        expected = entries(self.path).ends.get(self.study) if self.path is not None and self.read_only else None
        with self.database.transaction(reads=True):
            head = self._head()
            end = End(0, 0) if head is None else End(head.length, head.crc)
            if expected is not None:
                check_complete(self.study, expected, end)
            if end.length <= after:
                self._check_same(after, end)
                self._version = version
                return []
            try:
                events = self._read(end, after)
            except DamagedAt:
                raise
            except JournalDamaged:
                if self.path is not None:  # a server takes no more queries in this transaction
                    self._find_damage(end)
                raise
        self._end, self._version = end, version
        return events

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is not exactly `after` events long, unless the same events are already stored
        there: an earlier call was then committed, but its answer was lost.
        """
        self._check_writable()
        bodies = [(event, body_of(event)) for event in events]
        with nullcontext() if self.path is None else self.database.turn(self.study, BUSY_SECONDS):  # see TurnLock
            records = self._append(bodies, after)
            if records:
                self._end = End(records[-1].position + 1, records[-1].crc)
                if self.database.lock is not None:
                    self.database.lock.acknowledge(self.study, self._end)

    def _append(self, bodies: list[tuple[Event, str]], after: int) -> list[Record]:
        """Store events and return their records; none if there was nothing to store, or if it was stored before."""
        epoch = self._claim()
        with self.database.transaction():
            head = Head(*self.database.execute(database.HEAD_LOCKED, of=self.study)[0])
            if head.length != after:
                if self._already_stored(chained(self.study, after, 0, epoch, bodies)):
                    return []
                raise Conflict(f"study {self.study!r} has {head.length} events, not {after}")
            records = chained(self.study, after, head.crc, epoch, bodies)
            if records:
                self.database.insert(self.study, records)
                self.database.execute(database.END, of=self.study, length=records[-1].position + 1, crc=records[-1].crc)
        return records

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
                        self._claim()  # creates the row to lock, and is committed before the turn
                    turn.enter_context(self.database.turn(self.study, seconds))
                    break
                except LockTimeout:
                    if time.monotonic() > patience:
                        raise
            yield

    def renew_lease(self, holder: str, seconds: float) -> None:
        """Let a lease expire `seconds` from now, by the clock of the server or the machine, even if it had expired."""
        self._lease(database.RENEW_LEASE, holder=holder, seconds=seconds)

    def end_lease(self, holder: str) -> None:
        """Delete a lease: its runner has stopped."""
        self._lease(database.END_LEASE, holder=holder)

    def lease_is_over(self, holder: str) -> bool:
        """Whether a runner has no lease any more; one that has expired is deleted, and renewals wait for that."""
        with self.database.transaction():
            self._lease(database.END_EXPIRED_LEASE, holder=holder)
            return not self._lease(database.LEASE, holder=holder)

    def live_leases(self) -> set[str]:
        """Return the holders of all leases that have not expired."""
        return {holder for (holder,) in self._lease(database.LEASES, reads=True)}

    def again(self) -> SqlJournal:
        """Open the same study once more with another connection."""
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
        rows = self._rows("SELECT study, length FROM study")
        return dict(sorted((str(name), int(length)) for name, length in rows))

    def finished(self) -> dict[str, int]:
        """Return the number of finished trials of every study in the database, in the order of their names."""
        return dict(sorted((str(name), int(n)) for name, n in self._rows(_FINISHED)))

    def close(self) -> None:
        """Release the connection and the lock. Closing twice has no effect."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def raw_rows(self) -> Iterator[Record]:
        """Yield the stored rows one at a time, so that the position of an unreadable one is known."""
        position = 0
        while True:
            try:
                rows = self._stored(position, position + 1)
            except JournalError as error:
                raise DamagedAt(self.study, position, f"it cannot be read ({error.__cause__})") from error
            if not rows:
                return
            yield Record._make(rows[0])
            position += 1

    def _rows(self, statement: str) -> list[Row]:
        with self.database.transaction(reads=True):
            return self.database.execute(statement)

    def _stored(self, first: int, last: int) -> list[Row]:
        return self.database.execute(database.ROWS, of=self.study, first=first, last=last)

    def _lease(self, statement: str, reads: bool = False, **values: Any) -> list[Row]:
        """Run a statement about leases. Of a file, all runners have the monotonic clock of the machine."""
        ours = {"of": self.study, "generation": self.database.generation, "now": time.monotonic()}
        with self.database.transaction(reads):
            return self.database.execute(statement, **ours, **values)

    def _head(self) -> Head | None:
        """Return where the study ends and who wrote to it; None for a study without events."""
        rows = self.database.execute(database.HEAD, of=self.study)
        if not rows:
            if self._stored(0, 1):
                raise DamagedAt(self.study, 0, "it has events, but the entry that says how many is gone")
            return None
        head = Head(*rows[0])
        if type(head.length) is not int or type(head.crc) is not int:
            raise JournalDamaged(f"{self.name}: the entry that says where study {self.study!r} ends is damaged")
        return head

    def _read(self, end: End, after: int) -> list[Event]:
        """Return the events from a position on, in batches; checksums continue from the event before it."""
        reader, events = Reader(self.study, after), list[Event]()
        if after > 0:
            before = self._stored(after - 1, after)
            reader.crc = before[0][-1] if before else -1
            self._check_same(after, End(end.length, reader.crc))
        with no_collector():
            for first in range(after, end.length, _BATCH):
                events += reader.events(self._stored(first, min(first + _BATCH, end.length)))
        reader.finish(*end)
        return events

    def _check_same(self, after: int, found: End) -> None:
        """Refuse to go on with a server that has lost events which were read or written here.

        found: the length of the study, and the checksum of the event before position `after` if it is that long.
        """
        if self.path is not None or self._end is None or self._end.length != after:
            return
        if found.length < after or found.crc != self._end.crc:
            raise JournalError(
                f"{self.name} no longer has the events of study {self.study!r} that this process has seen: it had "
                f"{after}, now there are {found.length}. A backup was restored, or a failover lost the latest ones; "
                "start again to continue with what is stored"
            )

    def _find_damage(self, end: End) -> None:
        """Raise DamagedAt for the first row that cannot be read."""
        reader = Reader(self.study)
        for row in self.raw_rows():
            reader.check([row])
        reader.finish(*end)

    def _check_writable(self) -> None:
        if self.read_only:
            raise JournalError(f"{self.name} was opened with read_only=True; open it for writing to append")
        doubt = self.database.doubt
        if doubt is not None:
            raise JournalError(f"nothing more is written after an earlier failure: {doubt}") from doubt

    def _claim(self) -> int:
        """Return the epoch of this writer: a number that no other writer of this study has."""
        if self._epoch is None:
            with self.database.transaction():
                self.database.execute(database.NEW_STUDY, of=self.study)
                self.database.execute(database.NEW_EPOCH, of=self.study, owner=this_process())
                head = Head(*self.database.execute(database.HEAD, of=self.study)[0])
            self._epoch = head.epoch
        return self._epoch

    def _already_stored(self, records: list[Record]) -> bool:
        if not records:
            return False
        found = self._stored(records[0].position, records[-1].position + 1)
        # Two runners may make the same decision; only the one whose epoch is stored was first.
        mine = all(epoch == self._epoch for _, epoch, *_ in found)
        return mine and [_contents(row) for row in found] == [_contents(record) for record in records]


def _contents(row: Sequence[Any]) -> tuple[str, str, Any]:
    """Return what two records of the same event have in common, whatever the order of their fields."""
    _, _, kind, key, body, _ = row
    return kind, key, json.loads(body)


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
    """Return all events of a study, each one checked; none if there is no such study. Nothing is locked."""
    with SqlJournal(target, study, read_only=True) as journal:
        return journal.read()


def study_names(target: str | Path) -> list[str]:
    """Return the names of the studies in a database, sorted."""
    with SqlJournal(target, read_only=True) as journal:
        return list(journal.lengths())
