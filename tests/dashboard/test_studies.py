"""Studies are kept up to date and shared between requests, and readers never block the writer."""

from __future__ import annotations

import ast
import re
import threading
import tracemalloc
from pathlib import Path

import pytest
from benchmarks.speed.resume import build

import bohb
from bohb import BOHB, History
from bohb.dashboard.studies import Studies, UnknownStudy
from bohb.errors import JournalError
from bohb.journal import SqlJournal

TRIALS = 6000
SPACE = {"x": (0.0, 1.0), "c": ["a", "b"]}


def start(path: Path, study: str = "study") -> tuple[SqlJournal, BOHB]:
    journal = SqlJournal(path, study)
    return journal, BOHB(SPACE, min_budget=1, max_budget=9, seed=1, journal=journal)


def advance(optimizer: BOHB, trials: int) -> None:
    for _ in range(trials):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["x"])


def facts(history: History) -> tuple[object, ...]:
    incumbent = None if history.incumbent is None else history.incumbent.trial.number
    rungs = [(bracket.rung, bracket.finished, bracket.done) for bracket in history.brackets]
    observed = {budget: len(d_b) for budget, d_b in history.evidence.observations.items()}
    return history.n_events, list(history.trials), list(history.outcomes), incumbent, rungs, observed


def test_a_view_follows_the_journal_and_an_old_one_stays_as_it_was(tmp_path: Path) -> None:
    journal, optimizer = start(tmp_path / "study.db")
    studies = Studies([tmp_path / "study.db"])
    with journal:
        before = studies.snapshot("study")
        known = facts(before.history)
        for _ in range(4):
            advance(optimizer, 7)
            now = studies.snapshot("study")
            assert facts(now.history) == facts(optimizer.history)
        assert facts(before.history) == known
        assert studies.snapshot("study") is studies.snapshot("study"), "nothing new, nothing folded"
    studies.close()


def test_a_trial_takes_little_memory(tmp_path: Path) -> None:
    """The history of a stored study, as a dashboard keeps it: with 16 hyperparameters, 1.2 kB per trial."""
    build(tmp_path / "study.db", TRIALS, seed=0)
    studies = Studies([tmp_path / "study.db"])
    before = len(studies.snapshot("study", patience=0).history.trials)
    tracemalloc.start()
    try:
        while (view := studies.snapshot("study")).unread:
            pass
        assert len(view.history.trials) == TRIALS
        assert tracemalloc.get_traced_memory()[0] < 1500 * (TRIALS - before)
    finally:
        tracemalloc.stop()
        studies.close()


def test_a_large_study_is_shown_as_far_as_it_has_been_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bohb.dashboard.studies.AT_ONCE", 20)
    journal, optimizer = start(tmp_path / "study.db")
    with journal:
        advance(optimizer, 25)
    studies = Studies([tmp_path / "study.db"])
    total = optimizer.history.n_events
    first = studies.snapshot("study", patience=0)
    assert (first.history.n_events, first.unread) == (20, total - 20)
    while (view := studies.snapshot("study", patience=0)).unread:
        assert view.history.n_events > first.history.n_events
    assert facts(view.history) == facts(optimizer.history)
    assert studies.entry("study", total) is not None
    studies.close()


def test_a_snapshot_shares_nothing_that_changes() -> None:
    optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=1)
    advance(optimizer, 20)
    still = optimizer.history.snapshot()
    known, losses = facts(still), {b: d_b.losses.tolist() for b, d_b in still.evidence.observations.items()}
    alive = still.alive()
    advance(optimizer, 60)
    assert facts(still) == known
    assert still.alive() == alive
    assert {b: d_b.losses.tolist() for b, d_b in still.evidence.observations.items()} == losses


def test_only_the_last_few_studies_are_kept_and_all_can_be_seen(tmp_path: Path) -> None:
    for index in range(5):
        journal, optimizer = start(tmp_path / "study.db", f"study {index}")
        with journal:
            advance(optimizer, index + 1)
    studies = Studies([tmp_path / "study.db"], keep=2)
    for _ in range(2):
        for index in range(5):
            assert len(studies.snapshot(f"study {index}").history.outcomes) == index + 1
            assert studies.n_followed <= 2
    studies.close()


def test_many_readers_at_once_see_sound_histories(tmp_path: Path) -> None:
    writers = [start(tmp_path / "study.db", name) for name in ("a",)]
    studies = Studies([tmp_path / "study.db"], keep=1)
    journal, optimizer = writers[0]
    stop, troubles = threading.Event(), list[BaseException]()

    def read() -> None:
        try:
            while not stop.is_set():
                history = studies.snapshot("a").history
                assert len(history.trials) == len(history.outcomes) + len(history.pending)
        except BaseException as error:  # noqa: BLE001 - the main thread will say
            troubles.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    with journal:
        for thread in threads:
            thread.start()
        advance(optimizer, 60)
        stop.set()
        for thread in threads:
            thread.join()
    studies.close()
    assert troubles == []


def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    journal, optimizer = start(path)
    with journal:
        advance(optimizer, 10)
    studies = Studies([path])
    assert len(studies.snapshot("study").history.outcomes) == 10
    for file in tmp_path.glob("study.db*"):
        file.unlink()
    with pytest.raises(JournalError, match="no journal"):
        studies.snapshot("study")
    journal, optimizer = start(path)
    with journal:
        advance(optimizer, 3)
    assert len(studies.snapshot("study").history.outcomes) == 3
    studies.close()


def test_unknown_names_are_refused_by_name(tmp_path: Path) -> None:
    start(tmp_path / "study.db")[0].close()
    studies = Studies([tmp_path / "study.db"])
    with pytest.raises(UnknownStudy, match="'nobody'"):
        studies.snapshot("nobody")
    studies.close()


def test_only_public_methods_of_other_objects_are_used() -> None:
    package = Path(bohb.__file__).parent
    found = []
    for path in (*(package / "dashboard").rglob("*.py"), *(package / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or not re.match("_(?!_)", node.attr):
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                found.append(f"{path.name}:{node.lineno} {node.attr}")
    assert found == []


def test_entries_of_the_list_are_made_once_per_state(tmp_path: Path) -> None:
    journal, optimizer = start(tmp_path / "study.db")
    studies = Studies([tmp_path / "study.db"])
    with journal:
        length = studies.lengths()["study"]
        entry = studies.entry("study", length)
        assert studies.entry("study", length) is entry
        advance(optimizer, 2)
        length = studies.lengths()["study"]
        assert studies.known_entry("study", length) is None
        now = studies.entry("study", length)
        assert now is not None
        assert now.trials["started"] == 2
    studies.close()


def test_reading_takes_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    start(path)[0].close()
    studies = Studies([path])
    studies.snapshot("study")
    with SqlJournal(path, "study") as writer:  # a second writer would be refused
        advance(BOHB.from_journal(writer), 1)
    assert len(studies.snapshot("study").history.outcomes) == 1
    studies.close()
