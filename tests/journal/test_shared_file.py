"""Several writers of one SQLite file: conflicts, turns, leases, and what was acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bohb import BOHB, History
from bohb.errors import Conflict, JournalDamaged
from bohb.journal import SqlJournal
from bohb.journal.lock import WriterLock, entries
from bohb.journal.records import End
from bohb.testing import numbered_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def begun(journal: SqlJournal, runner: str) -> BOHB:
    """A runner that holds a lease and has asked for one trial."""
    optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=9, seed=0, journal=journal)
    journal.renew_lease(runner, 3600)
    optimizer.session.begin(runner)
    return optimizer


def test_a_runner_that_is_suspended_in_its_turn_holds_up_nobody_for_longer_than_its_lease(path: Path) -> None:
    with SqlJournal(path) as stuck, SqlJournal(path) as other:
        with stuck.turn():
            for position in range(3):
                with other.turn(0.05):
                    other.append(numbered_events(1, first=position), after=position)
            with pytest.raises(Conflict):
                stuck.append(numbered_events(1, first=5), after=0)
        assert list(stuck.read()) == numbered_events(3)


def test_a_lease_holds_while_any_writer_lives_and_has_not_expired(path: Path) -> None:
    with SqlJournal(path) as first, SqlJournal(path) as second:
        trial = begun(first, "one").ask()
        other = begun(second, "two")
        other.session.take_over()
        assert trial.number in other.history.running
        with second.database.transaction() as connection:
            connection.execute("UPDATE lease SET expires = 0 WHERE holder = 'one'")
        assert second.live_leases() == {"two"}
        other.session.take_over()
        assert trial.number in other.history.lost
        assert other.ask().number == trial.number


def test_leases_are_over_when_all_writers_have_ended_whatever_time_is_left(path: Path) -> None:
    with SqlJournal(path) as killed:
        trial = begun(killed, "one").ask()  # and its lease is not ended
    with SqlJournal(path) as next_one:
        assert next_one.live_leases() == set()
        optimizer = begun(next_one, "two")
        assert trial.number in optimizer.history.lost
        assert next_one.live_leases() == {"two"}


def test_failures_of_a_broken_session_whose_runner_was_killed_are_forgotten(path: Path) -> None:
    with SqlJournal(path) as killed:
        optimizer = begun(killed, "one")
        for _ in range(3):
            optimizer.tell(optimizer.ask(), ValueError("broken"))
        optimizer.ask()
    with SqlJournal(path) as next_one:
        assert begun(next_one, "two").history.forgotten == {0, 1, 2}


def test_the_acknowledged_end_never_moves_back(path: Path) -> None:
    SqlJournal(path).close()
    slow = WriterLock(path)
    slow.share()
    fast = WriterLock(path)
    fast.acknowledge("study", End(10, 7))
    slow.acknowledge("study", End(9, 5))  # it was suspended between its commit and this
    assert entries(path).ends == {"study": End(10, 7)}
    slow.release()
    fast.release()


@pytest.mark.parametrize("last", [0, 1])
def test_events_of_either_writer_that_a_damaged_log_has_lost_are_missed(path: Path, tmp_path: Path, last: int) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    with SqlJournal(path) as first, SqlJournal(path) as second:
        writers = [first, second]
        for position in range(6):
            writers[(position + last + 1) % 2].append(numbered_events(1, first=position), after=position)
        for suffix in ("", "-wal", ".lock"):
            shutil.copy(f"{path}{suffix}", copy)  # as if both were killed now
    log = copy / "study.db-wal"
    log.write_bytes(log.read_bytes()[:-100])
    with pytest.raises(JournalDamaged, match="1 of 6 stored events are lost"):
        SqlJournal(copy / "study.db")


def test_studies_of_one_file_are_run_by_different_processes(path: Path) -> None:
    with SqlJournal(path, "a") as first, SqlJournal(path, "b") as second:
        one, two = begun(first, "one"), begun(second, "two")
        one.tell(one.ask(), 1.0)
        two.tell(two.ask(), 2.0)
        one.tell(one.ask(), 3.0)
        assert [len(History().extend(journal.read()).outcomes) for journal in (first, second)] == [2, 1]
        assert first.live_leases() == {"one"}


def test_a_new_connection_does_not_miss_what_others_appended_meanwhile(path: Path) -> None:
    with SqlJournal(path) as first, SqlJournal(path) as second:
        for position in range(0, 6, 2):
            first.append(numbered_events(1, first=position), after=position)
            assert list(first.read(position + 1)) == []
            first.database._disconnect()  # as after an error
            second.append(numbered_events(1, first=position + 1), after=position + 1)
            assert list(first.read(position + 1)) == numbered_events(1, first=position + 1)
