"""The study of the BEST preset: its protocol, its misleading budgets, and small versions of its parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.better import one_budget, rival_runs
from benchmarks.better import study as better
from benchmarks.better.analysis import View
from benchmarks.better.protocol import (
    ALL_RIVALS,
    CHOOSING,
    CONFIRMING,
    FAMILIES,
    LENGTH,
    LONG,
    RIVAL_PROBLEMS,
    RIVALS,
    Plan,
    confirming,
    family,
    main_runs,
)
from benchmarks.better.variants import ABLATION, Variant, misspecified
from benchmarks.data import directory
from benchmarks.harness import simulate
from benchmarks.methods import connect, misspecified_budgets
from benchmarks.problem import Evaluation
from benchmarks.problems import problem_of
from benchmarks.rivals import RIVALS as ADAPTERS
from benchmarks.runs import Result, Run, execute

from tests.sizes import long

needs_data = pytest.mark.skipif(not (directory() / "README.md").exists(), reason="the benchmark data is not here")


def test_every_problem_is_either_for_tuning_or_held_out() -> None:
    every = [problem for problems in FAMILIES.values() for problem in problems]
    assert sorted([*CHOOSING, *CONFIRMING]) == sorted(every)
    assert (len(CHOOSING), len(CONFIRMING)) == (16, 25)
    assert "counting_ones-4-4" in CHOOSING
    assert "hartmann-6" in CONFIRMING


def test_long_runs_serve_all_points_and_rivals_have_none() -> None:
    runs = main_runs(("best", "smac"), ("hartmann-6",), Plan(4, long=2, slow=1))
    assert [(run.method, run.seed, run.full_evaluations) for run in runs] == [
        ("best", 0, LONG),
        ("smac", 0, LENGTH),
        ("best", 1, LONG),
        ("best", 2, LENGTH),
        ("best", 3, LENGTH),
    ]


def test_the_problems_of_all_rivals_are_a_third_of_the_held_out_ones_and_both_misleading_functions() -> None:
    third = {name for problems in FAMILIES.values() for name in confirming(problems)[::3]}
    assert set(RIVAL_PROBLEMS) - third == {"misleading_hartmann-3.5-4"}
    assert third - set(RIVAL_PROBLEMS) == {"counting_ones-8-8"}
    assert len(RIVAL_PROBLEMS) == 12
    assert set(map(family, RIVAL_PROBLEMS)) == set(FAMILIES) - {"counting_ones"}


def test_all_rivals_have_an_adapter_and_include_those_of_the_main_part() -> None:
    assert set(RIVALS) < set(ALL_RIVALS) <= set(ADAPTERS)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (None, (9, 27, 81, 243, 729)),
        ("low", (1, 3, 9, 27, 81, 243, 729)),
        ("high", (243, 729)),
        ("short", (9, 27, 81, 243)),
    ],
)
def test_wrong_budgets(case: str | None, expected: tuple[float, ...]) -> None:
    assert misspecified_budgets(case, (9.0, 27.0, 81.0, 243.0, 729.0)) == pytest.approx(expected)


def test_an_unknown_way_to_be_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="misspecified='far'"):
        misspecified_budgets("far", (1.0, 3.0))


def test_a_maximum_that_was_too_small_is_raised_in_the_middle() -> None:
    problem = problem_of("hartmann-3")
    method = connect("bohb:misspecified='short'", problem, seed=0, full_evaluations=20)
    records = simulate(method, problem, seed=0, full_evaluations=20, accounting="continue")
    largest = [record.spent / 81 for record in records if record.budget == 81]
    before = max(record.spent / 81 for record in records if record.spent / 81 < largest[0])
    assert before >= 10
    assert largest[0] < 14
    assert len({record.number for record in records}) == len(records)


def test_one_run_gives_both_accountings() -> None:
    both = execute(Run("hartmann-3", "bohb", 3, 12, 1, "continue"))
    whole = execute(Run("hartmann-3", "bohb", 3, 12, 1, "whole"))
    for protocol, points in whole.trajectories.items():
        told = [point for point in both.whole[protocol] if point.spent <= 12]
        assert [point.spent for point in told] == pytest.approx([point.spent for point in points])
        assert [point.regret for point in told] == [point.regret for point in points]
    assert whole.whole == {}
    assert Result.from_json(json.loads(json.dumps(both.to_json()))) == both


@needs_data
def test_less_than_half_an_interval_of_steps_is_no_training() -> None:
    name = "taskset-imdb_patch32_GRU128_bs128"
    trained, untrained = problem_of(name), problem_of(f"untrained-{name}")
    config = {p.name: (p.low * p.high) ** 0.5 for p in trained.parameters if p.low and p.high}
    assert untrained.evaluate(config, 50.0, 0) == trained.evaluate(config, 50.0, 0)
    assert untrained.evaluate(config, 0.7, 0) == Evaluation(trained.evaluate(config, 1.0, 0).loss, 0.7)
    assert untrained.evaluate(config, 0.2, 0).loss != trained.evaluate(config, 1.0, 0).loss
    assert untrained.regret(config, 0.0) == trained.regret(config, 0.0)


def test_budgets_that_are_too_small_are_tried_only_where_they_mean_something() -> None:
    pairs = misspecified(("bohb",), CONFIRMING, Plan(1))
    low = {pair.wrong.problem.partition("-")[0] for pair in pairs if pair.case == "low"}
    assert low == {"counting_ones", "hartmann", "untrained"}
    assert all(pair.right.problem in CONFIRMING for pair in pairs)


@pytest.mark.parametrize("variant", ABLATION, ids=lambda variant: variant.settings)
def test_every_variant_is_one_of_the_packages_settings(variant: Variant) -> None:
    assert connect(variant.method, problem_of("hartmann-3"), seed=0, full_evaluations=1).ask()


def run(part: str, out: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict[str, object]:
    # Children have one BLAS thread each, without which small matrices take many times longer on a busy machine.
    places = ["--out", str(out), "--cache", str(out / "cache")]
    arguments = ["--part", part, "--smoke", "--jobs", "2", *places, *options]
    monkeypatch.setattr(sys, "argv", ["better", *arguments])
    better.main()
    name = "better" if part == "main" else f"better_{part}"
    body: dict[str, object] = json.loads((out / f"{name}.json").read_text())
    assert (out / f"{name}.md").read_text().startswith("# ")
    return body


def test_the_main_part_writes_its_files_and_then_again_from_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = run("main", tmp_path, monkeypatch)
    for name in ("better.png", "better_ranks.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 6
    assert all(line.startswith("inconclusive") for line in printed)  # two seeds are too few
    again = run("main", tmp_path, monkeypatch, "--kept", "--methods", "best,bohb,hyperband")
    assert again["continue"] == body["continue"]
    assert "8 of 12 runs; missing: {'hyperband': 4}" in capsys.readouterr().err


@long
@pytest.mark.parametrize("part", ["parallel", "misspecified", "ablation", "rivals"])
def test_the_other_parts_write_their_files(part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = run(part, tmp_path, monkeypatch)
    rows = body[{"misspecified": "cases", "ablation": "variants"}.get(part, "versus")]
    assert isinstance(rows, list)
    assert all(row["ratio"] > 0 for row in rows)


def test_the_part_about_workers_compares_their_numbers_and_both_orders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = run("workers", tmp_path, monkeypatch, "--jobs", "1", "--problems", "hartmann-3")
    oldest = "start_order='oldest_bracket'"
    expected = {
        "one worker": [("best", 2), (f"best:{oldest}", 2), ("bohb", 2), (f"bohb:{oldest}", 2)],
        "lead": [("bohb", 1), ("bohb", 2)],
        "order": [(f"best:{oldest}", 2), (f"bohb:{oldest}", 2)],
    }
    for table, variants in expected.items():
        rows = body[table]
        assert isinstance(rows, list)
        assert [(row["method"], row["workers"]) for row in rows if row["point"] == 2.0] == variants
    assert "seeds per problem: BEST preset 2, " in (tmp_path / "better_workers.md").read_text()


def test_runs_of_rivals_are_kept_and_read_again_while_their_problem_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [Run("hartmann-3", "uniform-halving", seed, 2.0, 1, "continue") for seed in range(2)]
    made = {run: execute(run) for run in runs}
    path = tmp_path / "kept.jsonl.xz"
    rival_runs.keep(made, {"uniform-halving": "1.0"}, path)
    versions, read = rival_runs.read(["hartmann-3"], path)
    assert versions == {"uniform-halving": "1.0"}
    assert rival_runs.read(["hartmann-6"], path) == ({}, {})
    assert set(read) == set(runs)
    for accounting in ("continue", "whole"):
        then, now = (View(accounting).regrets(results, 1.0) for results in (read, made))
        np.testing.assert_allclose(
            then["hartmann-3"]["uniform-halving"], now["hartmann-3"]["uniform-halving"], rtol=1e-4
        )
    monkeypatch.setattr(rival_runs, "problem_digest", lambda _: "changed since")
    assert rival_runs.read(["hartmann-3"], path) == ({}, {})


@needs_data
def test_the_kept_runs_of_rivals_belong_to_the_present_problems() -> None:
    versions, results = rival_runs.read()
    assert set(versions) <= set(ALL_RIVALS)
    assert {run.problem for run in results} == set(RIVAL_PROBLEMS)


def test_the_part_about_one_budget_compares_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = run("one_budget", tmp_path, monkeypatch, "--jobs", "1", "--problems", "hartmann-3,hartmann-6")
    rows = body["rows"]
    assert isinstance(rows, list)
    ours = set(one_budget.NAMES) - set(one_budget.RIVALS)
    assert {(row["half"], row["method"]) for row in rows if "of runs" in row} == {
        (half, method) for half in ("choosing", "confirming") for method in ours
    }
