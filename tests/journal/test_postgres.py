"""The same journal on a real PostgreSQL server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from bohb.errors import JournalDamaged, JournalError, JournalUnavailable
from bohb.journal import SqlJournal, repair
from bohb.testing import numbered_events
from tests.journal.contract import SqlJournalContract
from tests.postgres import emptied, execute, postgres_server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture
def url(server: str) -> str:
    return emptied(server)


class TestPostgresJournal(SqlJournalContract):
    @pytest.fixture
    def target(self, url: str) -> str:
        return url


def test_damage_is_named_and_repair_is_left_to_the_server(url: str) -> None:
    with SqlJournal(url) as journal:
        journal.append(numbered_events(9), after=0)
        execute(url, "UPDATE event SET body = '{}' WHERE position = 4")
        with pytest.raises(JournalDamaged, match="position 4"):
            journal.read()
    with pytest.raises(JournalError, match="backup"):
        repair(url)


def test_a_server_that_lost_events_is_refused_by_those_who_have_seen_them(url: str) -> None:
    with SqlJournal(url) as journal, SqlJournal(url, read_only=True) as reader:
        journal.append(numbered_events(3), after=0)
        backup = "INSERT INTO {0} SELECT * FROM saved_{0}"
        for table in ("event", "study"):
            execute(url, f"CREATE TABLE saved_{table} AS SELECT * FROM {table}")
        journal.append(numbered_events(2, first=3), after=3)
        assert len(reader.read()) == 5
        for table in ("event", "study"):
            execute(url, f"TRUNCATE {table}; {backup.format(table)}")
        for seen in (journal, reader):
            with pytest.raises(JournalError, match="had 5, now there are 3"):
                seen.read(5)
        with SqlJournal(url) as other:
            other.append(numbered_events(3, first=3), after=3)
        with pytest.raises(JournalError, match="had 5, now there are 6"):
            reader.read(5)
        assert list(reader.read()) == numbered_events(6)


def test_a_newer_and_a_foreign_database_are_refused(url: str) -> None:
    execute(url, "CREATE TABLE event (name TEXT)")
    with pytest.raises(JournalError, match=r"not a bohb journal.*event"):
        SqlJournal(url)
    execute(url, "DROP TABLE event")
    SqlJournal(url).close()
    execute(url, "UPDATE bohb_format SET version = 2")
    with pytest.raises(JournalError, match="newer bohb"):
        SqlJournal(url)


def test_other_tables_in_the_database_do_not_disturb(url: str) -> None:
    execute(url, "CREATE TABLE photo (name TEXT)")
    with SqlJournal(url) as journal:
        journal.append(numbered_events(1), after=0)
        assert list(journal.read()) == numbered_events(1)


def test_a_cut_connection_is_named_and_the_next_call_connects_again(url: str) -> None:
    with SqlJournal(url) as journal:
        journal.append(numbered_events(2), after=0)
        others = "backend_type = 'client backend' AND pid <> pg_backend_pid()"
        execute(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        with pytest.raises(JournalError, match=r"connection to .* was lost"):
            journal.append(numbered_events(1, first=2), after=2)
        journal.append(numbered_events(1, first=2), after=2)
        assert list(journal.read()) == numbered_events(3)


def test_an_unreachable_server_is_named_without_the_password(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(JournalError, match=r"me:\*\*\*@127\.0\.0\.1") as refused:
        SqlJournal("postgresql+psycopg://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(refused.value)
    assert time.monotonic() - started < 60


def test_commits_are_synchronous_even_where_the_server_defaults_to_less(url: str) -> None:
    execute(url, "ALTER DATABASE postgres SET synchronous_commit = off")
    with SqlJournal(url) as journal, journal.database.transaction() as connection:
        assert connection.execute("SHOW synchronous_commit") == [("on",)]


def test_a_connection_that_is_stuck_in_a_pipeline_counts_as_lost(url: str) -> None:
    """A connection that is cut within `executemany` may stay in pipeline mode, in which nothing else can be sent."""
    with SqlJournal(url) as journal:
        journal.append(numbered_events(2), after=0)
        with pytest.raises(JournalUnavailable, match=r"connection to .* was lost"):
            _stick(journal)
        journal.append(numbered_events(1, first=2), after=2)
        assert list(journal.read()) == numbered_events(3)


def _stick(journal: SqlJournal) -> None:
    """Send a statement that is never read, in pipeline mode, and then another."""
    with journal.database.transaction() as connection:
        driver = connection._connection
        assert isinstance(driver, psycopg.Connection)
        driver.pgconn.enter_pipeline_mode()
        driver.pgconn.send_query_params(b"SELECT 1", None)
        connection.execute("ROLLBACK")
