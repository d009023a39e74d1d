from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from bohb import BOHB
from bohb.analysis.agreement import correlations, spearman
from bohb.analysis.axes import telling_budget
from bohb.analysis.lineage import RungTable, curves, paths, picks, rung_of
from bohb.core.history import History
from bohb.core.trial import Origin
from tests.analysis.studies import KINDS, XY, play, played, tiny


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-10, 10)), min_size=3, max_size=30))
def test_rank_correlation_agrees_with_scipy(pairs: list[tuple[int, float]]) -> None:
    x, y = [float(a) for a, _ in pairs], [b for _, b in pairs]
    ours = spearman(x, y)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-12)


def test_budgets_that_rank_in_opposite_order_have_correlation_minus_one() -> None:
    """Nine configurations on budget 1; the best three are promoted, and the better on 1 the worse on 3."""
    optimizer = BOHB(XY, budgets=[1, 3, 9], seed=0, max_brackets=1)
    play(optimizer, 13, lambda trial: trial.config_id if trial.budget == 1 else -trial.config_id)
    rows = {(row.low, row.high): row for row in correlations(optimizer.history)}
    assert {pair: (row.n, row.rho) for pair, row in rows.items()} == {
        (1, 3): (3, pytest.approx(-1)),
        (1, 9): (1, None),
        (3, 9): (1, None),
    }
    assert rows[1, 3].interval is None  # three points have no interval


def test_only_configurations_with_a_loss_on_both_budgets_count() -> None:
    (row,) = correlations(tiny().history)
    assert (row.low, row.high, row.n, row.rho) == (1, 3, 1, None)


def test_the_interval_holds_the_correlation() -> None:
    for row in correlations(played("large")):
        if row.interval is not None:
            assert row.rho is not None
            assert -1 <= row.interval[0] <= row.rho <= row.interval[1] <= 1


def rungs(history: History) -> list[RungTable]:
    """Return every rung that has a trial."""
    first = {(trial.bracket, trial.rung): n for n, trial in reversed(history.trials.items())}
    return [rung_of(history, first[place]) for place in sorted(first)]


def test_rung_by_rung() -> None:
    tables = rungs(tiny().history)
    assert [(t.bracket, t.rung, t.budget, t.planned, t.keep, t.complete, t.cutoff) for t in tables] == [
        (0, 0, 1, 3, 1, True, 0.2),
        (0, 1, 3, 1, 0, True, None),
        (1, 0, 3, 2, 0, True, None),
    ]
    assert [(e.number, e.rank, e.promoted) for e in tables[0].entries] == [
        (0, 2, False),
        (1, 1, True),
        (2, None, False),
    ]
    assert [(e.number, e.rank, e.promoted) for e in tables[2].entries] == [(4, 2, None), (5, 1, None)]


def test_nothing_is_decided_while_a_rung_is_incomplete() -> None:
    optimizer = BOHB(XY, budgets=[1, 3], seed=0)
    play(optimizer, 2, lambda _: 1.0)
    (table,) = rungs(optimizer.history)
    assert (table.complete, table.finished, table.cutoff) == (False, 2, None)
    assert {entry.promoted for entry in table.entries} == {None}


@pytest.mark.parametrize("kind", KINDS)
def test_the_promoted_are_those_that_ran_on_the_next_rung(kind: str) -> None:
    history = played(kind)
    went_on = {trial.from_trial for trial in history.trials.values()} - {None}
    promoted = {entry.number for table in rungs(history) for entry in table.entries if entry.promoted}
    assert went_on <= promoted
    waiting = sum(len(bracket.alive()) for bracket in history.brackets)
    assert len(promoted - went_on) <= waiting


def test_a_path_follows_a_configuration_from_budget_to_budget() -> None:
    by_id = {path.numbers[0]: path for path in paths(tiny().history)}
    assert (by_id[1].x, by_id[1].losses, by_id[1].numbers) == ([1, 3], [0.2, 0.1], [1, 3])
    assert 2 not in by_id  # it failed


def test_learning_curves_are_what_was_reported() -> None:
    found = {curve.numbers[0]: curve for curve in curves(played("mixed"))}
    assert found[0].x == tuple(range(1, int(found[0].budget) + 1))
    loss = played("mixed").outcomes[0].ranking_loss
    assert found[0].losses[-1] == pytest.approx(loss + 1 / found[0].budget)
    assert curves(tiny().history) == []


def test_picks_compare_new_configurations_only() -> None:
    low, high = picks(tiny().history)
    assert (low.budget, low.origin, low.n, low.failed, low.losses) == (1, Origin.RANDOM, 3, 1, (0.5, 0.2))
    assert (high.budget, high.n, high.losses) == (3, 2, (0.3, 0.05))  # the promoted trial 3 takes no part


def test_the_telling_budget_is_the_largest_with_enough_losses() -> None:
    assert telling_budget(played("empty")) is None
    assert telling_budget(played("all failed")) is None
    assert telling_budget(tiny().history) == 3  # three losses on 3, two on 1; neither is enough
    assert telling_budget(tiny().history, enough=2) == 3
    assert telling_budget(played("large")) == 27
