"""The rows of the fault matrix that concern the journal, each injected for real. Row numbers are those of faults.md."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bohb.core.events import ConfigGiven, Event
from bohb.errors import Conflict, JournalBusy, JournalError
from bohb.journal import SqlJournal, repair
from bohb.journal.lock import WriterLock
from bohb.testing import numbered_events
from tests.faults.failing_disk import failing_disk
from tests.faults.journal_processes import (
    commit_and_pause,
    hold_and_fork,
    start,
    write_for_ever,
    write_groups_of_three,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def stored(path: Path) -> list[Event]:
    with SqlJournal(path, read_only=True) as journal:
        return list(journal.read())


def test_row_1_nothing_acknowledged_is_lost_when_the_writer_is_killed_30_times(path: Path) -> None:
    rng = random.Random(1)
    acknowledged = 0
    for attempt in range(30):
        process, pipe = start(write_for_ever, path, attempt)
        for _ in range(rng.randint(0, 8)):
            acknowledged = pipe.recv()
        time.sleep(rng.random() * 0.01)  # anywhere in the next commits, or while the file is being created
        process.kill()
        process.join()
        while pipe.poll():
            try:
                acknowledged = pipe.recv()
            except EOFError:
                break
        pipe.close()
        with SqlJournal(path) as journal:  # a dead writer holds no lock
            found = list(journal.read())
        assert len(found) >= acknowledged
        assert found == numbered_events(len(found))
    assert acknowledged > 50


def test_row_2_an_append_killed_between_commit_and_answer_is_stored_once(path: Path) -> None:
    with SqlJournal(path) as journal:
        journal.append(numbered_events(4), after=0)
    process, pipe = start(commit_and_pause, path, 4, 3)
    assert pipe.recv() == "committed"
    process.kill()
    process.join()
    with SqlJournal(path) as journal:
        for events in (numbered_events(3, first=4), [ConfigGiven(4, {"x": "another"})]):
            with pytest.raises(Conflict):  # it was stored by the other process, which this one cannot speak for
                journal.append(events, after=4)
        assert list(journal.read()) == numbered_events(7)
        journal.append(numbered_events(1, first=7), after=7)


def test_row_3_nothing_acknowledged_is_lost_in_200_power_cuts(tmp_path: Path) -> None:
    cut_during = {"creation": 0, "use": 0}
    for attempt in range(200):
        rng = random.Random(attempt)
        before, after = tmp_path / f"{attempt}", tmp_path / f"{attempt}-after"
        before.mkdir()
        after.mkdir()
        with failing_disk() as broken:
            broken.steps_left = rng.randint(1, 400)
            acknowledged = _append_until_it_fails(before / "study.db", rng)
            broken.cut_power(rng, after)
            _leave_lock_file(before, after, rng)
        with SqlJournal(after / "study.db") as journal:
            found = list(journal.read())
            assert len(found) >= acknowledged
            assert found == numbered_events(len(found))
            journal.append(numbered_events(1, first=len(found)), after=len(found))
        cut_during["use" if acknowledged else "creation"] += 1
        shutil.rmtree(before)
        shutil.rmtree(after)
    assert min(cut_during.values()) > 5


def _leave_lock_file(before: Path, after: Path, rng: random.Random) -> None:
    """Leave the lock file as it was last written, or in part, or not at all: it is never synced."""
    contents = (before / "study.db.lock").read_bytes()
    (after / "study.db.lock").write_bytes(contents[: rng.choice([len(contents)] * 3 + [0, rng.randrange(200)])])


def _append_until_it_fails(path: Path, rng: random.Random) -> int:
    length = 0
    try:
        with SqlJournal(path) as journal:
            if journal.database._connection is not None and rng.random() < 0.8:  # so that the log is often written back
                journal.database._connection.cursor().execute(f"PRAGMA wal_autocheckpoint={rng.randint(3, 20)}")
            while True:
                group = numbered_events(rng.choice([1, 1, 1, 10]), first=length)
                journal.append(group, after=length)
                length += len(group)
    except JournalError:
        return length


@pytest.fixture(params=["tmpfs", "shim"])
def small_disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A directory with little space, and what makes some."""
    if request.param == "shim":
        with failing_disk() as shim:
            shim.space_left = 300_000
            yield tmp_path, lambda: setattr(shim, "space_left", 300_000)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root; the same is tested with a shim")
    try:
        ballast = tmp_path / "ballast"
        ballast.write_bytes(bytes(250_000))
        yield tmp_path, ballast.unlink
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_row_9_a_full_disk_is_named_loses_nothing_and_work_goes_on_when_there_is_space(
    small_disk: tuple[Path, Callable[[], object]],
) -> None:
    directory, make_space = small_disk
    with SqlJournal(directory / "study.db") as journal:
        length = _fill(journal, 0)
        assert list(journal.read()) == numbered_events(length)
        with pytest.raises(JournalError, match=r"study\.db is full.*Free some space"):
            journal.append(numbered_events(16, first=length), after=length)
        make_space()
        journal.append(numbered_events(16, first=length), after=length)
        assert list(journal.read()) == numbered_events(length + 16)
        length = _fill(journal, length + 16)
        assert list(journal.read()) == numbered_events(length)


