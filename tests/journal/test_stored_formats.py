"""What an earlier version stored can still be read; what a later one stored is left alone."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from bohb import BEST, BOHB, Origin, Trial, replay, studies
from bohb.analysis import bracket_choices, why
from bohb.core.events import (
    FORMAT,
    BracketPlanned,
    Event,
    NoteAdded,
    ResultLate,
    StudyCreated,
    TrialStarted,
    from_json,
    to_json,
)
from bohb.errors import JournalDamaged, JournalError
from bohb.journal import SqlJournal, import_jsonl, study_names
from bohb.testing import example_events, numbered_events

ASSETS = Path(__file__).parent / "assets"
ROOT = Path(__file__).parents[2]
PROMOTED = Trial(9, {"x": 0.5}, 3.0, 3, 0, 1, 1, Origin.PROMOTED, 1.0)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    return Path(shutil.copy(ASSETS / "format-1.db", tmp_path / "study.db"))


def second_events() -> list[Event]:
    """The example events of format 2 before there were notes."""
    return [event for event in example_events() if not isinstance(event, NoteAdded)]


def first_events() -> list[Event]:
    """The example events of format 1, without late and reused results, chosen brackets and notes."""
    new = {"started/2/1", "finished/2", "forgotten/1"}
    return [e for e in second_events() if not isinstance(e, ResultLate | BracketPlanned) and e.key not in new]


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


def test_a_database_of_format_1_has_its_known_contents(stored: Path) -> None:
    assert study_names(stored) == ["second <b>", "study"]
    assert studies(stored) == {"second <b>": 0, "study": sum(event.kind == "finished" for event in first_events())}
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


def test_a_database_of_format_2_has_its_known_contents(tmp_path: Path) -> None:
    path = shutil.copy(ASSETS / "format-2.db", tmp_path / "study.db")
    with SqlJournal(path, read_only=True) as journal:
        assert list(journal.read()) == second_events()
    assert import_jsonl(ASSETS / "format-2.jsonl").events == second_events()


@pytest.mark.parametrize("number", [1, 2])
def test_a_stored_study_makes_its_decisions_again_and_goes_on(number: int) -> None:
    """If this fails, everybody who resumes a study gets other trials than before: raise the format and say so."""
    events = import_jsonl(ASSETS / f"study-{number}.jsonl").events
    assert isinstance(events[0], StudyCreated)
    assert events[0].format == number
    report = replay(events)
    assert report.differences == ()
    assert report.decisions == 92
    study = BOHB.from_events(events)
    assert {trial.origin for trial in study.history.trials.values()} == {"random", "model", "promoted"}
    assert study.ask().number == 92


def test_promotions_of_format_1_are_read_as_fields_of_the_trial() -> None:
    reason = {"from_trial": 3, "loss": 0.5, "reuses": 7}
    body = {"trial": {**to_json(TrialStarted(PROMOTED))["trial"], "reason": reason}}
    event = from_json("started", body)
    assert isinstance(event, TrialStarted)
    assert (event.trial.from_trial, event.trial.reuses, event.trial.reason) == (3, 7, {"loss": 0.5})
    assert reason == {"from_trial": 3, "loss": 0.5, "reuses": 7}, "what was read is left as it is"


def test_a_reason_given_by_a_sampler_is_kept_whatever_its_names() -> None:
    sampled = replace(PROMOTED, origin=Origin.MODEL, reason={"from_trial": "mine", "reuses": "too"})
    assert from_json("started", to_json(TrialStarted(sampled))) == TrialStarted(sampled)


def test_a_study_of_a_newer_format_is_refused() -> None:
    study = BOHB({"x": (0.0, 1.0)}, budgets=[1], seed=0)
    body = to_json(study.events[0])
    assert body["format"] == FORMAT
    with pytest.raises(JournalError, match=rf"format {FORMAT + 1}.*upgrade"):
        from_json("created", {**body, "format": FORMAT + 1})


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
@pytest.mark.parametrize(
    ("name", "contents", "kind"),
    [
        ("notes.txt", "Remember the milk. " * 100, "a text file"),
        ("short.txt", "Remember the milk.", "a text file"),
        ("accents.txt", "é" * 3000, "a text file"),
        ("study.toml", "[space]\nx = [0, 1]\n", "a TOML file"),
        ("study.jsonl", (ASSETS / "format-1.jsonl").read_text(), "an exported study, which 'bohb import'"),
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


def test_a_study_of_an_earlier_preset_is_read_explained_and_continued() -> None:
    """It was made with `model="mixture"` and `schedule="compare"`, and chose a bracket by a rule that is gone."""
    events = import_jsonl(ROOT / "benchmarks/paper/cifar10_journals/earlier-1.jsonl").events
    study = BOHB.from_events(events)
    assert study.settings == BEST.changed({"random_fraction": 0.3, "schedule": "hyperband"})
    assert [(c.index, c.verdict) for c in bracket_choices(study.history) if not c.published] == [(4, "raised")]
    for number in study.history.trials:
        assert why(study.history, number).sentences
    number = len(study.history.trials)
    assert study.ask().number == number
