"""The targets of the Gaussian process: losses of all rungs on the scale of the largest budget."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import bohb
from bohb.core.samplers.targets import (
    Results,
    Table,
    best_first,
    joined,
    prefixes,
    rungs_below,
    shift,
    standardised,
    targets,
    winsorised,
)

NAN, INF = np.nan, np.inf


def test_losses_far_above_the_median_are_cut() -> None:
    assert winsorised(np.array([1.0, 2, 3, 4, 100, INF, NAN])).tolist()[:6] == [1, 2, 3, 4, 7, INF]


def test_failures_and_gaps_alone_are_left_as_they_are() -> None:
    assert np.isinf(winsorised(np.array([INF, NAN]))[0])


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1.0, 2, 3], [2.0, 3, 4], 1.0),
        ([1.0, 2, 3], [2.0, 3, 40], 1.0),  # the median: a single diverged network does not count
        ([1.0, 2, NAN], [NAN, NAN, 5.0], 3.5),  # none shared: by the medians
        ([1.0, INF, 3, 5], [2.0, 3, 4, INF], 1.0),  # failures are left out
    ],
)
def test_a_rung_is_shifted_by_the_median_difference(x: list[float], y: list[float], expected: float) -> None:
    assert shift(np.array(x), np.array(y)) == pytest.approx(expected)


def test_rungs_are_chained_to_the_largest_budget() -> None:
    top = np.array([1.0, 2.0, 3.0, NAN, NAN])
    middle = np.array([2.0, 3.0, 4.0, 5.0, NAN])  # one more than on the largest budget
    low = np.array([4.0, 5.0, 6.0, 7.0, 8.0])  # two more than in the middle
    found = targets(Table(np.arange(5), np.column_stack([top, middle, low])))
    assert found.y * found.spread + found.centre == pytest.approx(1.0 + found.rows)
    assert sorted(zip(found.rows.tolist(), found.below.tolist(), strict=True))[-3:] == [(3, 1), (3, 2), (4, 2)]
    assert found.below[found.highest].tolist() == [0, 0, 0, 1, 2]
    assert found.y.mean() == pytest.approx(0)
    assert found.y.std() == pytest.approx(1)


def test_a_failure_counts_as_the_worst_that_did_not_fail() -> None:
    losses = np.array([[1.0, 1.0], [2.0, 2.0], [INF, 3.0], [NAN, 7.0], [NAN, INF]])
    found = targets(Table(np.arange(5), losses))
    raw = (found.y * found.spread + found.centre)[found.highest]
    assert found.finite == 4
    assert raw[[2, 4]] == pytest.approx(raw[3])


def test_nothing_but_failures_gives_targets_that_say_nothing() -> None:
    found = targets(Table(np.arange(2), np.array([[INF], [INF]])))
    assert (found.finite, found.y.tolist()) == (0, [0, 0])


@given(
    arrays(
        float,
        st.tuples(st.integers(1, 12), st.integers(1, 4)),
        elements=st.one_of(st.floats(-1e6, 1e6), st.sampled_from([NAN, INF])),
    )
)
def test_targets_are_finite_whatever_the_losses(losses: np.ndarray) -> None:
    losses = losses[~np.isnan(losses).all(1)]
    if len(losses):
        found = targets(Table(np.arange(len(losses)), losses))
        assert np.isfinite(found.y).all()
        assert found.finite == int(np.isfinite(losses).any(axis=1).sum())


def test_equal_losses_are_not_told_apart_by_rounding() -> None:
    y, centre, spread = standardised(np.full(7, 0.1) + np.array([0, 0, 0, 1e-17, 0, 0, 0]))
    assert y.tolist() == [0] * 7
    assert centre == pytest.approx(0.1)
    assert spread == 1


def test_the_highest_rungs_and_lowest_losses_are_kept() -> None:
    losses = np.array([[NAN, 5.0], [NAN, 1.0], [9.0, NAN], [8.0, NAN]])
    assert best_first(targets(Table(np.arange(4), losses)), 3).rows.tolist() == [3, 2, 1]


def test_lower_results_of_promoted_configurations_get_a_third_of_the_places() -> None:
    losses = np.column_stack([np.arange(100.0), np.arange(100.0) + 1])
    kept = best_first(targets(Table(np.arange(100), losses)), 40)
    assert kept.rows[kept.highest].tolist() == list(range(26))
    assert kept.rows[~kept.highest].tolist() == list(range(14))


@pytest.mark.parametrize(
    ("budgets", "of", "expected"),
    [
        ([100, 200, 300], [300, 200, 100], [0, 1, 2]),  # rounded logarithms put 200 on the top rung
        ([1, 2, 3, 4], [4, 3, 2, 1], [0, 1, 2, 3]),
        ([1, 81], [81, 1], [0, 1]),
        ([3, 9, 27], [27, 26.9, 10, 2, 0.001], [0, 0, 1, 2, 2]),  # budgets of an earlier study go to the nearest rung
        ([2.0**k for k in range(20)], [2.0**19, 1], [0, 15]),  # rungs further down share the noise of the last
    ],
)
def test_rungs_are_indices_into_the_budgets(budgets: list[float], of: list[float], expected: list[int]) -> None:
    assert rungs_below(np.array(of, dtype=float), budgets).tolist() == expected


def test_a_result_on_a_middle_budget_is_none_of_the_top() -> None:
    study = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[100, 200, 300], seed=0)
    while len(study.history.outcomes) < 30:
        trial = study.ask()
        study.tell(trial, trial.config["x"] + 100 / trial.budget)
    results = Results(1)
    results.catch_up(study.history)
    losses = results.table(len(results), study.history.budgets).losses
    on = [trial.budget for trial in study.history.trials.values()]
    assert np.isfinite(losses).sum(axis=0).tolist() == [on.count(budget) for budget in (300, 200, 100)]


def test_fits_are_due_whenever_there_are_15_percent_more_results() -> None:
    assert prefixes(7) == []
    assert prefixes(14) == [8, 10, 11, 13, 14]
    assert all(b >= a for a, b in zip(prefixes(1000), prefixes(1000)[1:], strict=False))


def test_results_of_one_configuration_share_a_row_whichever_study_they_are_from() -> None:
    def run(budgets: list[float], **more: object) -> bohb.BOHB:
        study = bohb.BOHB({"x": (0.0, 1.0)}, budgets=budgets, seed=0, **more)  # type: ignore[arg-type]
        for _ in range(4):
            trial = study.ask()
            study.tell(trial, trial.config["x"] if trial.config["x"] < 0.9 else float("nan"))
        return study

    earlier = run([3.0, 27.0])
    study = run([1.0, 3.0], warm_start=[earlier.history])
    results = Results(1)
    results.catch_up(study.history)
    results.catch_up(study.history)  # nothing added or repeated
    assert len(results) == 8
    assert (results.n_earlier, results.studies) == (4, 2)
    rows, losses, _ = results.table(8, [1.0, 3.0])
    by_row = dict(zip(rows.tolist(), losses.tolist(), strict=True))
    assert (~np.isnan(losses)).sum() == 4
    on_27 = sum(event.budget == 27 for event in study.history.observed)
    assert (~np.isnan(results.table(8, [1.0, 3.0], study=1).losses)).sum() == 4 - on_27
    for number, outcome in study.history.outcomes.items():
        trial = study.history.trials[number]
        row = next(r for r in by_row if results.vectors(np.array([r]))[0] == study.space.encode(trial.config))
        assert by_row[row][0 if trial.budget == 3 else 1] == outcome.ranking_loss


def test_a_bad_configuration_looks_bad_on_whichever_rung_it_was_seen() -> None:
    low = np.array([1.0, 1.1, 1.2, 5.0, 6.0, 7.0, 8.0])
    top = np.array([1.0, 1.1, 1.2, NAN, NAN, NAN, 8.0])  # one of the worst was seen among the best
    found = targets(Table(np.arange(7), np.column_stack([top, low])))
    assert found.y[found.rows == 6].tolist() == [found.y.max()] * 2


def test_every_study_has_its_own_scale_and_earlier_ones_get_the_places_that_are_left() -> None:
    def run(trials: int, factor: float, **more: object) -> bohb.BOHB:
        study = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1.0], seed=0, **more)  # type: ignore[arg-type]
        for _ in range(trials):
            trial = study.ask()
            study.tell(trial, factor * (5 + trial.config["x"]))
        return study

    first, second = run(20, 1.0), run(20, 100.0)
    study = run(6, 1.0, warm_start=[first, second])
    assert [event.study for event in study.history.observed] == [0] * 20 + [1] * 20
    results = Results(1)
    results.catch_up(study.history)
    found = joined(results, len(results), [1.0], 26)
    assert np.bincount(found.study).tolist() == [6, 10, 10]
    assert found.data(1, np.zeros((26, 1)), np.arange(1)).group.tolist() == found.study.tolist()
    own = found.study == 0
    for study_number, factor in ((0, 1.0), (1, 1.0), (2, 100.0)):
        every = targets(results.table(len(results), [1.0], study_number))
        assert every.y.std() == pytest.approx(1)
        assert 5 * factor < every.centre < 6 * factor
    alone = targets(results.table(len(results), [1.0]))
    assert (found.centre, found.spread) == (alone.centre, alone.spread)
    assert sorted(found.y[own]) == sorted(alone.y)
    assert joined(results, len(results), [1.0], 4).study.tolist() == [0] * 4