def _fill(journal: SqlJournal, length: int) -> int:
    while length < 100_000:
        try:
            journal.append(numbered_events(16, first=length), after=length)
        except JournalError:  # which one, the test asks next
            return length
        length += 16
    raise AssertionError("the disk never filled up")


def test_row_10_after_a_failed_fsync_nothing_is_acknowledged_until_the_journal_is_reopened(path: Path) -> None:
    with failing_disk() as broken, SqlJournal(path) as journal:
        journal.append(numbered_events(4), after=0)
        broken.fail_sync = True
        with pytest.raises(JournalError, match=r"SQLITE_IOERR_FSYNC.*open the journal again"):
            journal.append(numbered_events(2, first=4), after=4)
        broken.fail_sync = False
        for _ in range(2):
            with pytest.raises(JournalError, match="nothing more is written"):
                journal.append(numbered_events(2, first=4), after=4)
        assert list(journal.read()) == numbered_events(4)
    with SqlJournal(path) as journal:
        assert list(journal.read()) == numbered_events(4)
        journal.append(numbered_events(2, first=4), after=4)
        assert list(journal.read()) == numbered_events(6)


def test_row_22_writers_of_one_file_get_conflicts_and_nobody_replaces_it_under_them(path: Path) -> None:
    process, pipe = start(write_groups_of_three, path, 1)
    assert pipe.recv() == "done"
    with SqlJournal(path) as second:
        with pytest.raises(Conflict, match="has 3 events, not 0"):
            second.append(numbered_events(1, first=50), after=0)
        second.append(numbered_events(1, first=3), after=3)
    with pytest.raises(JournalBusy, match=rf"process \d+ on {os.uname().nodename} since \d{{4}}-\d\d-\d\d"):
        repair(path)
    process.kill()
    process.join()
    assert repair(path) == 4


def test_row_22_writers_whose_lock_file_was_removed_lose_nothing(path: Path) -> None:
    with SqlJournal(path) as old:
        old.append(numbered_events(2), after=0)
        Path(f"{path}.lock").unlink()
        with SqlJournal(path) as new:
            new.append(numbered_events(1, first=2), after=2)
            with pytest.raises(Conflict):
                old.append(numbered_events(1, first=9), after=2)
            old.append(numbered_events(1, first=3), after=3)
            assert list(old.read()) == list(new.read()) == numbered_events(4)


def test_row_22_a_forked_child_neither_keeps_the_lock_nor_uses_the_journal(path: Path) -> None:
    process, pipe = start(hold_and_fork, path)
    child = pipe.recv()
    with pytest.raises(JournalBusy):
        repair(path)
    process.kill()
    process.join()
    os.kill(child, 0)  # it is still there
    repair(path)
    with SqlJournal(path) as journal:
        journal.database._pid += 1
        with pytest.raises(JournalError, match="open it again here"):
            journal.read()
        journal.database._pid -= 1
    pipe.close()


def test_row_22_a_process_of_an_older_version_is_named_as_the_only_writer(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bohb.journal.lock.OPEN_SECONDS", 0.05)
    lock = WriterLock(path, exclusive=True)  # as every writer had it before files could be shared
    with pytest.raises(JournalBusy, match=f"in use by process {os.getpid()} on"):
        SqlJournal(path)
    lock.release()
    SqlJournal(path).close()


def test_row_22_a_link_at_the_place_of_the_lock_is_not_followed(path: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Path(f"{path}.lock").symlink_to(victim)
    with pytest.raises(JournalError, match="cannot create the lock file"):
        SqlJournal(path)
    assert victim.read_text() == "precious"


def test_a_reader_sees_whole_appends_only_while_another_process_writes(path: Path) -> None:
    SqlJournal(path).close()
    process, pipe = start(write_groups_of_three, path, 100)
    seen: list[Event] = []
    looks = 0
    with SqlJournal(path, read_only=True) as reader:
        while len(seen) < 300:
            seen += reader.read(len(seen))
            assert len(seen) % 3 == 0
            looks += 1
    assert seen == numbered_events(300)
    assert looks > 3
    pipe.recv()
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()


def test_a_database_locked_by_another_program_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bohb.journal.sqlite.BUSY_SECONDS", 0.01)
    with SqlJournal(path) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalError, match="locked by another program"):
            journal.append(numbered_events(1), after=0)
        other.close()
        journal.append(numbered_events(1), after=0)


def test_a_database_that_became_read_only_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SqlJournal(path) as journal:
        assert journal.database._connection is not None
        journal.database._connection.cursor().execute("PRAGMA query_only=1")
        with pytest.raises(JournalError, match=r"cannot be opened or written.*permissions"):
            journal.append(numbered_events(1), after=0)
        journal.database._connection.cursor().execute("PRAGMA query_only=0")
        journal.append(numbered_events(1), after=0)
