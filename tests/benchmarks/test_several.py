"""The study of several objectives: its measures are right, and every method runs on its problems."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from benchmarks.data import directory
from benchmarks.several import analysis, runs
from benchmarks.several.__main__ import planned
from benchmarks.several.runs import Row, Run, execute

ROWS = [
    Row(0.1, 0.1, 0.1, 0.1, 0.1),
    Row(1.1, 1.0, 0.4, 3.0, 3.0),
    Row(2.1, 1.0, 0.3, 9.0, 9.0),
    Row(3.1, 1.0, 0.5, 1.0, 1.0),
]


@pytest.mark.parametrize(("bound", "spent", "error"), [(10, 9, 0.3), (4, 9, 0.4), (1, 9, 0.5), (1, 2, math.inf)])
def test_only_feasible_results_on_the_largest_budget_count(bound: float, spent: float, error: float) -> None:
    assert analysis.best_feasible(ROWS, bound, spent) == error


def test_the_first_trials_do_not_count_as_infeasible() -> None:
    rows = [Row(1, 1, 0.1, 5.0, 5.0)] * analysis.FIRST + [Row(1, 0.1, 0.1, 0.0, value) for value in (1, 2, 3, 4)]
    assert analysis.infeasible_share(rows, 3) == 0.25
    assert analysis.infeasible_share_on_own_budget(rows, 3) == 0.0


def test_the_share_of_the_budget_is_where_the_mean_curve_first_reaches_the_other_end() -> None:
    at = np.array([1.0, 2.0, 3.0, 4.0])
    ours = np.array([[0.0, 0.5, 0.7, 0.9], [0.0, 0.7, 0.9, 0.9]])
    theirs = np.array([[0.0, 0.2, 0.5, 0.6], [0.0, 0.2, 0.5, 0.6]])
    assert analysis.epochs_to_reach(ours, theirs, at) == 0.5
    assert analysis.epochs_to_reach(theirs, ours, at) == 1.0


def test_slow_methods_run_on_few_tasks_and_those_without_constraints_on_none_that_are_bounded() -> None:
    problems = ("lcbench-34539", "lcbench-34539-10%", "lcbench-167161")
    found = planned(problems, ("best", "smac-parego"), 2, ("lcbench-34539",))
    assert [(run.problem, run.seed) for run in found if run.method == "smac-parego"] == [
        ("lcbench-34539", 0),
        ("lcbench-34539", 1),
    ]
    assert len([run for run in found if run.method == "best"]) == 6


def test_a_page_from_stored_runs_mixes_no_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "CACHE", tmp_path)
    entries = [
        {"key": json.dumps(["lcbench-34539", method, seed, 60.0, decisive]), "rows": [[1.0, 1.0, seed, 2.0, 2.0]]}
        for method, seed, decisive in (("best", 0, "old"), ("best", 1, "old"), ("best", 0, "new"), ("random", 1, "x"))
    ]
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, entries)) + "\n")
    found, decided = runs.last_stored(planned(("lcbench-34539",), ("best", "random", "optuna-motpe"), 2, ()))
    assert decided == {"best": "new", "random": "x"}
    assert [(run.method, run.seed) for run in found] == [("best", 0), ("random", 1)]


@pytest.mark.skipif(not (directory() / "README.md").exists(), reason="the benchmark data is not here")
@pytest.mark.parametrize("problem", ["lcbench-167161", "rbv2_ranger-3-10%"])
@pytest.mark.parametrize("method", ["bohb", "random"])
def test_a_run_spends_its_budget_and_repeats_itself(problem: str, method: str) -> None:
    run = Run(problem, method, 0, 6.0)
    rows = execute(run)
    assert rows == execute(run)
    assert 4 < rows[-1].spent <= 6.0 + 1e-9
    assert max(row.budget for row in rows) == 1.0
