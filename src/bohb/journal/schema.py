"""The tables of a journal, and how they are created and opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    NullPool,
    Table,
    Text,
    UniqueConstraint,
    and_,
    bindparam,
    create_engine,
    event,
    func,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError

from bohb.errors import JournalDamaged, JournalError
from bohb.journal.lease_table import LEASE, lease_table
from bohb.journal.records import SCHEMA

BUSY_SECONDS = 10
READS = "reads"  # in the info of a connection: the next transaction changes nothing
TURN_SECONDS = 60.0  # after which a runner that was stopped in the middle of its turn loses it, unless it says less
_ADVISORY = 0x626F6862  # 'bohb': the lock under which PostgreSQL tables are created

_tables = MetaData()
FORMAT = Table("bohb_format", _tables, Column("version", Integer, nullable=False))
STUDY = Table(  # where each study ends: missing events at the end would not be noticed otherwise
    "study",
    _tables,
    Column("study", Text, primary_key=True),
    Column("length", BigInteger, nullable=False),
    Column("crc", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", Text, nullable=False),
)
EVENT = Table(
    "event",
    _tables,
    Column("study", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("crc", BigInteger, nullable=False),
    UniqueConstraint("study", "key"),
    sqlite_with_rowid=False,
)

_of_study = STUDY.c.study == bindparam("of")
HEAD = select(STUDY.c.length, STUDY.c.crc, STUDY.c.epoch, STUDY.c.owner).where(_of_study)
HEAD_LOCKED = HEAD.with_for_update()  # PostgreSQL: one append per study at a time; SQLite has BEGIN IMMEDIATE
TURN = (
    select(STUDY.c.length, func.set_config("idle_in_transaction_session_timeout", bindparam("idle"), True))
    .where(_of_study)
    .with_for_update()
)
NEW_STUDY = text("INSERT INTO study VALUES (:of, 0, 0, 0, '') ON CONFLICT DO NOTHING")
NEW_EPOCH = STUDY.update().where(_of_study).values(epoch=STUDY.c.epoch + 1, owner=bindparam("me"))
NEW_HEAD = STUDY.update().where(_of_study).values(length=bindparam("n"), crc=bindparam("sum"))
ROWS = (
    select(EVENT.c.position, EVENT.c.epoch, EVENT.c.kind, EVENT.c.key, EVENT.c.body, EVENT.c.crc)
    .where(EVENT.c.study == bindparam("of"), EVENT.c.position >= bindparam("first"))
    .where(EVENT.c.position < bindparam("last"))
    .order_by(EVENT.c.position)
)
FINISHED = (  # the index of the keys is enough to count these, so that no event is read
    select(STUDY.c.study, func.count(EVENT.c.key))
    .outerjoin(EVENT, and_(EVENT.c.study == STUDY.c.study, EVENT.c.key.like("finished/%")))
    .group_by(STUDY.c.study)
)
NOTES = select(EVENT.c.study, EVENT.c.body).where(EVENT.c.key.like("note/%")).order_by(EVENT.c.study, EVENT.c.position)
NEW_ROWS = EVENT.insert()


def connect_sqlite(uri: str) -> sqlite3.Connection:
    """Open a SQLite file; tests replace this function to simulate a failing disk."""
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def sqlite_engine(path: Path, read_only: bool) -> Engine:
    """Return an engine whose transactions begin explicitly and are on the disk when they end."""
    uri = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rwc'}"
    if read_only and not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists():
        uri += "&immutable=1"  # read-only media, on which SQLite cannot create its shared memory
    engine = create_engine("sqlite://", creator=lambda: connect_sqlite(uri), poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def _settings(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=FULL")  # NORMAL lost acknowledged events in 136 of 200 power cuts
        cursor.execute("PRAGMA fullfsync=1")  # macOS: otherwise fsync does not wait for the disk
        cursor.execute("PRAGMA trusted_schema=0")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN" if read_only or connection.info.get(READS) else "BEGIN IMMEDIATE")

    return engine


def prepare(connection: Connection, name: str, read_only: bool) -> None:
    """Create the tables of a new journal; refuse databases that are not journals or have a newer format."""
    with connection.begin():
        known = _version(connection, name)
    if read_only:
        if not known:
            raise JournalError(f"{name} is not a bohb journal (it is empty); start the study first, or check the name")
        return
    if not known:
        _create(connection)  # before the write-ahead log is enabled, so that a file without its log is still a journal
    if connection.dialect.name == "sqlite":
        _log_ahead(connection, name)
    _create_leases(connection)


def _version(connection: Connection, name: str) -> bool:
    """Whether the tables exist. Raises JournalError if their format is not ours."""
    tables = set(inspect(connection).get_table_names())
    if FORMAT.name not in tables:
        taken = tables if connection.dialect.name == "sqlite" else tables & {STUDY.name, EVENT.name}
        if taken:
            raise JournalError(
                f"{name} is not a bohb journal (it is a database with the tables {', '.join(sorted(taken)[:5])}); "
                "choose another file or database"
            )
        return False
    versions = [row[0] for row in connection.execute(select(FORMAT.c.version))]
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise JournalDamaged(f"{name} states its format as {versions!r}, which no version of bohb has written")
    if versions[0] > SCHEMA:
        raise JournalError(
            f"{name} was written by a newer bohb (format {versions[0]}, this version reads up to {SCHEMA}); it was "
            "left as it is. Upgrade bohb to use it"
        )
    return True


def _create(connection: Connection) -> None:
    with connection.begin():
        if connection.dialect.name == "postgresql":  # CREATE IF NOT EXISTS alone fails when two runners start together
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY})"))
        if inspect(connection).has_table(FORMAT.name):
            return
        _tables.create_all(connection)
        connection.execute(FORMAT.insert().values(version=SCHEMA))


def _create_leases(connection: Connection) -> None:
    """Create the table of leases."""
    with connection.begin():
        if inspect(connection).has_table(LEASE):
            return
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ADVISORY})"))
        lease_table(connection.dialect.name).create(connection, checkfirst=True)


def _log_ahead(connection: Connection, name: str) -> None:
    """Enable the write-ahead log: readers and the writer do not wait for each other, and a commit is one fsync."""
    cursor = connection.connection.cursor()  # not through SQLAlchemy, which would begin a transaction first
    statement = "PRAGMA journal_mode=WAL"
    try:
        cursor.execute(statement)
        mode = [row[0] for row in cursor.fetchall()]
    except sqlite3.Error as error:
        raise DBAPIError(statement, None, error) from error
    finally:
        cursor.close()
    if mode != ["wal"]:
        raise JournalError(
            f"{name}: the file system has no write-ahead log for SQLite (journal_mode is {mode[0]}); "
            "put the journal on a local disk"
        )
