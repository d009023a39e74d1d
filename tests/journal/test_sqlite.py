"""Journals in SQLite files, and what may be named as a journal."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from bohb.core.encoding import LARGEST_BODY
from bohb.core.events import ConfigGiven
from bohb.errors import Conflict, JournalBusy, JournalDamaged, JournalError
from bohb.journal import Journal, MemoryJournal, SqlJournal, last_good, repair, study_names
from bohb.journal.lock import Entries
from bohb.journal.records import End, checksum
from bohb.testing import JournalContract, example_events, numbered_events
from tests.journal.contract import SqlJournalContract


class TestMemoryJournal(JournalContract):
    @pytest.fixture
    def journal_factory(self) -> Callable[..., Journal]:
        return lambda study="study": MemoryJournal()


class TestSqliteJournal(SqlJournalContract):
    @pytest.fixture
    def target(self, tmp_path: Path) -> str:
        return str(tmp_path / "study.db")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of the example events and 20 more."""
    path = tmp_path / "study.db"
    with SqlJournal(path) as journal:
        journal.append([*example_events(), *numbered_events(20, first=100)], after=0)
    return path


LENGTH = len(example_events()) + 20


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def test_a_missing_directory_a_directory_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="does not exist"):
        SqlJournal(tmp_path / "no" / "study.db")
    with pytest.raises(JournalError, match="it is a directory"):
        SqlJournal(tmp_path)
    with pytest.raises(JournalError, match=r"there is no journal .*study\.db"):
        SqlJournal(tmp_path / "study.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_journal_is_three_files_and_the_log_of_its_reader(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "s.db") as journal:
        journal.append(numbered_events(1), after=0)
    with SqlJournal(tmp_path / "s.db", read_only=True) as reader:
        assert len(reader.read()) == 1
    names = {file.name for file in tmp_path.iterdir()}
    assert names - {"s.db-wal", "s.db-shm"} == {"s.db", "s.db.lock", "s.db.turn"}


def test_a_reader_sees_what_the_writer_has_committed_and_does_not_hold_it_up(path: Path) -> None:
    with SqlJournal(path) as writer, SqlJournal(path, read_only=True) as reader:
        with reader.database.transaction() as unfinished:
            assert unfinished is not None
            writer.append(numbered_events(5, first=500), after=LENGTH)
        assert list(reader.read(LENGTH)) == numbered_events(5, first=500)
        assert list(SqlJournal(path, "another", read_only=True).read()) == []


def test_a_finished_study_on_read_only_media_can_be_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with SqlJournal(path, read_only=True) as journal:
        assert len(journal.read()) == LENGTH
    assert sorted(file.name for file in path.parent.iterdir()) == ["study.db", "study.db.lock", "study.db.turn"]


def test_a_killed_study_on_a_read_only_disk_can_be_read_without_its_shared_memory(path: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with SqlJournal(path) as journal:
        journal.append(numbered_events(1, first=500), after=LENGTH)
        for suffix in ("", "-wal", ".lock"):  # as if it was killed now
            shutil.copy(f"{path}{suffix}", disk)
    for mount in (["mount", "--bind", str(disk), str(disk)], ["mount", "-o", "remount,bind,ro", str(disk)]):
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            pytest.skip("mounting needs root")
    try:
        with SqlJournal(disk / path.name, read_only=True) as journal:
            assert len(journal.read()) == LENGTH + 1
    finally:
        subprocess.run(["umount", disk], check=True)


RECURSIVE = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT"
HOSTILE = {
    "view event": [
        "ALTER TABLE event RENAME TO e",
        f"CREATE VIEW event AS {RECURSIVE} 'study' study, n position, 1 epoch, 'x' kind, n key, '' body, 0 crc FROM r",
    ],
    "view bohb_format": ["DROP TABLE bohb_format", f"CREATE VIEW bohb_format AS {RECURSIVE} n version FROM r"],
    "view study": [
        "ALTER TABLE study RENAME TO s",
        f"CREATE VIEW study AS {RECURSIVE} 'study' study, n length, 0 crc, 0 epoch, '' owner FROM r",
    ],
    "trigger t": ["CREATE TRIGGER t BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END"],
    "column g": ["ALTER TABLE event ADD COLUMN g AS (upper(body))"],
    "index i": ["CREATE INDEX i ON event (upper(body))"],
    "table lease": ["DROP TABLE lease", "CREATE VIRTUAL TABLE lease USING rtree(study, holder, expires)"],
}


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(("what", "statements"), HOSTILE.items(), ids=HOSTILE)
def test_a_file_that_would_run_what_somebody_put_into_it_is_refused_untouched(
    path: Path, what: str, statements: list[str], read_only: bool
) -> None:
    change(path, *statements)
    Path(f"{path}.lock").write_bytes(Entries("x", {"study": End(LENGTH, 1)}).encoded())
    before = path.read_bytes()
    with pytest.raises(JournalError, match=f"not a bohb journal .it has the .*{what}.*never makes"):
        SqlJournal(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_body_that_is_no_text_is_named_although_its_checksum_is_right(path: Path) -> None:
    crc = checksum(0, "blob", 0, 1, "given", "given/0", b"{}")  # type: ignore[arg-type]
    change(
        path,
        f"INSERT INTO event VALUES ('blob', 0, 1, 'given', 'given/0', x'7b7d', {crc})",
        f"INSERT INTO study VALUES ('blob', 1, {crc}, 1, '')",
    )
    with SqlJournal(path, "blob", read_only=True) as journal, pytest.raises(JournalDamaged, match="not JSON"):
        journal.read()


def test_a_closed_journal_says_so_and_closes_twice(path: Path) -> None:
    journal = SqlJournal(path)
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.read()
    SqlJournal(path).close()


def test_a_journal_that_is_dropped_releases_its_lock(path: Path) -> None:
    journal = SqlJournal(path)
    with pytest.raises(JournalBusy):
        repair(path)
    del journal
    gc.collect()
    assert repair(path) == LENGTH


def test_an_oversized_event_is_refused_and_nothing_is_stored(path: Path) -> None:
    with SqlJournal(path) as journal:
        with pytest.raises(JournalError, match=r"given/1.*16,777,"):
            journal.append([ConfigGiven(0, {}), ConfigGiven(1, {"x": "x" * LARGEST_BODY})], after=LENGTH)
        assert len(journal.read()) == LENGTH


DAMAGES = {
    "another body": "UPDATE event SET body = '{}' WHERE position = 7",
    "another kind": "UPDATE event SET kind = 'given' WHERE position = 7",
    "another key": "UPDATE event SET key = 'x' WHERE position = 7",
    "another epoch": "UPDATE event SET epoch = epoch + 1 WHERE position = 7",
    "another checksum": "UPDATE event SET crc = crc + 1 WHERE position = 7",
    "no text": "UPDATE event SET body = CAST(x'ff00' AS TEXT) WHERE position = 7",
    "no number": "UPDATE event SET crc = 'x' WHERE position = 7",
    "a missing row": "DELETE FROM event WHERE position = 7",
    "a missing tail": "DELETE FROM event WHERE position >= 7",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_noticed_named_and_repaired(path: Path, damage: str) -> None:
    change(path, damage)
    with SqlJournal(path, read_only=True) as journal, pytest.raises(JournalDamaged, match="at position 7"):
        journal.read()
    assert last_good(path) == 7
    assert repair(path) == 7
    with SqlJournal(path) as journal:
        assert list(journal.read()) == example_events()[:7]
        journal.append(example_events()[7:], after=7)
        assert list(journal.read()) == example_events()
    with SqlJournal(f"{path}.bak", read_only=True) as journal, pytest.raises(JournalDamaged, match="at position 7"):
        journal.read()


def test_swapped_rows_are_noticed(path: Path) -> None:
    change(
        path,
        "UPDATE event SET position = -1 WHERE position = 15",
        "UPDATE event SET position = 15 WHERE position = 16",
        "UPDATE event SET position = 16 WHERE position = -1",
    )
    with SqlJournal(path, read_only=True) as journal:
        with pytest.raises(JournalDamaged, match="at position 15"):
            journal.read()
        with pytest.raises(JournalDamaged, match="at position 15"):
            journal.read(after=15)
        with pytest.raises(JournalDamaged, match="at position 17"):
            journal.read(after=17)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE study SET length = 20",
        "UPDATE study SET length = 40",
        "UPDATE study SET length = 'x'",
        "UPDATE study SET crc = 1",
        "UPDATE study SET crc = NULL",
        "UPDATE study SET study = 'stuey'",
        "DELETE FROM study",
    ],
)
def test_a_damaged_entry_for_the_end_is_noticed_and_repaired_without_loss(path: Path, damage: str) -> None:
    change(path, "PRAGMA writable_schema = 1", "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '')")
    change(path, damage)
    with SqlJournal(path, read_only=True) as journal, pytest.raises(JournalDamaged, match="damaged"):
        journal.read()
    assert repair(path) == LENGTH
    with SqlJournal(path) as journal:
        assert len(journal.read()) == LENGTH
        journal.append(numbered_events(1, first=500), after=LENGTH)


def test_repair_keeps_other_studies_and_earlier_backups(path: Path) -> None:
    with SqlJournal(path, "other") as journal:
        journal.append(numbered_events(2500), after=0)
    change(path, DAMAGES["another body"] + " AND study = 'study'")
    assert (repair(path, "other"), repair(path), last_good(path, "other")) == (2500, 7, 2500)
    assert Path(f"{path}.bak").exists()
    assert Path(f"{path}.bak2").exists()
    assert study_names(path) == ["other", "study"]


def test_repair_is_refused_while_somebody_writes(path: Path) -> None:
    with SqlJournal(path), pytest.raises(JournalBusy):
        repair(path)


def test_an_append_of_another_key_order_still_counts_as_the_same(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "s.db") as journal:
        journal.append([ConfigGiven(0, {"a": 1, "b": 2})], after=0)
        journal.append([ConfigGiven(0, {"b": 2, "a": 1})], after=0)
        with pytest.raises(Conflict):
            journal.append([ConfigGiven(0, {"b": 1, "a": 2})], after=0)


def test_reading_is_quick_and_appending_in_groups_is_too(tmp_path: Path) -> None:
    """Far below what was measured (60,000 and 17,000 events a second), so that only a blunder fails it."""
    with SqlJournal(tmp_path / "s.db") as journal:
        started = time.process_time()
        for first in range(0, 10_000, 1000):
            journal.append(numbered_events(1000, first), after=first)
        stored = time.process_time()
        assert len(journal.read()) == 10_000
        assert time.process_time() - stored < 2
        assert stored - started < 4
