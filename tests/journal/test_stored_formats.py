"""What was stored can be read and continued; what has another format is refused and left alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bohb import BOHB, Origin, Trial, replay, studies
from bohb.core.encoding import from_json, to_json
from bohb.core.events import FORMAT, StudyCreated, TrialStarted
from bohb.errors import JournalDamaged, JournalError
from bohb.journal import SqlJournal, import_jsonl, study_names
from bohb.testing import example_events, numbered_events

ASSETS = Path(__file__).parent / "assets"
PROMOTED = Trial(9, {"x": 0.5}, 3.0, 3, 0, 1, 1, Origin.PROMOTED, 1.0)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return Path(shutil.copy(ASSETS / "events.db", tmp_path / "study.db"))


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def test_a_stored_database_has_its_known_contents(stored: Path) -> None:
    assert study_names(stored) == ["second <b>", "study"]
    assert studies(stored) == {"second <b>": 0, "study": sum(event.kind == "finished" for event in example_events())}
    with SqlJournal(stored, read_only=True) as journal:
        assert list(journal.read()) == example_events()
    with SqlJournal(stored, "second <b>", read_only=True) as journal:
        assert list(journal.read()) == numbered_events(3)


def test_a_stored_database_can_be_continued(stored: Path) -> None:
    with SqlJournal(stored) as journal:
        journal.append(numbered_events(1, first=9), after=len(example_events()))
        assert list(journal.read()) == [*example_events(), *numbered_events(1, first=9)]


def test_a_stored_text_file_has_its_known_contents() -> None:
    assert import_jsonl(ASSETS / "events.jsonl").events == example_events()


def test_a_stored_study_makes_its_decisions_again_and_goes_on() -> None:
    """If this fails, everybody who resumes a study gets other trials than before: raise the format and say so."""
    events = import_jsonl(ASSETS / "study.jsonl").events
    assert isinstance(events[0], StudyCreated)
    assert events[0].format == FORMAT
    report = replay(events)
    assert report.differences == ()
    assert report.decisions == 92
    study = BOHB.from_events(events)
    assert {trial.origin for trial in study.history.trials.values()} == {"random", "model", "promoted"}
    assert study.ask().number == 92


def test_a_reason_given_by_a_sampler_is_kept_whatever_its_names() -> None:
    sampled = replace(PROMOTED, origin=Origin.MODEL, reason={"from_trial": "mine", "reuses": "too"})
    assert from_json("started", to_json(TrialStarted(sampled))) == TrialStarted(sampled)


@pytest.mark.parametrize("other", [0, FORMAT + 1])
def test_a_study_of_another_format_is_refused_by_name(other: int) -> None:
    study = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=0)
    body = to_json(study.events[0])
    assert from_json("created", {**body, "format": FORMAT}) == study.events[0]
    with pytest.raises(JournalError, match=rf"format {other}, .*reads format {FORMAT} only; .*version that wrote it"):
        from_json("created", {**body, "format": other})


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
    monkeypatch.delitem(__import__("bohb.core.encoding", fromlist=["_KINDS"])._KINDS, "given")
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
@pytest.mark.parametrize(
    ("name", "contents", "kind"),
    [
        ("notes.txt", "Remember the milk. " * 100, "a text file"),
        ("short.txt", "Remember the milk.", "a text file"),
        ("accents.txt", "é" * 3000, "a text file"),
        ("study.toml", "[space]\nx = [0, 1]\n", "a TOML file"),
        ("study.jsonl", (ASSETS / "events.jsonl").read_text(), "an exported study, which 'bohb import'"),
        ("model.bin", "\0\1" * 1000, "not an SQLite database"),
    ],
)
def test_a_file_that_is_no_journal_is_named_and_left_as_it_is(
    tmp_path: Path, name: str, contents: str, kind: str, read_only: bool
) -> None:
    path = tmp_path / name
    path.write_text(contents, encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="is not a bohb journal") as raised:
        SqlJournal(path, read_only=read_only)
    assert f"(it is {kind}" in str(raised.value)
    assert not isinstance(raised.value, JournalDamaged)
    assert path.read_bytes() == before


def test_a_directory_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"is not a bohb journal \(it is a directory\)"):
        SqlJournal(tmp_path)


def test_a_journal_whose_beginning_is_lost_is_damaged_and_not_something_else(stored: Path) -> None:
    SqlJournal(stored).close()
    stored.write_bytes(b"\0" * 512 + stored.read_bytes()[512:])
    with pytest.raises(JournalDamaged, match="is damaged"):
        SqlJournal(stored)


def test_a_reader_of_an_empty_file_is_told_so_and_a_writer_begins_a_journal(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch()
    with pytest.raises(JournalError, match=r"is not a bohb journal \(it is empty\)"):
        SqlJournal(tmp_path / "s.db", read_only=True)
    SqlJournal(tmp_path / "s.db").close()
    assert list(SqlJournal(tmp_path / "s.db", read_only=True).read()) == []
