"""Several losses: dominance, ranks, the order along a front, hypervolume."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bohb.core.order import Array, epsilon_net, first_front, hypervolume, levels, ranked, ranks

LOSS = st.integers(-4, 4).map(float)
TABLES = st.tuples(st.integers(0, 12), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=LOSS)
)


def dominates(a: Array, b: Array) -> bool:
    return bool((a <= b).all() and (a < b).any())


@given(TABLES)
def test_a_rank_is_one_more_than_the_highest_rank_that_dominates_it(losses: Array) -> None:
    rank = ranks(losses)
    for i, row in enumerate(losses):
        above = [int(rank[j]) for j, other in enumerate(losses) if dominates(other, row)]
        assert rank[i] == (max(above) + 1 if above else 0)
    assert set(first_front(losses)) == {i for i in range(len(losses)) if rank[i] == 0}


STANDINGS = TABLES.filter(lambda table: table.shape[1] > 1).map(
    lambda t: np.column_stack([np.maximum(t[:, 0], 0), t[:, 1:]])
)


@given(STANDINGS)
def test_the_order_is_a_permutation_that_puts_feasible_results_and_better_levels_first(standings: Array) -> None:
    order = ranked(standings)
    assert sorted(order.tolist()) == list(range(len(standings)))
    level = levels(standings)[order]
    assert (np.diff(level) >= 0).all()
    violation = standings[order, 0]
    assert (np.diff(violation) >= 0).all()


@given(STANDINGS, st.sampled_from([1e-6, 0.3, 7.0, 1e9]), st.integers(-3, 3))
def test_the_unit_and_the_origin_of_a_loss_do_not_matter(standings: Array, factor: float, shift: int) -> None:
    scaled = standings.copy()
    scaled[:, -1] = (scaled[:, -1] + shift) * factor
    assert levels(scaled).tolist() == levels(standings).tolist()
    assert ranked(scaled).tolist() == ranked(standings).tolist()


def test_a_failed_result_comes_last() -> None:
    standings = np.array([[np.inf, np.inf, np.inf], [5, 1, 1], [0, 2, 2], [0, 1, 3], [np.inf, np.inf, np.inf]])
    assert ranked(standings)[:3].tolist() == [3, 2, 1]
    assert levels(standings).tolist() == [2, 1, 0, 0, 2]


def test_with_one_loss_the_order_is_that_of_the_losses() -> None:
    losses = np.random.default_rng(0).standard_normal(20)
    standings = np.column_stack([np.zeros(20), losses])
    assert ranked(standings).tolist() == np.argsort(losses).tolist()


def test_the_order_along_a_front_takes_the_ends_first_and_then_the_widest_gap() -> None:
    front = np.array([[0.0, 10.0], [1.0, 9.0], [5.0, 5.0], [9.0, 1.0], [10.0, 0.0]])
    assert epsilon_net(front).tolist()[:3] == [0, 4, 2]


def brute_force(points: Array, reference: tuple[float, ...]) -> float:
    """Count the unit cells that some point dominates."""
    low = int(points.min(initial=0.0))
    cells = itertools.product(*(range(low, int(bound)) for bound in reference))
    return float(sum(any((point <= cell).all() for point in points) for cell in map(np.array, cells)))


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_the_hypervolume_counts_each_dominated_cell_once(m: int) -> None:
    rng = np.random.default_rng(m)
    for n in (0, 1, 3, 6):
        points = rng.integers(0, 6, (n, m)).astype(float)
        reference = (5.0,) * m
        assert hypervolume(points.tolist(), reference) == brute_force(points, reference)
