"""The density of Appendix D: comparison with statsmodels, and its own properties."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest
from statsmodels.nonparametric.kernel_density import KDEMultivariate

from bohb.core.samplers import kde
from bohb.core.space.scales import Coordinates

# statsmodels 0.15 announces a change of its random generator, which the density does not use.
pytestmark = pytest.mark.filterwarnings("ignore:After 0.17 or January 2028:FutureWarning")
Array = np.ndarray[Any, np.dtype[np.float64]]


def points_of(rng: np.random.Generator, n: int, choices: list[int], missing: float = 0.0) -> Array:
    columns = [rng.integers(c, size=n).astype(float) if c else rng.random(n) for c in choices]
    points = np.array(columns).T
    points[rng.random(points.shape) < missing] = np.nan
    return points


def coordinates(choices: list[int], optional: list[bool] | None = None) -> Coordinates:
    return Coordinates(np.array(choices), np.array(optional or [False] * len(choices)))


def fitted(points: Array, choices: list[int], boundary: bool = True) -> kde.Density:
    k = coordinates(choices, [bool(np.isnan(column).any()) for column in points.T])
    return kde.fit(points, k, kde.scott(points, k), boundary)


@pytest.mark.parametrize("choices", [[0], [0, 0, 0], [2], [2, 2, 0], [0] * 6, [2] * 8 + [0] * 8], ids=str)
@pytest.mark.parametrize("n", [20, 60, 3000])
def test_without_boundary_normalisation_it_is_statsmodels_density(choices: list[int], n: int) -> None:
    rng = np.random.default_rng(n)
    points = points_of(rng, n, choices)
    x = points_of(rng, 20, choices)
    theirs = KDEMultivariate(points, "".join("u" if c else "c" for c in choices), bw="normal_reference")
    ours = fitted(points, choices, boundary=False)
    np.testing.assert_allclose(ours.bandwidths, theirs.bw, rtol=1e-9)
    np.testing.assert_allclose(ours.log_density(x), np.log(theirs.pdf(x)), atol=1e-10)


@pytest.mark.parametrize("choices", [[3, 0], [5, 4, 0, 0], [10]], ids=str)
def test_with_more_choices_and_given_bandwidths_it_is_statsmodels_density(choices: list[int]) -> None:
    rng = np.random.default_rng(1)
    points = points_of(rng, 200, choices)
    x = points_of(rng, 20, choices)
    bandwidths = rng.uniform(0.05, 0.4, len(choices))
    theirs = KDEMultivariate(points, "".join("u" if c else "c" for c in choices), bw=bandwidths)
    ours = kde.fit(points, coordinates(choices), bandwidths, boundary=False)
    np.testing.assert_allclose(ours.log_density(x), np.log(theirs.pdf(x)), atol=1e-10)


def total_mass(density: kde.Density) -> float:
    """Return ∫ p over the numeric coordinate (the first), Σ over the categorical ones."""
    nodes, weights = np.polynomial.legendre.leggauss(5)
    u = ((np.arange(1000)[:, None] + (1 + nodes) / 2) / 1000).ravel()  # five nodes in each of 1000 panels
    total = 0.0
    for rest in itertools.product(*(range(int(c)) for c in density.coordinates.choices[1:])):
        x = np.column_stack([u, np.tile(np.array(rest, dtype=float), (len(u), 1))])
        total += float(np.exp(density.log_density(x)) @ np.tile(weights / 2000, 1000))
    return total


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([[0], [0, 3], [0, 2, 4]]), st.sampled_from([0, 0.3]))
def test_densities_integrate_to_one(seed: int, n: int, choices: list[int], missing: float) -> None:
    points = points_of(np.random.default_rng(seed), n, choices, missing)
    assert total_mass(fitted(points, choices)) == pytest.approx(1, abs=1e-6)


def test_without_boundary_normalisation_mass_leaks_out_of_the_unit_interval() -> None:
    points = np.array([[0.01], [0.02], [0.3]])
    assert total_mass(fitted(points, [0], boundary=False)) < 0.95


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([0.0, 0.5, 1.0]))
def test_log_densities_are_finite_everywhere(seed: int, n: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    choices = [0, 0, 2, 10]
    points = points_of(rng, n, choices, missing)
    points[:, 0] = 0.25  # no spread: the bandwidth is at its floor
    points[:, 3] = 4  # one choice seen out of ten
    corners = np.array([[0, 0, 0, 0], [1, 1, 1, 9], [0.25, 0, 1, 4]])
    x = np.vstack([corners, points_of(rng, 10, choices, missing)])
    k = coordinates(choices, [True] * 4)
    density = kde.fit(points, k, kde.scott(points, k))
    assert np.isfinite(density.log_density(x)).all()


def test_an_unseen_choice_is_unlikely_not_infinitely_likely() -> None:
    density = fitted(np.full((20, 1), 2.0), [3])
    log_p = density.log_density(np.array([[0.0], [1.0], [2.0]]))
    np.testing.assert_allclose(np.exp(log_p), [0.0005, 0.0005, 0.999])


def test_categorical_bandwidths_never_exceed_the_uniform_kernel() -> None:
    rng = np.random.default_rng(0)
    choices = [2, 3, 10, 50]
    bandwidths = kde.scott(points_of(rng, 6, choices), coordinates(choices))
    assert (bandwidths <= [(c - 1) / c for c in choices]).all()


@given(st.integers(0, 1000), st.permutations(range(5)))
def test_the_order_in_which_choices_are_declared_is_irrelevant(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    points = points_of(rng, 30, [5, 0])
    relabelled = points.copy()
    relabelled[:, 0] = np.array(order)[points[:, 0].astype(int)]
    ours, theirs = fitted(points, [5, 0]), fitted(relabelled, [5, 0])
    np.testing.assert_allclose(ours.log_density(points), theirs.log_density(relabelled), atol=1e-12)


def test_the_order_of_the_points_is_irrelevant_and_blocks_do_not_show() -> None:
    rng = np.random.default_rng(0)
    points = points_of(rng, 5000, [0, 0, 3])
    x = points_of(rng, 8, [0, 0, 3])
    one, other = fitted(points, [0, 0, 3]), fitted(points[::-1], [0, 0, 3])
    np.testing.assert_allclose(one.log_density(x), other.log_density(x), atol=1e-12)


def test_an_inactive_coordinate_of_a_point_has_the_uniform_density() -> None:
    missing = kde.fit(
        np.array([[0.4, np.nan, np.nan]]), coordinates([0, 0, 3], [False, True, True]), np.array([0.2, 0.1, 0.3])
    )
    alone = kde.fit(np.array([[0.4]]), coordinates([0]), np.array([0.2]))
    x = np.array([[0.1, 0.5, 0.0], [0.9, 0.3, 2.0]])
    np.testing.assert_allclose(missing.log_density(x), alone.log_density(x[:, :1]) - np.log(3), atol=1e-12)


def test_a_coordinate_that_is_inactive_in_x_is_integrated_out() -> None:
    rng = np.random.default_rng(0)
    points = points_of(rng, 20, [0, 0, 4])
    h = np.array([0.1, 0.2, 0.3])
    full = kde.fit(points, coordinates([0, 0, 4], [False, True, True]), h)
    marginal = kde.fit(points[:, :1], coordinates([0]), h[:1])
    x = np.array([[0.3, np.nan, np.nan]])
    np.testing.assert_allclose(full.log_density(x), marginal.log_density(x[:, :1]), atol=1e-12)


def test_samples_follow_the_density() -> None:
    rng = np.random.default_rng(0)
    points = np.array([[0.02, 0.0], [0.5, 2.0], [0.98, 2.0]])
    density = kde.fit(points, coordinates([0, 3]), np.array([0.1, 0.4]))
    drawn = density.sample(rng, 20_000)
    assert ((drawn[:, 0] >= 0) & (drawn[:, 0] <= 1)).all()

    grid = np.linspace(0, 1, 2001)
    marginal = kde.fit(points[:, :1], coordinates([0]), np.array([0.1]))
    cdf = np.cumsum(np.exp(marginal.log_density(grid[:, None])))
    assert kstest(drawn[:, 0], lambda u: np.interp(u, grid, cdf / cdf[-1])).pvalue > 1e-3

    expected = np.array([0.6 + 2 * 0.2, 3 * 0.2, 0.2 + 2 * 0.6]) / 3
    assert chisquare(np.bincount(drawn[:, 1].astype(int)), expected * 20_000).pvalue > 1e-3


def test_widening_multiplies_every_bandwidth_and_stops_at_uniform() -> None:
    points = np.array([[0.5, 1.0]])
    density = kde.fit(points, coordinates([0, 4]), np.array([0.01, 0.3]))
    drawn = density.sample(np.random.default_rng(0), 20_000, widen=3)
    assert drawn[:, 0].std() == pytest.approx(0.03, rel=0.05)
    assert np.mean(drawn[:, 1] == 1) == pytest.approx(1 / 4, abs=0.02)
    unwidened = density.sample(np.random.default_rng(0), 20_000, widen=3, widen_categorical=False)
    assert np.mean(unwidened[:, 1] == 1) == pytest.approx(0.7, abs=0.02)


def test_samples_of_an_inactive_coordinate_are_uniform() -> None:
    density = kde.fit(np.array([[np.nan, np.nan]]), coordinates([0, 3], [True, True]), np.array([0.01, 0.01]))
    drawn = density.sample(np.random.default_rng(0), 5000)
    assert kstest(drawn[:, 0], "uniform").pvalue > 1e-3
    assert chisquare(np.bincount(drawn[:, 1].astype(int))).pvalue > 1e-3


def test_points_that_are_not_there_yet_widen_the_kernels() -> None:
    one_point = np.array([[0.5, 0.0]])
    np.testing.assert_allclose(kde.scott(one_point, coordinates([0, 2])), 1e-3)
    wide = kde.scott(one_point, coordinates([0, 2]), unknown=9)
    expected = 1.06 * np.sqrt([0.9 / 12, 0.55 * 0.45]) * 10 ** (-1 / 6)
    np.testing.assert_allclose(wide, expected)


def test_the_last_bits_of_points_do_not_reach_the_bandwidths() -> None:
    """Other machines compute different last bits; proposals must be equal nevertheless."""
    rng = np.random.default_rng(0)
    points = points_of(rng, 200, [0, 0, 0, 4])
    noisy = np.where(rng.random(points.shape) < 0.5, np.nextafter(points, 2), points)
    noisy[:, 3] = points[:, 3]
    kinds = coordinates([0, 0, 0, 4])
    assert (noisy != points).any()
    assert kde.scott(noisy, kinds).tolist() == kde.scott(points, kinds).tolist()
