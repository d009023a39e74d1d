"""Rows 11 and 12 of faults.md on a live file: a writer was killed, and its write-ahead log is damaged, cut or gone."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from bohb import load, studies
from bohb.cli.app import app
from bohb.core.events import Event
from bohb.errors import JournalDamaged, JournalError
from bohb.journal import SqlJournal, last_good, only_study, repair, study_names
from bohb.journal.lock import SIZE, entries
from bohb.journal.records import DamagedAt
from bohb.testing import numbered_events
from tests.faults.journal_processes import start, write_groups_of_three
from tests.sizes import size

GROUPS = 20


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a journal whose writer was killed: all 60 events are in the log."""
    directory = tmp_path_factory.mktemp("killed")
    process, pipe = start(write_groups_of_three, directory / "study.db", GROUPS)
    assert pipe.recv() == "done"
    process.kill()
    process.join()
    return directory


@pytest.fixture
def path(killed: Path, tmp_path: Path) -> Path:
    for file in killed.iterdir():
        shutil.copy(file, tmp_path)
    return tmp_path / "study.db"


def log_of(path: Path) -> Path:
    return Path(f"{path}-wal")


def log_bytes(path: Path) -> bytes:
    return log_of(path).read_bytes() if log_of(path).exists() else b""


def stored(path: Path, study: str = "study") -> list[Event]:
    with SqlJournal(path, study, read_only=True) as journal:
        return list(journal.read())


def accepted(path: Path) -> int:
    """How many events a reader, a writer and the command line read; -1 if all of them refuse the journal by name."""
    log = log_bytes(path)
    try:
        found = stored(path)
    except DamagedAt:
        for _ in range(2):  # a refused writer changes nothing, so the next one is refused too
            with pytest.raises(DamagedAt, match="stored events are lost, because the write-ahead log"):
                SqlJournal(path)
        assert log_bytes(path) == log, "the log is left for recovery"
        return -1
    assert found == numbered_events(len(found))
    with SqlJournal(path) as journal:
        assert list(journal.read()) == found
    return len(found)


def variants(killed: Path, tmp_path: Path, logs: list[bytes]) -> Iterator[Path]:
    """The killed journal, each time with another log."""
    for number, log in enumerate(logs):
        copy = tmp_path / f"{number}"
        shutil.copytree(killed, copy)
        log_of(copy / "study.db").write_bytes(log)
        yield copy / "study.db"
        shutil.rmtree(copy)


def test_row_11_a_flipped_bit_in_a_live_log_never_shortens_the_study_silently(killed: Path, tmp_path: Path) -> None:
    rng, log = random.Random(1), log_of(killed / "study.db").read_bytes()
    flipped = []
    for _ in range(size(40, 300)):
        place = rng.randrange(len(log))
        flipped.append(log[:place] + bytes([log[place] ^ 1 << rng.randrange(8)]) + log[place + 1 :])
    found = [accepted(path) for path in variants(killed, tmp_path, flipped)]
    assert set(found) <= {-1, 3 * GROUPS}
    assert found.count(-1) > 0.9 * len(found)


def test_row_12_a_cut_live_log_never_shortens_the_study_silently(killed: Path, tmp_path: Path) -> None:
    rng, log = random.Random(2), log_of(killed / "study.db").read_bytes()
    cuts = [0, 32, len(log) - 1, *(rng.randrange(len(log)) for _ in range(size(20, 300)))]
    assert {accepted(path) for path in variants(killed, tmp_path, [log[:cut] for cut in cuts])} == {-1}


def test_row_12_a_deleted_log_is_named_with_the_number_of_lost_events(path: Path) -> None:
    log_of(path).unlink()
    Path(f"{path}-shm").unlink()
    assert accepted(path) == -1
    with pytest.raises(DamagedAt, match=r"60 of 60 stored events are lost.*'bohb repair'") as refused:
        SqlJournal(path)
    assert refused.value.position == 0


def test_a_log_that_is_not_damaged_is_accepted(path: Path) -> None:
    assert accepted(path) == 3 * GROUPS


def test_repair_accepts_the_loss(path: Path) -> None:
    log_of(path).write_bytes(log_of(path).read_bytes()[:-5000])
    kept = last_good(path)
    assert 0 < kept < 3 * GROUPS
    damaged = log_of(path).read_bytes()
    result = CliRunner().invoke(app, ["repair", str(path)])
    assert result.exit_code == 0, result.output
    assert f"{kept} events kept" in result.output
    assert accepted(path) == kept
    assert Path(f"{path}.bak-wal").read_bytes() == damaged


