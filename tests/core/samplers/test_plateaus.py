"""Plateaus: how large they are is learnt from equal losses, and known ones are not searched again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from bohb.core.samplers.plateaus import Plateaus, plateau_width
from bohb.core.samplers.process import squared_distances
from bohb.core.space import Array


def drawn(n: int = 120, d: int = 3, seed: int = 0) -> tuple[Array, np.ndarray]:
    """Points, half of them near others as in a study, and their rungs."""
    rng = np.random.default_rng(seed)
    apart = rng.random((n // 2, d))
    near = np.clip(apart[rng.integers(len(apart), size=n - n // 2)] + rng.normal(0, 0.05, (n - n // 2, d)), 0, 1)
    return np.vstack([apart, near]), rng.integers(3, size=n)


def in_cells(size: float) -> Callable[[Array], Array]:
    return lambda points: (np.floor(points / size) * size) @ np.array([1.0, 10.0, 100.0])


@pytest.mark.parametrize("seed", range(5))
def test_larger_plateaus_have_larger_widths(seed: int) -> None:
    points, rung = drawn(seed=seed)
    small, large = (plateau_width(points, rung, in_cells(size)(points)) for size in (0.2, 0.5))
    assert 0.05 < small < 0.2
    assert 0.2 < large < 0.6


def test_without_equal_losses_there_are_none() -> None:
    points, rung = drawn()
    assert plateau_width(points, rung, points.sum(axis=1)) == 0
    assert plateau_width(points[:0], rung[:0], points[:0, 0]) == 0
    assert plateau_width(points[:1], rung[:1], points[:1, 0]) == 0


def test_equal_losses_on_different_rungs_do_not_count() -> None:
    points, _ = drawn(20)
    assert plateau_width(points, np.arange(20), np.zeros(20)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_losses_that_are_equal_by_chance_show_no_plateaus_or_tiny_ones(seed: int) -> None:
    """Error rates of few examples take few values, near and far alike: no plateau is wider than the nearest pairs."""
    points, rung = drawn(seed=seed)
    losses = np.random.default_rng(seed).integers(5, size=len(points)).astype(float)
    assert plateau_width(points, rung, losses) < 0.05


def test_a_constant_loss_shows_no_plateaus() -> None:
    points, rung = drawn()
    assert plateau_width(points, rung, np.ones(len(points))) == 0


def test_what_is_near_a_known_configuration_is_not_new() -> None:
    known = np.array([[0.2, 0.2], [0.8, 0.8]])
    at = np.array([[0.2, 0.2], [0.3, 0.2], [0.5, 0.5], [0.2, 0.8]])
    chance = np.exp(Plateaus(0.2, known).log_new(at))
    assert chance[0] < 1e-5
    assert chance[1] == pytest.approx(1 - np.exp(-0.25))
    assert chance[2] == pytest.approx((1 - np.exp(-4.5)) ** 2)  # equally far from both
    assert chance[3] == pytest.approx((1 - np.exp(-9.0)) ** 2)


def test_everything_is_new_without_plateaus_or_without_results() -> None:
    at = np.random.default_rng(0).random((4, 2))
    np.testing.assert_array_equal(Plateaus(0.0, at).log_new(at), np.zeros(4))
    np.testing.assert_array_equal(Plateaus(0.1, at[:0]).log_new(at), np.zeros(4))


def test_squared_distances_are_never_negative() -> None:
    points = np.random.default_rng(0).random((30, 8))
    squares = squared_distances(points, points)
    assert squares.min() >= 0
    np.testing.assert_allclose(squares, ((points[:, None] - points) ** 2).sum(-1), atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_last_bits_of_distances_do_not_matter(seed: int) -> None:
    """Choices are often equally far from each other; which of them is nearest must not depend on the processor."""
    rng = np.random.default_rng(seed)
    points = np.sqrt(0.5) * np.eye(4)[rng.integers(4, size=(60, 5))].reshape(60, 20)
    losses, rung = rng.integers(20, size=60).astype(float), np.zeros(60, dtype=np.intp)
    turned, _ = np.linalg.qr(rng.standard_normal((20, 20)))  # distances stay but for their last bits
    assert plateau_width(points @ turned, rung, losses) == plateau_width(points, rung, losses)
