"""What an earlier version stored can still be read; what a later one stored is left alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bohb import BOHB, replay
from bohb.core.events import BracketPlanned, Event, ResultLate
from bohb.errors import JournalDamaged, JournalError
from bohb.journal import SqlJournal, import_jsonl, study_names
from bohb.testing import example_events, numbered_events

ASSETS = Path(__file__).parent / "assets"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return Path(shutil.copy(ASSETS / "format-1.db", tmp_path / "study.db"))


def first_events() -> list[Event]:
    """What was stored when format 1 was new: there were no late results and no chosen brackets yet."""
    return [event for event in example_events() if not isinstance(event, ResultLate | BracketPlanned)]


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def test_a_database_of_format_1_has_its_known_contents(stored: Path) -> None:
    assert study_names(stored) == ["second <b>", "study"]
    with SqlJournal(stored, read_only=True) as journal:
        assert list(journal.read()) == first_events()
    with SqlJournal(stored, "second <b>", read_only=True) as journal:
        assert list(journal.read()) == numbered_events(3)


def test_a_database_of_format_1_can_be_continued(stored: Path) -> None:
    with SqlJournal(stored) as journal:
        journal.append(numbered_events(1, first=9), after=len(first_events()))
        assert list(journal.read()) == [*first_events(), *numbered_events(1, first=9)]


def test_a_text_file_of_format_1_has_its_known_contents() -> None:
    assert import_jsonl(ASSETS / "format-1.jsonl").events == first_events()


def test_a_study_of_format_1_makes_its_decisions_again_and_goes_on() -> None:
    """If this fails, everybody who resumes a study gets other trials than before: raise the format and say so."""
    events = import_jsonl(ASSETS / "study-1.jsonl").events
    report = replay(events)
    assert report.differences == ()
    assert report.decisions == 92
    study = BOHB.from_events(events)
    assert {trial.origin for trial in study.history.trials.values()} == {"random", "model", "promoted"}
    assert study.ask().number == 92


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_database_is_refused_untouched(stored: Path, read_only: bool) -> None:
    execute(stored, "UPDATE bohb_format SET version = 2")
    before = stored.read_bytes()
    with pytest.raises(JournalError, match=r"newer bohb .format 2.*Upgrade"):
        SqlJournal(stored, read_only=read_only)
    assert stored.read_bytes() == before
    with pytest.raises(JournalError, match="newer bohb"):  # and it is not left locked
        SqlJournal(stored, read_only=read_only)


def test_a_format_nobody_has_written_is_damage(stored: Path) -> None:
    execute(stored, "UPDATE bohb_format SET version = -3")
    with pytest.raises(JournalDamaged, match="-3"):
        SqlJournal(stored)


def test_an_event_of_a_newer_version_is_named(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(__import__("bohb.core.events", fromlist=["_KINDS"])._KINDS, "given")
    with SqlJournal(stored, read_only=True) as journal, pytest.raises(JournalError, match=r"'given'.*newer version"):
        journal.read()


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_somebody_else_is_refused_untouched(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "photos.db"
    execute(path, "CREATE TABLE photo (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match=r"not a bohb journal.*photo"):
        SqlJournal(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, read_only: bool) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Remember the milk. " * 100)
    before = path.read_bytes()
    with pytest.raises(JournalDamaged, match="not a database"):
        SqlJournal(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_reader_of_an_empty_file_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    with pytest.raises(JournalError, match="holds no journal yet"):
        SqlJournal(tmp_path / "s.db", read_only=True)
    SqlJournal(tmp_path / "s.db").close()
    assert list(SqlJournal(tmp_path / "s.db", read_only=True).read()) == []
