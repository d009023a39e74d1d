"""Studies as text files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bohb.errors import JournalDamaged, JournalError
from bohb.journal import MemoryJournal, SqlJournal, export_jsonl, import_jsonl
from bohb.testing import example_events, numbered_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "study.jsonl"
    assert export_jsonl(MemoryJournal(example_events()), path) == len(example_events())
    return path


def test_an_exported_study_comes_back_equal(path: Path) -> None:
    found = import_jsonl(path)
    assert (found.study, found.events, found.damage) == ("study", example_events(), None)


def test_every_line_is_plain_json_and_no_partial_file_stays(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"bohb": "journal", "format": 1, "study": "study", "events": len(example_events())}
    assert [line["key"] for line in lines[1:]] == [event.key for event in example_events()]
    assert [file.name for file in path.parent.iterdir()] == ["study.jsonl"]


def test_the_name_of_a_study_goes_along(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "s.db", "<b> ∀") as journal:
        journal.append(numbered_events(3), after=0)
        export_jsonl(journal, tmp_path / "s.jsonl")
    assert import_jsonl(tmp_path / "s.jsonl").study == "<b> ∀"


def test_an_empty_study_can_be_exported(tmp_path: Path) -> None:
    export_jsonl(MemoryJournal(), tmp_path / "s.jsonl")
    assert import_jsonl(tmp_path / "s.jsonl").events == []


@pytest.mark.parametrize("cut", ["between two lines", "inside a line"])
def test_of_a_torn_file_the_events_before_load_and_the_damage_is_named(path: Path, cut: str) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + (b"" if cut == "between two lines" else lines[5][:-9]))
    with pytest.raises(JournalDamaged, match="at position 4"):
        import_jsonl(path)
    found = import_jsonl(path, damaged=True)
    assert found.events == example_events()[:4]
    assert "at position 4" in str(found.damage)


@pytest.mark.parametrize("first", [b"", b"hello\n", b"[]\n", b'{"bohb": "other"}\n', b"\xff\n", b"[" * 100_000])
def test_a_file_that_is_no_export_is_refused(path: Path, first: bytes) -> None:
    path.write_bytes(first)
    with pytest.raises(JournalDamaged, match=r"study\.jsonl: the first line"):
        import_jsonl(path)


def test_a_newer_format_and_a_missing_file_are_refused(path: Path) -> None:
    path.write_text(path.read_text().replace('"format": 1', '"format": 2', 1))
    with pytest.raises(JournalError, match=r"format 2.*upgrade"):
        import_jsonl(path)
    with pytest.raises(JournalError, match="No such file"):
        import_jsonl(path.with_name("no"))
