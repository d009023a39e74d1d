"""Flipped bits and torn files: rows 11 and 12 of faults.md."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bohb.core.events import ConfigGiven, Event
from bohb.errors import JournalDamaged, JournalError
from bohb.journal import MemoryJournal, SqlJournal, export_jsonl, import_jsonl, last_good, repair
from bohb.journal.records import DamagedAt, contents
from bohb.testing import example_events, numbered_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


def stored(path: Path) -> list[Event]:
    with SqlJournal(path, read_only=True) as journal:
        return list(journal.read())


@pytest.fixture
def finished(path: Path) -> Path:
    """A closed journal of 300 events, all in one file."""
    with SqlJournal(path) as journal:
        journal.append(numbered_events(300), after=0)
    return path


def flip(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def test_row_11_every_one_of_300_flipped_bits_in_events_is_detected_and_its_position_named(finished: Path) -> None:
    data = finished.read_bytes()
    rng = random.Random(11)
    for _ in range(300):
        event = rng.choice(numbered_events(300))
        body = data.index(event.key.encode() + contents([event])[0][2].encode())  # the checksum lies behind the body
        place = rng.randrange(body, body + len(event.key) + len(contents([event])[0][2]) + 4)
        finished.write_bytes(flip(data, place, rng.randrange(8)))
        with pytest.raises(DamagedAt) as damage:
            stored(finished)
        assert isinstance(event, ConfigGiven)
        assert damage.value.position == event.index
    assert (last_good(finished), repair(finished)) == (damage.value.position, damage.value.position)
    assert stored(finished) == numbered_events(damage.value.position)


def test_row_11_a_flipped_bit_anywhere_in_the_file_is_harmless_or_an_error(finished: Path) -> None:
    data = finished.read_bytes()
    rng = random.Random(12)
    places = [*range(100), *(rng.randrange(len(data)) for _ in range(400))]
    detected = 0
    for place in places:
        finished.write_bytes(flip(data, place, rng.randrange(8)))
        try:
            assert stored(finished) == numbered_events(300)
        except JournalError:
            detected += 1
    assert 100 < detected < 500


def test_row_12_a_cut_database_is_an_error_never_a_shorter_study(finished: Path) -> None:
    data = finished.read_bytes()
    rng = random.Random(13)
    for cut in [1, 99, 100, 4096, len(data) - 1, *(rng.randrange(1, len(data)) for _ in range(60))]:
        finished.write_bytes(data[:cut])
        with pytest.raises(JournalError):
            stored(finished)
        finished.write_bytes(data[:cut])
        with pytest.raises(JournalError), SqlJournal(finished) as journal:
            journal.read()


def test_row_12_of_a_cut_log_all_that_was_acknowledged_before_the_cut_loads(path: Path, tmp_path: Path) -> None:
    log = Path(f"{path}-wal")
    sizes = [0]
    with SqlJournal(path) as journal:
        for length in range(40):
            journal.append(numbered_events(1, first=length), after=length)
            sizes.append(log.stat().st_size)
        data, written = path.read_bytes(), log.read_bytes()
    torn = tmp_path / "torn.db"
    rng = random.Random(14)
    for cut in [0, len(written), *(rng.randrange(len(written)) for _ in range(60))]:
        torn.write_bytes(data)
        Path(f"{torn}-wal").write_bytes(written[:cut])
        acknowledged = sum(1 for size in sizes[1:] if size <= cut)
        found = stored(torn)
        assert len(found) >= acknowledged
        assert found == numbered_events(len(found))


def test_row_12_a_log_without_its_database_is_named(path: Path) -> None:
    with SqlJournal(path) as journal:
        journal.append(numbered_events(1), after=0)
        log = Path(f"{path}-wal").read_bytes()
    path.write_bytes(b"")
    Path(f"{path}-wal").write_bytes(log)
    with pytest.raises(JournalDamaged, match="empty although its write-ahead log is not"):
        SqlJournal(path)


def test_row_12_a_cut_or_flipped_text_file_gives_the_events_before_and_names_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    events = [*example_events(), *numbered_events(30, first=100)]
    export_jsonl(MemoryJournal(events), path)
    data = path.read_bytes()
    rng = random.Random(15)
    damaged = [data[: rng.randrange(len(data))] for _ in range(100)]
    damaged += [flip(data, rng.randrange(len(data)), rng.randrange(8)) for _ in range(300)]
    for content in damaged:
        path.write_bytes(content)
        try:
            found = import_jsonl(path, damaged=True)
        except JournalError:  # the first line
            assert content.split(b"\n")[0] != data.split(b"\n")[0]
            continue
        assert found.events == events[: len(found.events)]
        assert found.damage is not None or found.events == events
