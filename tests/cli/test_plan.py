"""`bohb plan`: the table, its cost and its time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bohb
from bohb import BOHB
from bohb.core.schedule.brackets import hyperband, plan
from bohb.core.times.forecast import makespan, proportional
from bohb.executors.evaluate import SimulatedExecutor
from bohb.journal import SqlJournal
from tests import objectives
from tests.cli.running import STUDY, answer, call, complaint, written
from tests.objectives import SPACE


def test_the_table_is_that_of_the_library() -> None:
    text = call("plan", "--min", "1", "--max", "27").stdout
    assert text.startswith(str(plan(hyperband((1, 3, 9, 27)))))
    assert "--seconds-per-evaluation" in call("plan", "--min", "1", "--max", "27").stderr


def test_a_study_file_gives_budgets_unit_and_workers_and_options_win(tmp_path: Path) -> None:
    text = STUDY.replace("max = 9", 'max = 9\nunit = "epochs"').replace("seed = 1", "workers = 4")
    file = written(tmp_path, text)
    data = answer("plan", file, "--seconds-per-evaluation", "1h")
    assert (data["unit"], data["max_budget"], data["brackets"], data["workers"]) == ("epochs", 9, 3, 4)
    assert answer("plan", file, "--max", "27", "--brackets", "9")["brackets"] == 9
    assert sum(row["cost"] for row in data["rungs"]) == pytest.approx(data["cost"])
    assert "budgets are in epochs" in call("plan", file).stdout


def test_settings_and_limits_of_the_file_count(tmp_path: Path) -> None:
    file = written(tmp_path, 'preset = "hpbandster"\n' + STUDY + "\n[limits]\nmax_brackets = 2\n")
    data = answer("plan", file)
    assert [row["configurations"] for row in data["rungs"] if row["rung"] == 0] == [9, 3]


@pytest.mark.parametrize(
    ("preset", "budgets", "adapts"),
    [
        ("best", "max = 9", True),
        ("best", "max = 1", False),
        ("paper", "max = 9", False),
        ("hpbandster", "max = 9", False),
    ],
)
def test_a_plan_that_the_study_may_change_says_so(tmp_path: Path, preset: str, budgets: str, adapts: bool) -> None:
    file = written(tmp_path, f'preset = "{preset}"\n' + STUDY.replace("max = 9", budgets))
    assert answer("plan", file)["adapts"] is adapts
    told = "with several workers the first bracket is repeated until one has finished" in call("plan", file).stdout
    assert told is adapts


def test_explicit_budgets_are_taken_as_they_are(tmp_path: Path) -> None:
    file = written(tmp_path, STUDY.replace("min = 1\nmax = 9", "values = [1, 10, 50]"))
    assert {row["budget"] for row in answer("plan", file)["rungs"]} == {1, 10, 50}


def test_the_space_is_shown_as_it_is_understood(tmp_path: Path) -> None:
    file = written(tmp_path, STUDY + "n = {int = [1, 100], log = true}\n")
    assert answer("plan", file)["space"] == ["n  integer   1 to 100, log scale", "x  float     0 to 1"]
    assert "space:\n  n  integer   1 to 100, log scale\n  x  float     0 to 1\n" in call("plan", file).stdout
    assert "space" not in call("plan", "--min", "1", "--max", "9").stdout


def test_budgets_must_come_from_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "give --min and --max" in complaint("plan")
    assert "must not exceed" in complaint("plan", "--min", "3", "--max", "1")
    written(tmp_path)
    assert answer("plan")["max_budget"] == 9


@pytest.mark.parametrize("workers", [1, 2, 5, 100])
@pytest.mark.parametrize("continued", [True, False])
def test_the_time_lies_between_the_work_shared_out_and_the_longest_chain(workers: int, continued: bool) -> None:
    brackets = hyperband((1, 3, 9, 27, 81))
    whole = plan(brackets)
    work = 60 * (whole.continued_cost if continued else whole.cost)
    took = makespan(brackets, workers, proportional(60, 81, continued))
    assert took >= work / workers - 1e-6
    assert took >= 60
    if workers == 1:
        assert took == pytest.approx(work)
    longest = 60 * (81 if continued else 81 + 27 + 9 + 3 + 1) / 81
    assert took <= work / workers + len(brackets) * longest


def test_more_workers_take_no_longer_and_one_bracket_cannot_be_shared_out_for_ever() -> None:
    one = hyperband((1, 3, 9))[:1]
    times = [makespan(one, workers, proportional(9.0, 9, continued=False)) for workers in (1, 2, 3, 9, 50)]
    assert times == [27.0, 20.0, 15.0, 13.0, 13.0]  # 9·1 + 3·3 + 1·9, shared out rung by rung


def test_an_earlier_study_tells_how_long_another_one_takes(tmp_path: Path) -> None:
    executor = SimulatedExecutor(objectives.quadratic, 4, straggling=0.1)
    with SqlJournal(tmp_path / "old.db") as journal:
        optimizer = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal, clock=executor.clock)
        bohb.run(optimizer, executor, bohb.Limits(max_trials=60))
    data = answer("plan", "--min", "1", "--max", "27", "--like", str(tmp_path / "old.db"), "--workers", "2")
    assert data["seconds"] == pytest.approx(plan(hyperband((1, 3, 9, 27))).continued_cost * 27 / 2, rel=0.25)
    assert data["seconds_low"] < data["seconds"] < data["seconds_high"] < 2 * data["seconds_low"]
    text = call("plan", "--min", "1", "--max", "27", "--like", str(tmp_path / "old.db"), "--workers", "2").stdout
    assert re.search(r"this will take \d+ min.* \(.* to .*\) on 2 workers", text)


def test_a_study_without_durations_tells_nothing(tmp_path: Path) -> None:
    with SqlJournal(tmp_path / "old.db") as journal:
        BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal)
    assert "no successful trial with a known duration" in complaint(
        "plan", "--min", "1", "--max", "9", "--like", str(tmp_path / "old.db")
    )
