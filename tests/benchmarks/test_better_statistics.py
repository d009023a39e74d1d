"""The study's statistics on made-up regrets with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.better import workers
from benchmarks.better.analysis import View, against, by_family, criteria, ranks
from benchmarks.better.protocol import FLOOR, Plan, scale
from benchmarks.better.standings import at_equal_time, by_method_and_family, gaps, leaders, tables
from benchmarks.better.statistics import (
    Estimate,
    average_ranks,
    balanced,
    floored,
    geometric_mean,
    means,
    ratio,
    ratio_of_runs,
    wins,
)
from benchmarks.harness import Point
from benchmarks.runs import Result, Run

RNG = np.random.default_rng


def constant(**by_method: list[float]) -> dict[str, dict[str, np.ndarray]]:
    """Return results of four equal seeds; a list has the regrets of a method on problems p0, p1, …"""
    count = len(next(iter(by_method.values())))
    return {f"p{i}": {name: np.full(4, values[i]) for name, values in by_method.items()} for i in range(count)}


def result(problem: str, method: str, seed: int, regret: float, length: float = 60.0) -> tuple[Run, Result]:
    points = [Point(0.5, 0.5, regret * scale(problem), regret, 81.0)]
    run = Run(problem, method, seed, length, 1, "continue")
    return run, Result({"largest": points}, 1, 0, length, length, 0.0, whole={"largest": points})


def test_a_ratio_is_the_geometric_mean_over_problems() -> None:
    known = means(RNG(0), constant(ours=[1.0, 1.0], other=[2.0, 8.0]), ("ours", "other"))
    assert known is not None
    assert ratio(known, "other", "ours").value == pytest.approx(4.0)
    assert ratio(known, "ours", "other").value == pytest.approx(0.25)


def test_one_bad_run_decides_a_ratio_of_means_but_not_one_of_runs() -> None:
    regrets = {f"p{i}": {"ours": np.ones(10), "other": np.array([91.0] + [1.0] * 9)} for i in range(3)}
    known = means(RNG(0), regrets, ("ours", "other"))
    assert known is not None
    assert ratio(known, "other", "ours").value == pytest.approx(10.0)
    found = ratio_of_runs(RNG(0), regrets, "other", "ours")
    assert found is not None
    assert found.value == pytest.approx(91 ** (1 / 10))
    assert 1.0 <= found.low < found.value < found.high
    assert ratio_of_runs(RNG(0), {"p0": {"ours": np.ones(4)}}, "other", "ours") is None


def test_the_interval_covers_the_problems_that_might_have_been() -> None:
    known = means(RNG(0), constant(ours=[1.0, 1.0], other=[2.0, 8.0]), ("ours", "other"))
    assert known is not None
    found = ratio(known, "other", "ours")
    assert (found.low, found.high) == pytest.approx((2.0, 8.0))  # either problem drawn twice


def test_equal_ratios_on_all_problems_leave_no_uncertainty() -> None:
    known = means(RNG(0), constant(ours=[1.0, 10.0, 0.1], other=[3.0, 30.0, 0.3]), ("ours", "other"))
    assert known is not None
    found = ratio(known, "other", "ours")
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))


def test_seeds_that_differ_widen_the_interval_of_a_single_problem() -> None:
    regrets = {"p": {"ours": np.ones(20), "other": np.repeat([1.0, 3.0], 10)}}
    known = means(RNG(0), regrets, ("ours", "other"))
    assert known is not None
    found = ratio(known, "other", "ours")
    assert found.value == pytest.approx(2.0)
    # A mean of 20 draws from {1, 3} has a standard error of 1/√20 = 0.22.
    assert found.low == pytest.approx(2 - 1.96 / np.sqrt(20), abs=0.1)
    assert found.high == pytest.approx(2 + 1.96 / np.sqrt(20), abs=0.1)


def test_only_problems_that_all_methods_have_are_compared() -> None:
    regrets = constant(ours=[1.0, 1.0], other=[2.0, 8.0])
    del regrets["p1"]["other"]
    known = means(RNG(0), regrets, ("ours", "other"))
    assert known is not None
    assert known.problems == ("p0",)
    assert means(RNG(0), regrets, ("ours", "absent")) is None


def test_ranks_are_averaged_over_problems_and_ties_are_shared() -> None:
    known = means(RNG(0), constant(a=[1.0, 1.0], b=[2.0, 1.0], c=[3.0, 3.0]), ("a", "b", "c"))
    assert known is not None
    found = average_ranks(known)
    assert [found[m].value for m in "abc"] == pytest.approx([1.25, 1.75, 3.0])
    assert (found["c"].low, found["c"].high) == (3.0, 3.0)


def test_a_tie_is_half_a_win() -> None:
    known = means(RNG(0), constant(a=[1.0, 1.0, 5.0, 1.0], b=[2.0, 1.0, 1.0, 2.0]), ("a", "b"))
    assert known is not None
    assert wins(known, "a", "b") == pytest.approx(2.5 / 4)


def test_regrets_below_the_best_known_value_count_as_the_floor() -> None:
    assert floored(np.array([-1.0, 0.0, 5.0]), 1e-4, 10.0).tolist() == [1e-4, 1e-4, 0.5]


def test_families_of_equal_weight() -> None:
    assert balanced([Estimate(2, 1, 3), Estimate(8, 4, 16)]) == pytest.approx(4.0)


def made_up(best: float, bohb: float, other: float, seeds: int) -> dict[Run, Result]:
    return dict(
        result(problem, method, seed, regret)
        for problem in ("hartmann-3", "hartmann-6", "counting_ones-4-4")
        for method, regret in (("best", best), ("bohb", bohb), ("smac", other))
        for seed in range(seeds)
    )


def lines(results: dict[Run, Result], wanted: tuple[str, ...] = ("best", "bohb", "smac")) -> list[str]:
    points, view = (6.0, 18.0, 60.0), View()
    versus, families = against(results, view, points), by_family(results, view, points)
    return criteria(versus, families, ranks(results, view, points, wanted), wanted, points)


def test_the_criteria_are_met_if_they_are() -> None:
    assert [line.split()[0] for line in lines(made_up(0.1, 0.3, 0.2, seeds=20))] == ["met"] * 3


def test_the_criteria_are_not_met_if_they_are_not() -> None:
    found = lines(made_up(0.2, 0.15, 0.1, seeds=20))
    assert all(line.startswith("not met") for line in found)
    assert "1.33 times BOHB's regret" in found[1]


def test_the_criteria_are_inconclusive_with_few_seeds_or_a_missing_rival() -> None:
    assert all(line.startswith("inconclusive") for line in lines(made_up(0.1, 0.3, 0.2, seeds=5)))
    assert lines(made_up(0.1, 0.3, 0.2, seeds=20), ("best", "bohb", "smac", "dehb"))[2].startswith("inconclusive")


def test_a_run_counts_only_where_it_reaches() -> None:
    results = dict([result("hartmann-3", "best", 0, 0.5, 60.0), result("hartmann-3", "best", 1, 0.7, 200.0)])
    assert View().regrets(results, 60.0)["hartmann-3"]["best"].tolist() == pytest.approx([0.5, 0.7])
    assert View().regrets(results, 200.0)["hartmann-3"]["best"].tolist() == pytest.approx([0.7])


def test_without_an_incumbent_a_run_is_as_good_as_a_random_configuration() -> None:
    results = dict([result("hartmann-3", "best", 0, FLOOR / 10)])
    assert View().regrets(results, 0.1)["hartmann-3"]["best"].tolist() == [1.0]
    assert View().regrets(results, 6.0)["hartmann-3"]["best"].tolist() == [FLOOR]


def test_a_mean_regret_is_the_geometric_mean_over_problems() -> None:
    known = means(RNG(0), constant(ours=[0.01, 0.04]), ("ours",))
    assert known is not None
    found = geometric_mean(known, "ours")
    assert (found.value, found.low, found.high) == pytest.approx((0.02, 0.01, 0.04))


def improving(method: str, seconds: float) -> tuple[Run, Result]:
    """Return a run whose regret is a tenth from 40 full evaluations on."""
    unit = scale("hartmann-6")
    points = [Point(0.5, 0.5, unit, 1.0, 81.0), Point(40.0, 40.0, unit / 10, 0.1, 81.0)]
    return Run("hartmann-6", method, 0, 60.0, 1, "continue"), Result({"largest": points}, 2, 0, 60.0, 60.0, seconds)


def test_at_equal_time_a_slow_optimiser_has_had_fewer_evaluations() -> None:
    results = dict([improving("best", 6.0), improving("slow", 60.0)])
    rows = {row["evaluation"]: row for row in at_equal_time(results, 60.0) if row["method"] == "slow"}
    # A second per evaluation and another one for the optimiser: 30 evaluations, so the regret is still 1.
    assert {key: row["ratio"] for key, row in rows.items() if "ratio" in row} == pytest.approx({1: 10, 10: 1, 60: 1})
    assert rows["CPU s"]["seconds"] == pytest.approx(60)


def test_standings_have_every_family_and_all_problems_together() -> None:
    results = dict(
        result(problem, method, seed, regret)
        for problem in ("hartmann-3", "hartmann-6", "misleading_hartmann-2.5-2")
        for method, regret in (("best", 0.01), ("bohb", 0.1))
        for seed in range(3)
    )
    rows = by_method_and_family(results, ("best", "bohb", "absent"), ("best", "bohb"), (60.0,))
    assert {row["family"] for row in rows} == {"all", "hartmann", "misleading_hartmann"}
    assert {(row["method"], round(row["regret"], 9), row["rank"]) for row in rows} == {
        ("best", 0.01, 1.0),
        ("bohb", 0.1, 2.0),
    }
    assert leaders(ranks(results, View(), (60.0,), ("best", "bohb"))) == [
        "first in average rank at 60: BEST preset (1.00 [1.00, 1.00], 2 methods)"
    ]


def test_a_method_without_runs_on_some_problems_is_not_ranked() -> None:
    methods = ("best", "bohb", "slow", "absent")
    results = dict(
        result(problem, method, 0, 0.1)
        for problem in ("hartmann-3", "hartmann-6")
        for method in methods[:3]
        if (problem, method) != ("hartmann-3", "slow")
    )
    found = tables(results, methods, (60.0,))
    assert {row["method"] for row in found["ranked"]} == {"best", "bohb"}
    assert {(row["method"], row["problems"]) for row in found["versus"]} == {("bohb", 2), ("slow", 1)}
    assert gaps(results, methods) == [
        "no runs yet: absent",
        "not ranked: slow has runs on 1 of 2 problems, and its ratios are for these",
    ]


def test_workers_are_compared_with_one_worker_with_the_preset_and_with_the_usual_order() -> None:
    oldest, not_repeated = f"bohb:{workers.OLDEST}", f"best:{workers.NOT_REPEATED}"
    known = {("bohb", 1): 0.2, ("bohb", 4): 0.3, (oldest, 4): 0.24, ("best", 1): 0.1, ("best", 4): 0.1}
    known[not_repeated, 4] = 0.2
    results: dict[Run, Result] = {}
    for (method, count), regret in known.items():
        for seed in range(2):
            run, made = result("hartmann-3", method, seed, regret)
            results[replace(run, workers=count)] = made
    found = workers.tables(results, (60.0,))
    ratios = {name: {(row["method"], row["workers"]): row["ratio"] for row in rows} for name, rows in found.items()}
    assert ratios["one worker"] == pytest.approx({("bohb", 4): 1.5, (oldest, 4): 1.2, ("best", 4): 1.0})
    assert ratios["lead"] == pytest.approx({("bohb", 1): 2.0, ("bohb", 4): 3.0})
    assert ratios["order"] == pytest.approx({(oldest, 4): 0.8})
    assert ratios["repeats"] == pytest.approx({(not_repeated, 4): 2.0})
    assert workers.findings(found, 60.0)[-2:] == [
        "BOHB, oldest bracket first, 4 workers: 0.80 [0.80, 0.80] times the regret of the smallest budget first at 60",
        "BEST preset, no bracket repeated, 4 workers: 2.00 [2.00, 2.00] times the regret with repeated brackets at 60",
    ]


def test_a_higher_floor_of_the_regret_brings_workers_closer_to_one_worker() -> None:
    run, one = result("hartmann-3", "bohb", 0, 1e-4)
    _, two = result("hartmann-3", "bohb", 0, 5e-3)
    found = workers.with_higher_floors({run: one, replace(run, workers=2): two}, 60.0)["one worker, floors"]
    assert {row["floor"]: row["ratio"] for row in found} == pytest.approx({1e-3: 5.0, 1e-2: 1.0})


def test_only_runs_with_several_workers_have_two_orders() -> None:
    runs = workers.worker_runs(("bohb",), ("hartmann-3",), Plan(1), (1, 2))
    assert [(run.method, run.workers) for run in runs] == [("bohb", 1), ("bohb", 2), (f"bohb:{workers.OLDEST}", 2)]
