"""Renaming and deleting studies."""

from __future__ import annotations

from pathlib import Path

import pytest

from bohb.errors import InvalidArgument, JournalBusy
from bohb.journal import SqlJournal, import_jsonl, study_names
from bohb.journal.copy import delete_study, rename_study
from bohb.testing import example_events, numbered_events


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of two studies, of which 'a' has files."""
    path = tmp_path / "study.db"
    for name in ("a", "b"):
        with SqlJournal(path, name) as journal:
            journal.append(example_events(), after=0)
    (tmp_path / "study.db.files" / "a").mkdir(parents=True)
    (tmp_path / "study.db.files" / "a" / "log").write_text("x")
    return path


def events(path: Path, study: str) -> list[object]:
    with SqlJournal(path, study, read_only=True) as journal:
        return list(journal.read())


def test_a_renamed_study_keeps_its_events_and_files_and_can_be_continued(path: Path) -> None:
    rename_study(path, "a", "c d")
    assert study_names(path) == ["b", "c d"]
    assert events(path, "c d") == events(path, "b") == example_events()
    assert (path.parent / "study.db.files" / "c%20d" / "log").read_text() == "x"
    with SqlJournal(path, "c d") as journal:
        journal.append(numbered_events(1, first=70), after=len(example_events()))


def test_a_deleted_study_leaves_a_copy_of_its_events_and_its_files(path: Path) -> None:
    copy, files = delete_study(path, "a")
    assert study_names(path) == ["b"]
    assert (files / "log").read_text() == "x"
    found = import_jsonl(copy)
    assert (found.study, found.events) == ("a", example_events())
    with SqlJournal(path, "a") as journal:  # a new study of that name begins empty
        assert list(journal.read()) == []
        journal.append(numbered_events(1), after=0)
    again = delete_study(path, "a")
    assert again[0] != copy


def test_a_study_that_is_running_is_neither_renamed_nor_deleted(path: Path) -> None:
    with SqlJournal(path, "a") as journal:
        journal.renew_lease("machine:1", 60)
        with pytest.raises(JournalBusy, match="being run by machine:1"):
            rename_study(path, "a", "c")
        with pytest.raises(JournalBusy, match="being run by machine:1"):
            delete_study(path, "a")
        rename_study(path, "b", "c")
    assert study_names(path) == ["a", "c"]


def test_a_name_that_is_taken_or_unknown_is_refused_and_nothing_changes(path: Path) -> None:
    with pytest.raises(InvalidArgument, match="already has a study 'b'"):
        rename_study(path, "a", "b")
    with pytest.raises(InvalidArgument, match="no study 'x'; it has a, b"):
        rename_study(path, "x", "y")
    assert events(path, "a") == events(path, "b") == example_events()


def test_a_journal_opens_after_its_last_study_was_renamed_or_deleted_and_the_process_killed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqlJournal(path, "b", read_only=True) as reader:  # keeps the write-ahead log, and so the entry of its end
        reader.read()
        with SqlJournal(path, "a") as journal:
            journal.append(numbered_events(1, first=70), after=len(example_events()))
        rename_study(path, "a", "c")
        delete_study(path, "c")
        SqlJournal(path, "c").close()
    assert events(path, "b") == example_events()
