"""A journal in a SQLite file or a PostgreSQL database: one table of events, one transaction per append."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from sqlalchemy import Connection, Engine, make_url, select
from sqlalchemy.exc import DBAPIError, IntegrityError

from bohb.core.events import Event
from bohb.errors import Conflict, InvalidArgument, JournalDamaged, JournalError
from bohb.journal import leases, schema
from bohb.journal.base import Journal
from bohb.journal.lock import WriterLock, this_process
from bohb.journal.memory import MemoryJournal
from bohb.journal.records import DamagedAt, Reader, Record, body_of, chained, check_study_name, no_collector
from bohb.journal.target import check_file, path_of
from bohb.journal.troubles import explained, is_damage, is_uncertain

_BATCH = 1000


class Head(NamedTuple):
    """Where a study ends, and who wrote it last."""

    length: int
    crc: int
    epoch: int
    owner: str


class SqlJournal:
    """The events of one study in a database that may hold several.

    url: a path or `sqlite:///…` for a file of this machine, `postgresql+psycopg://…` for a server.
    study: the name of the study.
    read_only: take no lock and change nothing; sees what is committed and never makes the writer wait.

    A SQLite file has one writer, held off by a lock on `<file>.lock` and, should that be circumvented, by the epoch:
    each writer raises it and an older one may no longer append. PostgreSQL has several writers; there the row of the
    study is locked for each append, and the slower of two gets a Conflict.
    """

    def __init__(self, url: str | Path, study: str = "study", read_only: bool = False) -> None:
        self.study = check_study_name(study)
        self.read_only = read_only
        self.path = path_of(url)  # None: a server
        self._mutex = threading.RLock()
        self._pid = os.getpid()
        self._epoch: int | None = None  # claimed at the first append
        self._doubt: JournalError | None = None
        self._connection: Connection | None = None
        self._turn: Connection | None = None  # that of a turn, while it lasts
        self._lock: WriterLock | None = None
        if self.path is not None:
            self.name = str(self.path)
            check_file(self.path, read_only)
            self._lock = None if read_only else WriterLock(self.path)
            self._engine: Engine | None = schema.sqlite_engine(self.path, read_only)
        else:
            self.url = make_url(str(url))
            self.name = self.url.render_as_string(hide_password=True)
            self._engine = schema.postgres_engine(self.url, read_only)
        try:
            with self._explaining():
                schema.prepare(self._connected(), self.name, read_only)
        except BaseException:
            self.close()
            raise

    def read(self, after: int = 0) -> Sequence[Event]:
        """All events from position `after` on, each one checked. Raises JournalDamaged naming the first bad one."""
        with self._transaction() as connection:
            head = self._head(connection)
            if head is None or head.length <= after:
                return []
            try:
                return self._read(connection, head, after)
            except DBAPIError as error:
                if is_damage(error):
                    self._find_damage(connection, head)
                raise

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study in the database, sorted by name."""
        with self._transaction() as connection:
            rows = connection.execute(select(schema.STUDY.c.study, schema.STUDY.c.length)).all()
        return dict(sorted((str(name), int(length)) for name, length in rows))

    def append(self, events: Sequence[Event], after: int) -> None:
        """Store `events` from position `after` on, durably and all or none.

        Raises Conflict if the journal is no longer exactly `after` events long, unless these very events are already
        stored there: then an earlier call was committed but its answer was lost, and this one has nothing to do.
        """
        self._check_writable()
        bodies = [(event, body_of(event)) for event in events]
        epoch = self._claim()
        with self._transaction() as connection:
            head = connection.execute(schema.HEAD_LOCKED, {"of": self.study}).one()
            if self.path is not None and head.epoch != epoch:
                raise JournalError(
                    f"study {self.study!r} in {self.name} was taken over by {head.owner} (epoch {head.epoch}, this "
                    f"runner has {epoch}); nothing was stored. Stop this runner, or open the journal again"
                )
            if head.length != after:
                if self._already_stored(connection, chained(self.study, after, 0, epoch, bodies)):
                    return
                raise Conflict(f"study {self.study!r} has {head.length} events, not {after}")
            self._insert(connection, chained(self.study, after, head.crc, epoch, bodies))

    @property
    def shared(self) -> bool:
        """Whether several runners may work on the study at once."""
        return self.path is None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Nobody else appends to the study while this lasts; what is appended in it is stored when it ends, or never.

        A file has one writer anyway. On a server the study's row is locked, and runners get their turns in the order
        in which they came; whoever is stopped in the middle of one loses it after a minute.
        """
        if self.path is not None or self._turn is not None:
            yield
            return
        self._check_writable()
        self._claim()
        with self._transaction() as connection:
            connection.execute(schema.HEAD_LOCKED, {"of": self.study}).one()
            self._turn = connection
            try:
                yield
            finally:
                self._turn = None

    def renew_lease(self, holder: str, seconds: float) -> None:
        """Say that a runner lives and will for so many seconds more, by the server's clock."""
        with self._transaction() as connection:
            leases.renew(connection, self.study, holder, seconds)

    def end_lease(self, holder: str) -> None:
        """Say that a runner has stopped."""
        with self._transaction() as connection:
            leases.end(connection, self.study, holder)

    def lease_is_over(self, holder: str) -> bool:
        """Whether a runner is gone: it gave its lease back or let it run out, which ends it."""
        with self._transaction() as connection:
            return leases.end_expired(connection, self.study, holder)

    def live_leases(self) -> set[str]:
        """The runners whose lease has not run out."""
        with self._transaction() as connection:
            return leases.live(connection, self.study)

    def again(self) -> SqlJournal:
        """The same study of the same server through a connection of its own."""
        assert self.path is None, "a file has one connection"
        return SqlJournal(self.url.render_as_string(hide_password=False), self.study)

    def close(self) -> None:
        """Give back the connection and the lock. Closing twice is fine."""
        with self._mutex:
            self._disconnect()
            if self._engine is not None:
                self._engine.dispose()
                self._engine = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def raw_rows(self, connection: Connection) -> Iterator[Record]:
        """The stored rows one at a time, so that one that cannot be read names its position."""
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

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self._mutex:
            if self._turn is not None:
                yield self._turn
                return
            with self._explaining():
                connection = self._connected()
                with connection.begin():
                    yield connection

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn the database's errors into ours, and leave the connection fit for the next call."""
        try:
            yield
        except DBAPIError as error:
            self._undo(error)
            trouble = explained(error, self.name)
            if is_uncertain(error):
                self._doubt = trouble
            raise trouble from error
        except UnicodeDecodeError as error:  # sqlite3, about names in a damaged schema
            raise JournalDamaged(f"{self.name} is damaged ({error}); restore a backup") from error

    def _undo(self, error: DBAPIError) -> None:
        """Roll back what a failed COMMIT leaves open, and give up only a connection that is gone.

        After a failed fsync in particular: another connection would find the unsynced events in SQLite's log and
        believe them, this one knows better.
        """
        if self._connection is None:
            return
        if error.connection_invalidated:
            self._disconnect()
            return
        try:
            self._connection.connection.rollback()
        except self._connection.dialect.loaded_dbapi.Error:
            self._disconnect()

    def _connected(self) -> Connection:
        if os.getpid() != self._pid:
            raise JournalError(
                f"{self.name} was opened by process {self._pid}, this is its child {os.getpid()}; open it again here"
            )
        if self._engine is None:
            raise JournalError(f"{self.name} is closed; open it again")
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and os.getpid() == self._pid:
            connection.close()

    def _head(self, connection: Connection) -> Head | None:
        """Where the study ends; None for a study that has not begun."""
        head = connection.execute(schema.HEAD, {"of": self.study}).first()
        if head is None:
            of = {"of": self.study, "first": 0, "last": 2**62}
            if connection.execute(schema.ROWS.limit(1), of).first() is None:
                return None
            head = connection.execute(schema.HEAD, {"of": self.study}).first()  # a server may have been faster than us
            if head is None:
                raise DamagedAt(self.study, 0, "it has events, but the entry that says how many is gone")
        if type(head.length) is not int or type(head.crc) is not int:
            raise JournalDamaged(f"{self.name}: the entry that says where study {self.study!r} ends is damaged")
        return Head._make(head)

    def _read(self, connection: Connection, head: Head, after: int) -> list[Event]:
        anchor = max(after - 1, 0)  # the checksums continue from the row before
        place = {"of": self.study, "first": anchor, "last": head.length}
        reader, events = Reader(self.study, anchor), list[Event]()
        with no_collector(), connection.execute(schema.ROWS, place, execution_options={"yield_per": _BATCH}) as rows:
            for batch in rows.partitions():
                if reader.position < after:
                    reader.position, reader.crc = after, batch[0].crc if batch[0].position == anchor else -1
                    batch = batch[1:]
                events += reader.events(batch)
        reader.finish(head.length, head.crc)
        return events

    def _find_damage(self, connection: Connection, head: Head) -> None:
        reader = Reader(self.study)
        for row in self.raw_rows(connection):
            reader.check([row])
        reader.finish(head.length, head.crc)

    def _check_writable(self) -> None:
        if self.read_only:
            raise JournalError(f"{self.name} was opened with read_only=True; open it for writing to append")
        if self._doubt is not None:
            raise JournalError(f"nothing more is written after an earlier failure: {self._doubt}") from self._doubt

    def _claim(self) -> int:
        """The epoch of this writer: a number no other writer of this study has had."""
        if self._epoch is None:
            with self._transaction() as connection:
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
        # Of two runners on a server that decide alike, only one may believe it was first: there the epoch counts.
        mine = self.path is not None or all(row.epoch == self._epoch for row in found)
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
    """What makes two records the same event, whatever the order of their fields."""
    _, _, kind, key, body, _ = row
    return kind, key, json.loads(body)


def open_journal(target: str | Path | Journal | None, study: str = "study", *, read_only: bool = False) -> Journal:
    """The journal that `target` names.

    target: a file such as "study.db"; a URL, `sqlite:///…` or `postgresql+psycopg://…`; ":memory:" or None for one
        that is not kept; or a journal, which is returned as it is.
    study: the name of the study, where one database holds several.
    read_only: only look: take no lock and change nothing.
    """
    if target is None or target in (":memory:", "sqlite://", "sqlite:///:memory:"):
        check_study_name(study)
        return MemoryJournal()
    if isinstance(target, str | Path):
        return SqlJournal(target, study, read_only)
    if not (hasattr(target, "read") and hasattr(target, "append")):
        raise InvalidArgument(f"journal={target!r:.80} is neither a path, a URL nor a journal")
    return target


def study_names(target: str | Path) -> list[str]:
    """The names of the studies in a database, sorted."""
    with SqlJournal(target, read_only=True) as journal:
        return list(journal.lengths())
