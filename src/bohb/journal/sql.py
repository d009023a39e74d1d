"""A journal in a SQLite file or a PostgreSQL database: one table of events, one transaction per append."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from bohb.core.encoding import from_json
from bohb.core.events import Event, NoteAdded
from bohb.errors import Conflict, InvalidArgument, JournalDamaged, JournalError, JournalUnavailable
from bohb.journal import schema
from bohb.journal.acknowledged import acknowledged, check_complete
from bohb.journal.base import Journal
from bohb.journal.database import Database
from bohb.journal.database_errors import is_damage, is_lock_timeout
from bohb.journal.lease_table import Leases
from bohb.journal.lock import this_process
from bohb.journal.memory import MemoryJournal
from bohb.journal.records import DamagedAt, Reader, Record, body_of, chained, check_study_name, no_collector

_BATCH = 1000
_PATIENCE_SECONDS = 75.0  # longer than a runner that was stopped can keep its turn


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
        self.database = Database(url, read_only)
        self.path = self.database.path  # None: a server
        self.name = self.database.name
        self._leases = Leases(self.study, self.database.generation)
        self._epoch: int | None = None  # claimed at the first append
        self._version: tuple[int, int] | None = None  # of the file when it was last read
        self._end: tuple[int, int] | None = None  # length and checksum of the study when it was last read or written

    def read(self, after: int = 0) -> Sequence[Event]:
        """Return all events from position `after` on. Raises JournalDamaged with the position of the first bad one."""
        version = None if self.read_only else self.database.version()
        if version is not None and self._end is not None and self._end[0] == after and version == self._version:
            return []  # a runner asks all the time, and mostly nobody else has written
        # A writer was checked when it opened the file.
        entry = acknowledged(self.path) if self.read_only and self.path is not None else None
        with self.database.transaction(reads=True) as connection:
            head = self._head(connection)
            if entry is not None and entry.study == self.study:
                check_complete(entry, *(head[:2] if head is not None else (0, 0)))
            if head is None or head.length <= after:
                self._check_same(after, *(head[:2] if head is not None else (0, 0)))
                self._version = version
                return []
            try:
                events = self._read(connection, head, after)
                self._end, self._version = head[:2], version
                return events
            except DBAPIError as error:
                if is_damage(error):
                    self._find_damage(connection, head)
                raise

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is not exactly `after` events long, unless the same events are already stored
        there: an earlier call was then committed, but its answer was lost.
        """
        self._check_writable()
        bodies = [(event, body_of(event)) for event in events]
        with self.database.file_turn():  # acknowledgements are written in the order of the commits
            records = self._append(bodies, after)
            if records:
                self._end = records[-1].position + 1, records[-1].crc
                self.database.acknowledge(self.study, *self._end)

    def _append(self, bodies: list[tuple[Event, str]], after: int) -> list[Record]:
        """Store events and return their records; none if there was nothing to store, or if it was stored before."""
        epoch = self._claim()
        with self.database.transaction() as connection:
            head = connection.execute(schema.HEAD_LOCKED, {"of": self.study}).one()
            if head.length != after:
                if self._already_stored(connection, chained(self.study, after, 0, epoch, bodies)):
                    return []
                raise Conflict(f"study {self.study!r} has {head.length} events, not {after}")
            records = chained(self.study, after, head.crc, epoch, bodies)
            self._insert(connection, records)
        return records

    @property
    def shared(self) -> bool:
        """Whether several runners may work on the study at once."""
        return self.database.shared

    @contextmanager
    def turn(self, seconds: float = schema.TURN_SECONDS) -> Iterator[None]:
        """Keep other runners from appending.

        The row of the study is locked on the server, and runners get their turns in the order in which they asked. The
        events that are appended meanwhile are stored at the end, or never. In a file they are stored at once.

        seconds: after this time without a sign of life the server ends the turn, so that others can go on; at a file
            the others go on without a turn, and the runner that kept them waiting gets a Conflict.
        """
        self._check_writable()
        if self.path is not None:
            with self.database.file_turn(seconds):
                yield
            return
        parameters = {"of": self.study, "idle": f"{round(1000 * seconds)}ms"}
        with ExitStack() as turn:
            patience = time.monotonic() + _PATIENCE_SECONDS
            while True:
                try:
                    self._claim()
                    turn.enter_context(self.database.turn(schema.TURN, parameters))
                    break
                except JournalUnavailable as error:
                    if not is_lock_timeout(error.__cause__) or time.monotonic() > patience:
                        raise
            yield

    def renew_lease(self, holder: str, seconds: float) -> None:
        """Let a lease expire `seconds` from now, by the clock of the server or the machine."""
        with self.database.transaction() as connection:
            self._leases.renew(connection, holder, seconds)

    def end_lease(self, holder: str) -> None:
        """Delete a lease: its runner has stopped."""
        with self.database.transaction() as connection:
            self._leases.end(connection, holder)

    def lease_is_over(self, holder: str) -> bool:
        """Whether a runner has no lease any more; one that has expired is deleted, and renewals wait for that."""
        with self.database.transaction() as connection:
            return self._leases.is_over(connection, holder)

    def live_leases(self) -> set[str]:
        """Return the holders of all leases that have not expired."""
        with self.database.transaction(reads=True) as connection:
            return self._leases.live(connection)

    def again(self) -> SqlJournal:
        """Open the same study once more with another connection."""
        return SqlJournal(*self.source)

    @property
    def source(self) -> tuple[str, str]:
        """The arguments that open the same study again: path or URL, with its password, and name."""
        where = self.database.url.render_as_string(hide_password=False) if self.path is None else str(self.path)
        return where, self.study

    def notes(self) -> dict[str, list[NoteAdded]]:
        """Return the notes of every study in the database that has any, by its name."""
        found: dict[str, list[NoteAdded]] = {}
        with self.database.transaction(reads=True) as connection:
            for name, body in connection.execute(schema.NOTES):
                note = from_json(NoteAdded.kind, json.loads(body))
                assert isinstance(note, NoteAdded)
                found.setdefault(name, []).append(note)
        return found

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study in the database, in the order of their names."""
        with self.database.transaction() as connection:
            rows = connection.execute(select(schema.STUDY.c.study, schema.STUDY.c.length)).all()
        return dict(sorted((str(name), int(length)) for name, length in rows))

    def finished(self) -> dict[str, int]:
        """Return the number of finished trials of every study in the database, in the order of their names."""
        with self.database.transaction() as connection:
            rows = connection.execute(schema.FINISHED).all()
        return dict(sorted((str(name), int(n)) for name, n in rows))

    def close(self) -> None:
        """Release the connection and the lock. Closing twice has no effect."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def raw_rows(self, connection: Connection) -> Iterator[Record]:
        """Yield the stored rows one at a time, so that the position of an unreadable one is known."""
        position = 0
        while True:
            place = {"of": self.study, "first": position, "last": position + 1}
            try:
                row = connection.execute(schema.ROWS, place).first()
            except DBAPIError as error:
                raise DamagedAt(self.study, position, f"it cannot be read ({error.orig})") from error
            if row is None:
                return
            yield Record._make(row)
            position += 1

    def _head(self, connection: Connection) -> Head | None:
        """Return where the study ends; None for a study without events."""
        head = connection.execute(schema.HEAD, {"of": self.study}).first()
        if head is None:
            of = {"of": self.study, "first": 0, "last": 2**62}
            if connection.execute(schema.ROWS.limit(1), of).first() is None:
                return None
            # Another runner may have created the study between the two queries.
            head = connection.execute(schema.HEAD, {"of": self.study}).first()
            if head is None:
                raise DamagedAt(self.study, 0, "it has events, but the entry that says how many is gone")
        if type(head.length) is not int or type(head.crc) is not int:
            raise JournalDamaged(f"{self.name}: the entry that says where study {self.study!r} ends is damaged")
        return Head._make(head)

    def _read(self, connection: Connection, head: Head, after: int) -> list[Event]:
        anchor = max(after - 1, 0)  # checksums continue from the row before
        place = {"of": self.study, "first": anchor, "last": head.length}
        reader, events = Reader(self.study, anchor), list[Event]()
        with no_collector(), connection.execute(schema.ROWS, place, execution_options={"yield_per": _BATCH}) as rows:
            for batch in rows.partitions():
                if reader.position < after:
                    reader.position, reader.crc = after, batch[0].crc if batch[0].position == anchor else -1
                    self._check_same(after, head.length, reader.crc)
                    batch = batch[1:]
                events += reader.events(batch)
        reader.finish(head.length, head.crc)
        return events

    def _check_same(self, after: int, length: int, crc: int) -> None:
        """Refuse to go on with a server that has lost events which were read or written here.

        crc: the checksum of the event before position `after`, if the study is that long.
        """
        if self.path is not None or self._end is None or self._end[0] != after:
            return
        if length < after or crc != self._end[1]:
            raise JournalError(
                f"{self.name} no longer has the events of study {self.study!r} that this process has seen: it had "
                f"{after}, now there are {length}. A backup was restored, or a failover lost the latest ones; start "
                "again to continue with what is stored"
            )

    def _find_damage(self, connection: Connection, head: Head) -> None:
        reader = Reader(self.study)
        for row in self.raw_rows(connection):
            reader.check([row])
        reader.finish(head.length, head.crc)

    def _check_writable(self) -> None:
        if self.read_only:
            raise JournalError(f"{self.name} was opened with read_only=True; open it for writing to append")
        doubt = self.database.doubt
        if doubt is not None:
            raise JournalError(f"nothing more is written after an earlier failure: {doubt}") from doubt

    def _claim(self) -> int:
        """Return the epoch of this writer: a number that no other writer of this study has."""
        if self._epoch is None:
            with self.database.transaction() as connection:
                connection.execute(schema.NEW_STUDY, {"of": self.study})
                connection.execute(schema.NEW_EPOCH, {"of": self.study, "me": this_process()})
                epoch = connection.execute(schema.HEAD, {"of": self.study}).one().epoch
            self._epoch = int(epoch)
        return self._epoch

    def _already_stored(self, connection: Connection, records: list[Record]) -> bool:
        if not records:
            return False
        place = {"of": self.study, "first": records[0].position, "last": records[-1].position + 1}
        found = connection.execute(schema.ROWS, place).all()
        # Two runners may make the same decision; only the one whose epoch is stored was first.
        mine = all(row.epoch == self._epoch for row in found)
        return mine and [_contents(row) for row in found] == [_contents(record) for record in records]

    def _insert(self, connection: Connection, records: list[Record]) -> None:
        if not records:
            return
        try:
            connection.execute(schema.NEW_ROWS, [{"study": self.study, **record._asdict()} for record in records])
        except IntegrityError as error:
            keys = ", ".join(record.key for record in records[:3])
            raise Conflict(f"study {self.study!r} already has one of the events {keys} ({error.orig})") from error
        connection.execute(schema.NEW_HEAD, {"of": self.study, "n": records[-1].position + 1, "sum": records[-1].crc})


def _contents(row: Sequence[Any]) -> tuple[str, str, Any]:
    """Return what two records of the same event have in common, whatever the order of their fields."""
    _, _, kind, key, body, _ = row
    return kind, key, json.loads(body)


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


def study_names(target: str | Path) -> list[str]:
    """Return the names of the studies in a database, sorted."""
    with SqlJournal(target, read_only=True) as journal:
        return list(journal.lengths())
