"""`bohb status`, `best`, `why` and `trials`."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

import bohb
from bohb import BOHB, History, Origin, Outcome, Settings, Status, Trial
from bohb.analysis.trials import columns
from bohb.core.events import Event, SessionStarted, StudyCreated, TrialFinished, TrialStarted
from bohb.core.schedule.brackets import hyperband
from bohb.core.schedule.halving import Halving
from bohb.errors import MissingExtra
from bohb.journal import SqlJournal
from tests.cli.running import CONTROL, answer, call, complaint, process, written
from tests.core.playing import busy_study


def test_rows_show_what_became_of_each_trial() -> None:
    events, statuses = busy_study(), set[str]()
    for stop in range(1, len(events) + 1, 17):
        history = History().extend(events[:stop])
        for number in history.trials:
            row = {name: value(history, number) for name, value in columns(history).items()}
            outcome = history.outcomes.get(number)
            if outcome is None:
                assert row["status"] == ("waiting" if number in history.lost else "running")
            else:
                assert (row["status"], row["loss"], row["error"]) == (outcome.status, outcome.loss, outcome.error)
            assert (row["number"], row["config.a"]) == (number, history.trials[number].config["a"])
            statuses.add(row["status"])
    assert statuses == {"ok", "crashed", "running", "waiting"}


def test_status_says_how_far_a_study_is(finished: Path) -> None:
    data = answer("status", finished)
    failed = data["trials"].pop("failed")
    assert failed > 2
    assert data["trials"] == {"started": 40, "finished": 40, "running": 0, "waiting": 0, "late": 0}
    assert data["study"] == "bowl"
    assert data["runner"] is None
    assert data["incumbent"]["budget"] == 9
    assert data["finished_brackets"] + len(data["open_brackets"]) > 3
    text = call("status", finished).stdout
    assert f"40 finished ({failed} failed), 0 running" in text
    message = "ValueError: too \x1b[31mred"
    assert data["failures"] == [{"status": "crashed", "n": failed, "message": message, "n_message": failed}]
    assert f"failed    {failed} crashed: ValueError: too �[31mred\n" in text
    assert "best" in text


def test_status_names_the_runner_while_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with SqlJournal(path) as journal:
        study = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, journal=journal)
        study.ask_many(2)
        data = answer("status", path)
        assert f"process {os.getpid()} on " in data["runner"]
        assert data["trials"]["running"] == 2
    assert answer("status", path)["runner"] is None
    assert "nothing has succeeded yet" in call("status", path).stdout


def test_best_is_a_configuration_in_the_form_that_is_asked_for(finished: Path) -> None:
    data = answer("best", finished)
    config = data["config"]
    assert json.loads(call("best", finished, "--format", "json").stdout) == config
    assert call("best", finished, "--format", "args").stdout.split()[:2] == ["--act", str(config["act"])]
    assert f"x = {json.dumps(config['x'])}" in call("best", finished, "--format", "toml").stdout
    assert f"loss {data['loss']:.6g} on budget 9" in call("best", finished).stdout
    assert answer("best", finished, "--budget", "1")["budget"] == 1
    assert "no successful trial on budget 5 (it has 1, 3, 9)" in complaint("best", finished, "--budget", "5")


def test_why_explains_a_trial(finished: Path) -> None:
    assert "at random" in call("why", "0", finished).stdout
    assert answer("why", "0", finished)["number"] == 0
    assert "there is no trial 999" in complaint("why", "999", finished)


def test_trials_are_filtered_sorted_and_limited(finished: Path) -> None:
    everything = answer("trials", finished)
    assert [row["number"] for row in everything] == list(range(40))
    failed = answer("trials", finished, "--status", "crashed", "--status", "timeout")
    assert {row["status"] for row in failed} == {"crashed"}
    assert len(failed) > 2
    some = answer("trials", finished, "--budget", "3", "--origin", "promoted", "--sort", "-loss", "--limit", "3")
    assert len(some) == 3
    assert [row["loss"] for row in some] == sorted((row["loss"] for row in some), reverse=True)
    by_x = [row["config"]["x"] for row in answer("trials", finished, "--sort", "x")]
    assert by_x == sorted(by_x)
    losses = [row["loss"] for row in answer("trials", finished, "--sort", "loss")]
    assert losses[-len(failed) - 1] is not None
    assert losses[-len(failed) :] == [None] * len(failed)
    assert "there is no column 'y'" in complaint("trials", finished, "--sort", "y")


def test_a_table_of_csv_is_harmless_to_spreadsheets(finished: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(call("trials", finished, "--format", "csv").stdout)))
    assert len(rows) == 40
    assert {row["config.act"] for row in rows} == {"'=relu", "tanh"}
    assert float(rows[0]["config.x"]) == answer("trials", finished)[0]["config"]["x"]
    written_out = call("trials", finished, "--format", "csv", "--out", tmp_path / "a.csv")
    assert written_out.stdout == ""
    assert "40 trials written" in written_out.stderr
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 41


def test_the_whole_study_determines_the_columns_of_csv(finished: Path) -> None:
    def head(*options: str) -> str:
        return call("trials", finished, "--format", "csv", *options).stdout.splitlines()[0]

    assert head() == head("--limit", "1") == head("--status", "waiting")
    assert head().endswith("config.x,config.act,info.n") or head().endswith("config.act,config.x,info.n")
    rows = list(csv.DictReader(io.StringIO(call("trials", finished, "--format", "csv").stdout)))
    assert {(row["status"], row["info.n"]) for row in rows} == {("ok", "1"), ("crashed", "")}


def test_trials_are_sorted_by_the_names_in_the_head_of_the_table(finished: Path) -> None:
    head = call("trials", finished, "--limit", "1").stdout.splitlines()[0].split()
    assert {"trial", "time", "x"} <= set(head)
    for name in head:
        assert len(answer("trials", finished, "--sort", name)) == 40
    assert [row["number"] for row in answer("trials", finished, "--sort", "-trial")] == [*reversed(range(40))]
    times = [row["seconds"] for row in answer("trials", finished, "--sort", "time")]
    assert times == sorted(times)
    named = answer("trials", finished, "--sort", "config.x"), answer("trials", finished, "--sort", "info.n")
    assert [len(rows) for rows in named] == [40, 40]


def test_parquet_says_what_it_needs(finished: Path, tmp_path: Path) -> None:
    assert "needs --out" in complaint("trials", finished, "--format", "parquet")
    try:
        import pyarrow.parquet as parquet  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        line = complaint("trials", finished, "--format", "parquet", "--out", tmp_path / "a.parquet")
        assert line.endswith("needs the package 'pyarrow': pip install pyarrow")
        assert issubclass(MissingExtra, ImportError)
        return
    call("trials", finished, "--format", "parquet", "--out", tmp_path / "a.parquet")
    assert parquet.read_table(tmp_path / "a.parquet").num_rows == 40


def test_output_in_a_pipe_has_no_control_characters(finished: Path, tmp_path: Path) -> None:
    for arguments in (["status"], ["trials"], ["trials", "--format", "csv"]):
        process(*arguments, finished, cwd=tmp_path)
    assert not CONTROL.search(call("trials", finished, "--status", "crashed").stdout)


def test_a_study_is_found_by_its_file_its_journal_or_its_name(tmp_path: Path) -> None:
    file = written(tmp_path)
    for name in ("a", "b"):
        bohb.minimize(
            lambda t: 0.5,
            {"x": (0.0, 1.0)},
            budgets=[1],
            max_trials=2,
            journal=tmp_path / "study.db",
            study=name,
            progress=False,
        )
    assert "holds 2 studies; choose one with study=… or --study: a, b" in complaint("status", tmp_path / "study.db")
    assert answer("status", tmp_path / "study.db", "--study", "b")["study"] == "b"
    assert "there is no study 'bowl'" in complaint("status", file)
    assert answer("status", file, "--study", "a")["trials"]["finished"] == 2


def test_a_damaged_journal_is_named_not_shown(finished: Path, tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "broken.db"
    path.write_bytes(finished.read_bytes())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE event SET body = body || ' ' WHERE position = 9")
    connection.close()
    assert "damaged at position 9" in complaint("status", path)
    assert "9 events are intact" in call("repair", path, "--dry-run").stdout
    assert answer("repair", path)["events"] == 9
    assert answer("status", path)["trials"]["started"] > 0
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(os.urandom(4096))
    assert "garbage.db" in complaint("status", garbage)


def many_events(n: int) -> list[Event]:
    """A study of n trials, made without a sampler."""
    space = bohb.Space(dict.fromkeys("abcdef", (0.0, 1.0)))
    plan = hyperband((1, 3, 9, 27))
    settings = Settings().to_json()
    events: list[Event] = [
        StudyCreated(space.to_json(), (1, 3, 9, 27), 3, 0, settings, time=1e9),
        SessionStarted(0, "host:1", 1e9),
    ]
    brackets: list[Halving] = []
    for number in range(n):
        if not brackets or brackets[-1].done:
            brackets.append(Halving(plan[len(brackets) % 4]))
        place = len(brackets) - 1
        config = dict.fromkeys("abcdef", number * 37 % 101 / 101)
        trial = Trial(number, config, brackets[-1].budget, number, place, brackets[-1].rung, number, Origin.RANDOM)
        ended = Outcome(
            Status.OK, 1 / (number + 1), info={"accuracy": 0.5}, started=1e9 + number, finished=1e9 + number
        )
        events += [TrialStarted(trial, 1e9 + number, 1.0 * number), TrialFinished(number, ended, 1.0 * number)]
        brackets[-1].start(number)
        brackets[-1].finish(number, 1 / (number + 1))
    return events


def test_status_of_ten_thousand_trials_counts_them_all(tmp_path: Path) -> None:
    """How long it takes is measured by benchmarks/speed/command_line.py."""
    path = tmp_path / "large.db"
    with SqlJournal(path) as journal:
        journal.append(many_events(10_000), 0)
    assert "10000 finished" in process("status", path, cwd=tmp_path).stdout


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_a_study_without_trials_is_an_empty_table(tmp_path: Path, form: str) -> None:
    with SqlJournal(tmp_path / "a.db") as journal:
        BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, journal=journal)
    assert len(call("trials", tmp_path / "a.db", "--format", form).stdout.splitlines()) == 1


def test_the_studies_of_a_journal_are_listed(finished: Path, tmp_path: Path) -> None:
    assert answer("studies", finished) == {"bowl": 40}
    assert call("studies", finished).stdout.splitlines() == ["study  finished", "bowl         40"]
    file = written(tmp_path)
    assert "has no journal yet" in complaint("studies", file)
    call("run", file, "--max-trials", "2", "--quiet", "--workers", "0")
    assert answer("studies", file) == {"bowl": 2}


def test_the_only_journal_of_a_directory_need_not_be_named(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint("status") == (
        "bohb: there is no study.toml here; name a journal such as study.db, or a study file"
    )
    (tmp_path / "one.db").write_bytes(finished.read_bytes())
    assert answer("status")["journal"] == "one.db"
    assert answer("why", "0")["number"] == 0
    (tmp_path / "two.db").write_bytes(finished.read_bytes())
    assert complaint("why", "0").endswith("but several journals; name one of one.db, two.db")


def test_a_study_may_be_named_before_or_after_what_a_command_is_about(finished: Path, tmp_path: Path) -> None:
    assert call("why", finished, "3").stdout == call("why", "3", finished).stdout
    file = written(tmp_path)
    assert complaint("why", file, "3") == complaint("why", "3", file)
    copy = tmp_path / "copy.db"
    copy.write_bytes(finished.read_bytes())
    assert answer("enqueue", copy, json.dumps({"x": 0.5, "act": "tanh"}))["added"]
    assert answer("note", copy, "promising")["text"] == "promising"
    assert answer("note", "see old.db", copy)["text"] == "see old.db"
    assert answer("rename", copy, "basin")["to"] == "basin"
    assert answer("status", copy)["study"] == "basin"
