"""The schedule, as tables of expected rungs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bohb.core.schedule.brackets import Bracket, check_budgets, geometric_budgets, halving, hyperband, plan
from bohb.errors import InvalidArgument


def sizes(n_budgets: int, eta: float, kind: str = "paper") -> list[list[int]]:
    budgets = [float(10 * eta**i) for i in range(n_budgets)]
    return [[rung.size for rung in bracket.rungs] for bracket in hyperband(budgets, eta, kind)]


# n = ⌈S/(s+1)·η^s⌉ (Alg. 1, line 3), then ⌊n·η^−i⌋ (Alg. 3, line 4); worked out by hand.
RUNGS = {
    (1, 3): [[1]],
    (2, 3): [[3, 1], [2]],
    (3, 3): [[9, 3, 1], [5, 1], [3]],
    (4, 3): [[27, 9, 3, 1], [12, 4, 1], [6, 2], [4]],
    (5, 3): [[81, 27, 9, 3, 1], [34, 11, 3, 1], [15, 5, 1], [8, 2], [5]],
    (6, 3): [[243, 81, 27, 9, 3, 1], [98, 32, 10, 3, 1], [41, 13, 4, 1], [18, 6, 2], [9, 3], [6]],
    (1, 2): [[1]],
    (2, 2): [[2, 1], [2]],
    (3, 2): [[4, 2, 1], [3, 1], [3]],
    (4, 2): [[8, 4, 2, 1], [6, 3, 1], [4, 2], [4]],
    (5, 2): [[16, 8, 4, 2, 1], [10, 5, 2, 1], [7, 3, 1], [5, 2], [5]],
    (6, 2): [[32, 16, 8, 4, 2, 1], [20, 10, 5, 2, 1], [12, 6, 3, 1], [8, 4, 2], [6, 3], [6]],
    (1, 4): [[1]],
    (2, 4): [[4, 1], [2]],
    (3, 4): [[16, 4, 1], [6, 1], [3]],
    (4, 4): [[64, 16, 4, 1], [22, 5, 1], [8, 2], [4]],
    (5, 4): [[256, 64, 16, 4, 1], [80, 20, 5, 1], [27, 6, 1], [10, 2], [5]],
    (6, 4): [[1024, 256, 64, 16, 4, 1], [308, 77, 19, 4, 1], [96, 24, 6, 1], [32, 8, 2], [12, 3], [6]],
    (1, 2.5): [[1]],
    (2, 2.5): [[3, 1], [2]],
    (3, 2.5): [[7, 2, 1], [4, 1], [3]],
    (4, 2.5): [[16, 6, 2, 1], [9, 3, 1], [5, 2], [4]],
    (5, 2.5): [[40, 16, 6, 2, 1], [20, 8, 3, 1], [11, 4, 1], [7, 2], [5]],
    (6, 2.5): [[98, 39, 15, 6, 2, 1], [47, 18, 7, 3, 1], [24, 9, 3, 1], [13, 5, 2], [8, 3], [6]],
}


@pytest.mark.parametrize(("n_budgets", "eta"), list(RUNGS))
def test_rungs_are_those_of_algorithms_1_and_3(n_budgets: int, eta: float) -> None:
    assert sizes(n_budgets, eta) == RUNGS[n_budgets, eta]


@pytest.mark.parametrize(
    ("n_budgets", "first"), [(3, [9, 3, 3]), (4, [27, 9, 6, 4]), (5, [81, 27, 9, 6, 5])], ids=["S=3", "S=4", "S=5"]
)
def test_the_hpbandster_preset_has_hpbandsters_sizes(n_budgets: int, first: list[int]) -> None:
    assert [rungs[0] for rungs in sizes(n_budgets, 3, "hpbandster")] == first


@pytest.mark.parametrize(("n_budgets", "eta"), [key for key in RUNGS if key[0] > 1])
def test_brackets_cost_the_same_within_rounding(n_budgets: int, eta: float) -> None:
    budgets = [float(eta**i) for i in range(n_budgets)]
    for bracket in hyperband(budgets, eta):
        # ⌈·⌉ adds at most one configuration on every rung, ⌊·⌋ drops less than one on every rung but the first.
        total = sum(rung.budget for rung in bracket.rungs)
        assert abs(bracket.cost - n_budgets * budgets[-1]) <= total


@pytest.mark.parametrize(
    ("low", "high", "eta", "expected"),
    [
        (1, 243, 3, [1, 3, 9, 27, 81, 243]),
        (1, 1000, 10, [1, 10, 100, 1000]),
        (0.01, 1, 10, [0.01, 0.1, 1]),
        (1 / 243, 1, 3, [1 / 243, 1 / 81, 1 / 27, 1 / 9, 1 / 3, 1]),
        (9, 729, 3, [9, 27, 81, 243, 729]),
        (500, 10_000, 3, [10_000 / 9, 10_000 / 3, 10_000]),
        (1 / 512, 1, 3, [1 / 243, 1 / 81, 1 / 27, 1 / 9, 1 / 3, 1]),
        (7, 7, 3, [7]),
        (1, 2.9, 3, [2.9]),
        (1, 6.25, 2.5, [1, 2.5, 6.25]),
    ],
)
def test_budgets_are_exact_powers(low: float, high: float, eta: float, expected: list[float]) -> None:
    assert list(geometric_budgets(low, high, eta)) == pytest.approx(expected, rel=1e-15)


@given(st.integers(1, 9), st.integers(0, 8), st.sampled_from([2, 3, 4, 5, 7, 10]))
def test_an_exact_power_never_loses_a_rung(low: int, s_max: int, eta: int) -> None:
    budgets = geometric_budgets(low, low * eta**s_max, eta)
    assert budgets == tuple(float(low * eta**s) for s in range(s_max + 1))


@given(
    st.floats(1e-3, 1e3),
    st.floats(1, 1e4),
    st.floats(1.1, 10).map(lambda x: round(x, 3)),
)
def test_the_lowest_budget_is_at_least_min_budget_and_less_than_eta_times_it(
    low: float, ratio: float, eta: float
) -> None:
    budgets = geometric_budgets(low, low * ratio, eta)
    assert low * (1 - 1e-8) <= budgets[0] < low * eta * (1 + 1e-8)
    assert budgets[-1] == pytest.approx(low * ratio)
    assert all(b / a == pytest.approx(eta) for a, b in itertools.pairwise(budgets))


@given(st.integers(1, 6), st.sampled_from([1.5, 2, 2.5, 3, 3.7, 4, 7]))
def test_every_bracket_reaches_the_largest_budget_with_shrinking_rungs(n_budgets: int, eta: float) -> None:
    for bracket, s in zip(sizes(n_budgets, eta), range(n_budgets - 1, -1, -1), strict=True):
        assert len(bracket) == s + 1
        assert bracket == sorted(bracket, reverse=True)
        assert bracket[-1] >= 1
        assert bracket[0] == math.ceil(Fraction(n_budgets, s + 1) * Fraction(str(eta)) ** s)


@given(st.integers(1, 2000), st.integers(2, 10), st.integers(1, 5))
def test_for_whole_eta_rungs_are_the_repeated_floor_of_algorithm_3(n: int, eta: int, n_budgets: int) -> None:
    expected = [n]
    for _ in range(n_budgets - 1):
        expected.append(max(1, expected[-1] // eta))
    assert [rung.size for rung in halving(n, range(1, n_budgets + 1), eta).rungs] == expected


def test_integer_budgets_are_rounded_and_stay_integers() -> None:
    budgets = geometric_budgets(500, 10_000, 3, integer=True)
    assert budgets == (1111, 3333, 10_000)
    assert all(isinstance(budget, int) for budget in budgets)


def test_integer_budgets_that_collapse_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be different and at least 1"):
        geometric_budgets(0.1, 10, 2, integer=True)


@pytest.mark.parametrize(
    ("low", "high", "eta", "message"),
    [
        (9, 1, 3, "min_budget=9 must not exceed max_budget=1"),
        (0, 1, 3, "min_budget=0 must be positive"),
        (-1, 1, 3, "min_budget=-1 must be positive"),
        (1, math.inf, 3, "max_budget=inf must be positive and finite"),
        (1, math.nan, 3, "max_budget=nan"),
        (1, 9, 1, "eta=1 must be larger than 1"),
        (1, 9, 0.5, "eta=0.5 must be larger than 1"),
        (1, 9, "3", "eta='3' must be a number, not str"),
        (True, 9, 3, "min_budget=True must be a number, not bool"),
        (None, 9, 3, "min_budget=None must be a number"),
    ],
)
def test_bad_budgets_are_refused_with_value_and_rule(low: float, high: float, eta: float, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        geometric_budgets(low, high, eta)


@pytest.mark.parametrize("budgets", [[], [3, 1], [1, 1], [0, 1], [1, math.nan]])
def test_a_bad_budget_list_is_refused(budgets: list[float]) -> None:
    with pytest.raises(InvalidArgument):
        check_budgets(budgets)


def test_an_explicit_budget_list_keeps_the_sizes_and_changes_the_cost() -> None:
    bracket = hyperband([1, 5, 20], 3)[0]
    assert [(rung.budget, rung.size) for rung in bracket.rungs] == [(1, 9), (5, 3), (20, 1)]
    assert bracket.cost == 9 + 15 + 20
    assert bracket.continued_cost == 9 + 3 * 4 + 15


def test_continuing_from_checkpoints_saves_a_sixth_of_a_round() -> None:
    table = plan(hyperband([1, 3, 9, 27], 3))
    assert table.cost * 27 == pytest.approx(108 + 99 + 108 + 108)
    assert 1 - table.continued_cost / table.cost > 0.15


def test_the_plan_is_a_table_of_brackets_rungs_configurations_and_cost() -> None:
    table = plan(hyperband([1, 3, 9], 3), 4)
    assert table.configurations == 9 + 5 + 3 + 9
    assert table.trials == 13 + 6 + 3 + 13
    assert [row.configurations for row in table.rows()] == [9, 3, 1, 5, 1, 3, 9, 3, 1]
    assert sum(row.cost for row in table.rows()) == pytest.approx(table.cost)
    assert sum(row.continued_cost for row in table.rows()) == pytest.approx(table.continued_cost)
    assert str(table).splitlines()[0].split() == [
        "budget", "bracket", "0", "bracket", "1", "bracket", "2", "bracket", "3",
    ]  # fmt: skip
    assert "26 configurations, 35 evaluations" in str(table)
    with pytest.raises(InvalidArgument, match="brackets=0"):
        plan(hyperband([1, 3, 9], 3), 0)


def test_a_bracket_counts_its_trials() -> None:
    assert isinstance(hyperband([1], 3)[0], Bracket)
    assert hyperband([1, 3], 3)[0].trials == 4
