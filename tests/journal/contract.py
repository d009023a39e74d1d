"""What the journal does on a SQLite file and on a PostgreSQL server alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bohb.errors import InvalidArgument, JournalError
from bohb.journal import Journal, SqlJournal, import_jsonl, study_names
from bohb.journal.copy import delete_study, rename_study
from bohb.testing import SharedJournalContract, numbered_events
from tests.faults.journal_processes import race, start


class SqlJournalContract(SharedJournalContract):
    """Subclasses define a fixture `target`: the path or URL of a new database."""

    @pytest.fixture
    def journal_factory(self, target: str) -> Iterator[Callable[..., Journal]]:
        opened: list[SqlJournal] = []

        def make(study: str = "study") -> Journal:
            opened.append(SqlJournal(target, study))
            return opened[-1]

        yield make
        for journal in opened:
            journal.close()

    def test_processes_that_create_it_together_and_decide_alike_append_each_event_once(self, target: str) -> None:
        racers = [start(race, target, writer, 40) for writer in range(4)]
        for _, pipe in racers:
            assert pipe.recv() == "ready"  # all have created the tables, or found them
        for _, pipe in racers:
            pipe.send("go")
        won = [pipe.recv() for _, pipe in racers]
        for process, _ in racers:
            process.join()
        assert sorted(number for numbers in won for number in numbers) == list(range(40))
        with SqlJournal(target, read_only=True) as journal:
            assert list(journal.read()) == numbered_events(40)

    def test_a_reader_sees_only_what_is_committed_and_cannot_append(self, target: str) -> None:
        with SqlJournal(target) as writer, SqlJournal(target, read_only=True) as reader:
            with writer.database.transaction() as unfinished:
                unfinished.execute("INSERT INTO study VALUES ('study', 1, 0, 0, '')")
                assert list(reader.read()) == []
                unfinished.execute("DELETE FROM study")
            with pytest.raises(JournalError, match="read_only"):
                reader.append(numbered_events(1), after=0)

    def test_what_one_call_reads_belongs_to_one_state(self, target: str) -> None:
        with SqlJournal(target) as writer, SqlJournal(target, read_only=True) as reader:
            writer.append(numbered_events(2), after=0)
            with reader.database.transaction(reads=True) as database:
                assert database.execute("SELECT count(*) FROM event") == [(2,)]
                writer.append(numbered_events(5, first=2), after=2)
                assert database.execute("SELECT count(*) FROM event") == [(2,)]
            assert list(reader.read(2)) == numbered_events(5, first=2)

    def test_a_transaction_that_fails_changes_nothing(self, target: str) -> None:
        with SqlJournal(target) as journal:
            journal.append(numbered_events(2), after=0)
            with pytest.raises(JournalError, match="nowhere"):
                self._delete_all_and_fail(journal)
            assert list(journal.read()) == numbered_events(2)

    @staticmethod
    def _delete_all_and_fail(journal: SqlJournal) -> None:
        with journal.database.transaction() as database:
            database.execute("DELETE FROM event")
            database.execute("DELETE FROM nowhere")

    def test_studies_are_listed_by_name(self, target: str) -> None:
        for name in ("b", "<script>", "a"):
            with SqlJournal(target, name) as journal:
                journal.append(numbered_events(1), after=0)
        assert study_names(target) == ["<script>", "a", "b"]

    def test_a_study_is_renamed_or_deleted_only_if_there_is_one(
        self, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)  # a server's studies are exported to where we are
        with SqlJournal(target, "a") as journal:
            journal.append(numbered_events(3), after=0)
        with pytest.raises(InvalidArgument, match="no study 'b'; it has a"):
            rename_study(target, "b", "c")
        with pytest.raises(InvalidArgument, match="no study 'b'; it has a"):
            delete_study(target, "b")
        assert study_names(target) == ["a"]
        rename_study(target, "a", "b")
        with SqlJournal(target, "b") as journal:
            assert list(journal.read()) == numbered_events(3)
            journal.append(numbered_events(1, first=3), after=3)
        [copy] = delete_study(target, "b")
        assert import_jsonl(copy).events == numbered_events(4)
        assert study_names(target) == []
