"""Curves are means with standard errors, and verdicts depend on the result files only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.curves import first_at_most, mean_and_error, regret_at
from benchmarks.harness import Point
from benchmarks.paper.claims.evidence import FAILS, HOLDS, NOT_MEASURED, PARTLY, UNDECIDED, Evidence, Finding, all_of
from benchmarks.paper.claims.other_experiments import all_claims
from benchmarks.paper.claims.page import one_number, page
from benchmarks.paper.claims.why import tally
from benchmarks.paper.compare import effect, holm
from benchmarks.results import write_json


def points(*rows: tuple[float, float]) -> list[Point]:
    return [Point(x, x, regret, regret, 1.0) for x, regret in rows]


def test_a_curve_is_the_last_incumbent_and_nothing_before_the_first() -> None:
    found = regret_at(points((1, 0.5), (4, 0.2)), np.array([0.5, 1.0, 3.9, 4.0, 9.0]), "spent")
    assert found == pytest.approx([np.nan, 0.5, 0.5, 0.2, 0.2], nan_ok=True)


def test_a_mean_has_its_standard_error_and_waits_for_every_run() -> None:
    runs = [points((1, 1.0)), points((2, 3.0))]
    mean, error = mean_and_error(runs, np.array([1.0, 2.0]), "spent")
    assert mean == pytest.approx([np.nan, 2.0], nan_ok=True)
    assert error[1] == pytest.approx(1.0)  # a standard deviation of √2 over √2
    assert first_at_most(runs, 2.0, "spent") == 2.0
    assert first_at_most(runs, 1.9, "spent") is None


def body(**methods: list[float]) -> dict[str, Any]:
    """Write a result file with the final regrets of each method; curves go from 1 to them at x = 2."""
    entries = {
        name: {
            "runs": len(finals),
            "mean": [1.0, float(np.mean(finals)), float(np.mean(finals))],
            "error": [0.0, 0.0, 0.0],
            "final": {str(i): final for i, final in enumerate(finals)},
            "at": 100.0,
            "bohb_reaches": 2.0,
        }
        for name, finals in methods.items()
    }
    return {"source": {"command": "made up"}, "problems": {"p": {"x": [1.0, 2.0, 100.0], "methods": entries}}}


def evidence(tmp_path: Path, **methods: list[float]) -> Evidence:
    write_json(tmp_path / "e.json", body(**methods))
    return Evidence(tmp_path)


def test_lower_means_by_more_than_two_standard_errors(tmp_path: Path) -> None:
    on = evidence(tmp_path, a=[0.1, 0.11], b=[0.5, 0.52], c=[0.1, 0.9]).on("e", "p")
    assert on.lower("a", "b").verdict == HOLDS
    assert on.lower("b", "a").verdict == FAILS
    assert on.lower("b", "c").verdict == UNDECIDED
    assert on.no_higher("b", "c").verdict == HOLDS
    assert on.no_higher("b", "a").verdict == FAILS
    assert on.lower("a", "d").verdict == NOT_MEASURED
    assert on.lower("a", "b", x=1.0).verdict == UNDECIDED  # both are at 1 there


def test_a_single_run_decides_nothing(tmp_path: Path) -> None:
    on = evidence(tmp_path, a=[0.1], b=[0.5, 0.5]).on("e", "p")
    assert on.lower("a", "b").verdict == on.no_higher("a", "b").verdict == on.no_higher("b", "a").verdict == UNDECIDED


def test_too_few_seeds_are_no_verdict_on_the_reference(tmp_path: Path) -> None:
    rows = [{"problem": "p", "runs": 19, "verdict": "no difference"}]
    (tmp_path / "compare.json").write_text(json.dumps({"source": {"command": "python x"}, "comparison": rows}))
    (row,) = [line for line in page(Evidence(tmp_path)).splitlines() if line.startswith("| –") and "HpBandSter" in line]
    assert f"**{UNDECIDED}**" in row


def test_how_much_faster_is_the_end_of_one_over_where_the_other_is_as_good(tmp_path: Path) -> None:
    on = evidence(tmp_path, bohb=[0.1, 0.1], hyperband=[0.2, 0.2]).on("e", "p")
    assert on.times_faster("bohb", "hyperband", 20) == Finding(HOLDS, "p: 50× earlier")
    assert on.times_faster("bohb", "hyperband", 100).verdict == FAILS
    assert on.times_faster("hyperband", "bohb", 1).verdict == FAILS


def test_one_failure_decides_and_what_was_not_measured_is_told() -> None:
    assert all_of([Finding(HOLDS), Finding(HOLDS)]).verdict == HOLDS
    assert all_of([Finding(HOLDS), Finding(NOT_MEASURED)]).verdict == PARTLY
    assert all_of([all_of([Finding(HOLDS), Finding(NOT_MEASURED)]), Finding(HOLDS)]).verdict == PARTLY
    assert all_of([Finding(FAILS), Finding(NOT_MEASURED)]).verdict == FAILS
    assert all_of([Finding(HOLDS), Finding(UNDECIDED)]).verdict == UNDECIDED
    assert all_of([Finding(FAILS), Finding(UNDECIDED)]).verdict == FAILS
    assert all_of([]).verdict == NOT_MEASURED


def test_without_results_every_claim_is_listed_as_not_measured(tmp_path: Path) -> None:
    text = page(Evidence(tmp_path))
    rows = [line for line in text.splitlines() if line.startswith("| ") and "**" in line]
    assert len(rows) == len(all_claims())
    assert all(f"**{NOT_MEASURED}**" in row for row in rows)
    for section in ("§5.1", "§5.2.1", "§5.2.2", "§5.3", "§5.4", "§5.5", "Fig. 3", "App. B", "App. G"):
        assert section in text


def test_a_verdict_follows_from_the_file(tmp_path: Path) -> None:
    comparison = [{"problem": "p", "runs": 20, "verdict": "worse"}, {"problem": "q", "runs": 20, "verdict": "better"}]
    (tmp_path / "compare.json").write_text(json.dumps({"source": {"command": "python x"}, "comparison": comparison}))
    (row,) = [line for line in page(Evidence(tmp_path)).splitlines() if line.startswith("| –") and "HpBandSter" in line]
    assert "worse on p, better on q of 2" in row
    assert f"**{FAILS}** |" in row


def test_cifar_10_at_a_smaller_scale_is_reported_but_decides_nothing(tmp_path: Path) -> None:
    winners = [{"epochs": n, "seconds": 60 * n, "test_error": 1 / n} for n in (20, 10)]
    studies = [{"seconds": 600}]
    body = {"source": {"command": "python x"}, "studies": studies, "winners": winners}
    (tmp_path / "cifar10.json").write_text(json.dumps(body))
    rows = [line for line in page(Evidence(tmp_path)).splitlines() if "| §5.5 |" in line]
    assert len(rows) == 4
    for row in rows:
        assert f"**{NOT_MEASURED}** | not at the paper's scale: [40 GPU minutes](cifar10.md) instead of 33 GPU" in row


def test_a_claim_that_is_not_confirmed_says_where_it_holds_and_what_would_decide(tmp_path: Path) -> None:
    on = evidence(tmp_path, a=[0.1, 0.3], b=[0.5, 0.52], c=[0.1, 0.9]).on("e", "p")
    finding = all_of([on.lower("a", "b"), on.lower("a", "c")])
    expected = "It holds in 1 of 2 comparisons; undecided for p, a and c (+0.7)."
    assert tally(finding) == f"{expected} If the means stayed as they are, 7.6 times as many runs would decide."
    assert tally(on.lower("b", "a")) == "The difference is −3.1 standard errors."


def test_the_page_explains_the_claims_that_fail_and_no_others(tmp_path: Path) -> None:
    results = body(bohb=[1.0, 1.1], hyperband=[0.1, 0.2], tpe=[3.0, 3.1])
    results["problems"] = {"cartpole": results["problems"]["p"]}
    write_json(tmp_path / "cartpole.json", results)
    details = page(Evidence(tmp_path)).split("<details>\n")
    (failed,) = [text for text in details if "BOHB ends better than Hyperband (does not hold)</summary>" in text]
    assert "**Why.** The difference is −12.7 standard errors. BOHB has 2 runs of 100" in failed
    for text in details[1:]:
        assert ("**Why.**" in text) == any(f"({verdict})</summary>" in text for verdict in (FAILS, UNDECIDED))


def test_a_row_of_the_page_has_one_number_and_the_details_have_all(tmp_path: Path) -> None:
    on = evidence(tmp_path, a=[0.1, 0.3], b=[0.5, 0.52], c=[0.1, 0.9]).on("e", "p")
    assert one_number(all_of([on.lower("a", "b"), on.lower("a", "c")])) == "1 of 2 comparisons"
    assert one_number(on.lower("b", "a")) == "−3.1 standard errors"
    assert one_number(Finding(HOLDS, "x: 1; y: 2; z: 3")) == "x: 1 (and 2 more)"
    assert one_number(Finding(NOT_MEASURED)) == "–"


def test_holm_corrects_the_smallest_most_and_keeps_the_order() -> None:
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_an_effect_counts_pairs_that_ours_wins() -> None:
    assert effect([1.0, 2.0], [3.0, 4.0]) == 1.0
    assert effect([1.0, 3.0], [2.0, 3.0]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)