def test_a_failed_repair_does_not_accept_the_loss(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log_of(path).unlink()
    monkeypatch.setattr("bohb.journal.copy.os.replace", lambda *_: os.stat("/missing"))
    with pytest.raises(JournalError, match=r"was not repaired .*; what it was is in .*study\.db\.bak"):
        repair(path)
    monkeypatch.undo()
    with pytest.raises(JournalDamaged):
        SqlJournal(path)


def test_the_loss_of_one_study_stops_the_writers_of_all_and_the_readers_of_that_one(path: Path) -> None:
    with SqlJournal(path, "other") as other:
        other.append(numbered_events(2), after=0)
    with SqlJournal(path) as journal:
        journal.append(numbered_events(3, first=60), after=60)
        copy = [(Path(f"{path}{suffix}"), Path(f"{path}{suffix}").read_bytes()) for suffix in ("", ".lock")]
    for file, contents in copy:
        file.write_bytes(contents)
    with pytest.raises(DamagedAt, match=r"study 'study' is damaged at position 60: .* 3 of 63"):
        SqlJournal(path, "other")
    with SqlJournal(path, "other", read_only=True) as reader:
        assert list(reader.read()) == numbered_events(2)


@pytest.mark.parametrize("others", [1, 30])
def test_row_12_readers_and_lists_of_every_study_of_a_file_notice_a_cut_log(path: Path, others: int) -> None:
    """Not only those of the study that was appended to last, whose entry the lock file has as well."""
    with SqlJournal(path) as journal:
        journal.append(numbered_events(3, first=60), after=60)
        for number in range(others):
            with SqlJournal(path, f"other {number}") as other:
                other.append(numbered_events(2), after=0)
        copy = [(Path(f"{path}{suffix}"), Path(f"{path}{suffix}").read_bytes()) for suffix in ("", "-wal", ".lock")]
    for file, contents in copy:  # as if it were killed
        file.write_bytes(contents)
    Path(f"{path}-shm").unlink(missing_ok=True)
    assert stored(path) == numbered_events(63)
    log_of(path).write_bytes(b"")
    for study, lost in {"study": 63, **{f"other {number}": 2 for number in range(others)}}.items():
        with pytest.raises(DamagedAt, match=rf"'{study}' is damaged .* {lost} of {lost} stored events are lost"):
            stored(path, study)
    for listed in (studies, study_names, only_study, load):  # which would be shorter, or "holds no study yet"
        with pytest.raises(DamagedAt, match="stored events are lost"):
            listed(path)
    for command in ("studies", "status", "compare"):
        told = CliRunner().invoke(app, [command, str(path)])
        assert "stored events are lost" in " ".join(told.output.split())
    with pytest.raises(DamagedAt, match="stored events are lost"):
        SqlJournal(path, "a new one")


def test_of_more_studies_than_a_lock_file_can_name_the_latest_are_kept(path: Path) -> None:
    with SqlJournal(path) as journal:
        for number in range(90):
            with SqlJournal(path, f"{number:03d}" + "\U0001f600" * 197) as other:
                other.append(numbered_events(1), after=0)
        kept = list(entries(path).ends)
        journal.append(numbered_events(1, first=60), after=60)
    assert len(Path(f"{path}.lock").read_bytes()) <= SIZE
    assert 48 < len(kept) < 90  # although each name has 791 bytes
    assert [name[:3] for name in kept] == [f"{number:03d}" for number in range(90 - len(kept), 90)]


def test_a_closed_journal_needs_no_entry_so_that_a_backup_can_take_its_place(path: Path, tmp_path: Path) -> None:
    assert entries(path).ends
    with SqlJournal(path) as journal:
        assert len(journal.read()) == 60
    assert not entries(path).ends
    backup = shutil.copy(path, tmp_path / "backup")
    with SqlJournal(path) as journal:
        journal.append(numbered_events(1, first=60), after=60)
    shutil.copy(backup, path)
    assert accepted(path) == 60


def test_the_entry_stays_while_a_reader_keeps_the_log_open(path: Path) -> None:
    with SqlJournal(path, read_only=True) as reader:
        reader.read()
        SqlJournal(path).close()
        assert log_of(path).stat().st_size > 0
    log_of(path).write_bytes(log_of(path).read_bytes()[:-5000])
    assert entries(path).ends["study"].length == 60


def test_a_journal_copied_without_its_lock_file_is_accepted_and_says_so(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(stored(path)) == 60
    assert caplog.text == ""
    Path(f"{path}.lock").unlink()
    for _ in range(2):
        assert len(stored(path)) == 60
    assert caplog.text.count("was copied without study.db.lock") == 1
    with caplog.at_level(logging.INFO, "bohb"), SqlJournal(path) as journal:
        assert len(journal.read()) == 60
    assert "no study.db.lock says how many events study.db-wal has" in caplog.text


@pytest.mark.parametrize(
    "contents", [b"", b"{", b"\0" * SIZE, b'{"ends": [["study", [99, 1]]], "check": 2}', b'{"holder": "x"}']
)
def test_an_entry_that_is_not_whole_is_ignored(path: Path, contents: bytes) -> None:
    Path(f"{path}.lock").write_bytes(contents)
    assert accepted(path) == 60


def test_a_fifo_at_the_place_of_the_lock_file_stops_nobody(path: Path) -> None:
    Path(f"{path}.lock").unlink()
    os.mkfifo(f"{path}.lock")
    assert len(stored(path)) == 60
    with pytest.raises(JournalError, match="cannot write the lock file"):
        SqlJournal(path)


def test_after_deleting_a_journal_a_new_study_starts(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()
    with SqlJournal(path) as journal:
        assert stored(path) == []
        journal.append(numbered_events(2), after=0)
    assert stored(path) == numbered_events(2)
