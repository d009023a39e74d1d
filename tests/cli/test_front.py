"""`bohb front`, and `bohb best` within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from bohb import BOHB
from bohb.journal import SqlJournal
from tests.cli.running import answer, call, complaint

RESULTS = ((0.75, 7.0, 1.0), (0.625, 5.0, 2.0), (0.5, 9.0, 1.0), (0.875, 4.0, 4.5))  # accuracy, latency, memory


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("front") / "study.db"
    goals = {"objectives": ["-accuracy", "latency"], "constraints": {"memory": "<= 3"}}
    with SqlJournal(path, "two") as stored:
        optimizer = BOHB({"x": (0.0, 1.0), "y": (0.0, 1.0)}, budgets=[1], seed=1, journal=stored, **goals)  # type: ignore[arg-type]
        for accuracy, latency, memory in RESULTS:
            values = {"accuracy": accuracy, "latency": latency, "memory": memory, "info": {"size": 10 * memory}}
            optimizer.tell(optimizer.ask(), values)
    return path


def test_the_front_is_a_table_that_fits_a_terminal(journal: Path) -> None:
    head, columns, *rows = call("front", journal).stdout.splitlines()
    assert head == "accuracy maximised, latency minimised, memory <= 3"
    assert columns.split() == ["trial", "budget", "accuracy", "latency", "memory", "configuration"]
    assert [row.split()[:5] for row in rows] == [["0", "1", "0.75", "7", "1"], ["1", "1", "0.625", "5", "2"]]
    assert max(map(len, rows)) <= 80


def test_the_front_in_json_has_values_and_configurations(journal: Path) -> None:
    found = answer("front", journal)
    assert [each["trial"] for each in found] == [0, 1]
    assert found[0]["values"] == {"accuracy": 0.75, "latency": 7.0, "memory": 1.0}
    assert set(found[0]["config"]) == {"x", "y"}
    assert [each["trial"] for each in answer("front", journal, "--max", "latency=6")] == [1]


def test_the_front_on_a_smaller_budget_can_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    with SqlJournal(path, "one") as stored:
        optimizer = BOHB({"x": (0.0, 1.0)}, min_budget=1, max_budget=3, seed=1, journal=stored)
        for loss in (0.5, 0.25, 0.75, 0.125):
            optimizer.tell(optimizer.ask(), loss)
    assert [each["trial"] for each in answer("front", path)] == [3]
    assert [each["trial"] for each in answer("front", path, "--budget", "1")] == [1]
    assert answer("front", path, "--budget", "2") == []


def test_the_front_of_several_objectives_on_a_budget(journal: Path) -> None:
    assert answer("front", journal, "--budget", "1") == answer("front", journal)


def test_the_best_within_bounds_is_found_by_values_and_by_info(journal: Path) -> None:
    assert answer("best", journal)["trial"] == 0
    assert answer("best", journal, "--max", "latency=6")["trial"] == 1
    assert answer("best", journal, "--min", "size=15", "--max", "size=25")["trial"] == 1
    assert answer("best", journal, "--min", "accuracy=0.8")["trial"] == 3, "the only one, although it is infeasible"


def test_bounds_that_cannot_be_kept_or_understood_are_refused(journal: Path) -> None:
    assert "no result within these bounds" in complaint("best", journal, "--max", "latency=1")
    assert "no result has a number named 'speed'; there are accuracy, latency" in complaint(
        "best", journal, "--max", "speed=1"
    )
    assert "must be of the form name=number" in complaint("best", journal, "--max", "latency", code=2)
