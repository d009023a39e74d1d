"""Studies as text files, and studies that get another name or are deleted."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from bohb.errors import InvalidArgument, JournalBusy, JournalDamaged, JournalError
from bohb.journal import MemoryJournal, SqlJournal, export_jsonl, import_jsonl, repair, study_names
from bohb.journal.copy import delete_study, rename_study
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


NO_EXPORTS = [
    b"", b"hello\n", b"[]\n", b'{"bohb": "other"}\n', b"\xff\n", b"[" * 100_000,
    b'{"bohb": "journal", "format": 1, "study": "s", "events": 1e999}\n',
]  # fmt: skip


@pytest.mark.parametrize("first", NO_EXPORTS)
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


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A journal of two studies, of which 'a' has files."""
    target = tmp_path / "study.db"
    for name in ("a", "b"):
        with SqlJournal(target, name) as journal:
            journal.append(example_events(), after=0)
    (tmp_path / "study.db.files" / "a").mkdir(parents=True)
    (tmp_path / "study.db.files" / "a" / "log").write_text("x")
    return target


def events(target: Path, study: str) -> list[object]:
    with SqlJournal(target, study, read_only=True) as journal:
        return list(journal.read())


def test_a_renamed_study_keeps_its_events_and_files_and_can_be_continued(target: Path) -> None:
    rename_study(target, "a", "c d")
    assert study_names(target) == ["b", "c d"]
    assert events(target, "c d") == events(target, "b") == example_events()
    assert (target.parent / "study.db.files" / "c%20d" / "log").read_text() == "x"
    with SqlJournal(target, "c d") as journal:
        journal.append(numbered_events(1, first=70), after=len(example_events()))


def test_a_deleted_study_leaves_a_copy_of_its_events_and_its_files(target: Path) -> None:
    copy, files = delete_study(target, "a")
    assert study_names(target) == ["b"]
    assert (files / "log").read_text() == "x"
    found = import_jsonl(copy)
    assert (found.study, found.events) == ("a", example_events())
    with SqlJournal(target, "a") as journal:  # a new study of that name begins empty
        assert list(journal.read()) == []
        journal.append(numbered_events(1), after=0)
    again = delete_study(target, "a")
    assert again[0] != copy


def test_a_study_that_is_running_is_neither_renamed_nor_deleted(target: Path) -> None:
    with SqlJournal(target, "a") as journal:
        journal.renew_lease("machine:1", 60)
        with pytest.raises(JournalBusy, match="being run by machine:1"):
            rename_study(target, "a", "c")
        with pytest.raises(JournalBusy, match="being run by machine:1"):
            delete_study(target, "a")
        rename_study(target, "b", "c")
    assert study_names(target) == ["a", "c"]


def test_a_study_without_events_can_be_renamed(target: Path) -> None:
    with SqlJournal(target, "begun") as journal:
        journal.append([], after=0)
    rename_study(target, "begun", "c")
    assert study_names(target) == ["a", "b", "c"]


def test_files_of_the_user_with_names_like_ours_are_left_alone(target: Path) -> None:
    theirs = [target.with_name(name) for name in ("s.jsonl.part", "study.db.repair")]
    for file in theirs:
        file.write_text("precious")
    with SqlJournal(target, "a", read_only=True) as journal:
        export_jsonl(journal, target.with_name("s.jsonl"))
    before = {file.name for file in target.parent.iterdir()}
    assert repair(target, "a") == len(example_events())
    assert {file.name for file in target.parent.iterdir()} - before <= {"study.db.bak", "study.db.bak-wal"}
    assert [file.read_text() for file in theirs] == ["precious", "precious"]


def test_an_export_that_fails_says_so_and_leaves_nothing(path: Path) -> None:
    (path.parent / "taken").mkdir()
    before = sorted(path.parent.iterdir())
    with pytest.raises(JournalError, match=r"was not exported to .*taken: Is a directory"):
        export_jsonl(MemoryJournal(numbered_events(2)), path.parent / "taken")
    assert sorted(path.parent.iterdir()) == before


def test_a_name_that_is_taken_or_unknown_is_refused_and_nothing_changes(target: Path) -> None:
    with pytest.raises(InvalidArgument, match="already has a study 'b'"):
        rename_study(target, "a", "b")
    before = sorted(target.parent.iterdir())
    for act in (partial(rename_study, target, "x", "y"), partial(delete_study, target, "x")):
        with pytest.raises(InvalidArgument, match="no study 'x'; it has a, b"):
            act()
    assert sorted(target.parent.iterdir()) == before
    assert study_names(target) == ["a", "b"]
    assert events(target, "a") == events(target, "b") == example_events()


def test_a_journal_opens_after_its_last_study_was_renamed_or_deleted_and_the_process_killed(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlJournal(target, "b", read_only=True) as reader:  # keeps the write-ahead log, and so the entry of its end
        reader.read()
        with SqlJournal(target, "a") as journal:
            journal.append(numbered_events(1, first=70), after=len(example_events()))
        rename_study(target, "a", "c")
        delete_study(target, "c")
        SqlJournal(target, "c").close()
    assert events(target, "b") == example_events()
