"""The Gaussian process: its kernel, its fit, its posterior."""

from __future__ import annotations

import math
from collections.abc import Callable

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from bohb.core.samplers.gaussian import log_expected_improvement
from bohb.core.samplers.process import (
    Data,
    Embedding,
    Kernel,
    Process,
    cholesky,
    fit,
    matern,
    negative_log_likelihood,
    prior,
)
from bohb.core.space import Array, Space

Indices = NDArray[np.intp]


def conditional_space() -> Space:
    space = CS.ConfigurationSpace()
    space.add(CS.Categorical("kind", ["a", "b", "c"]), CS.Float("x", (0, 1)), CS.Float("y", (0, 1)))
    space.add(CS.Categorical("sub", ["u", "v"]))
    space.add(CS.EqualsCondition(space["y"], space["kind"], "a"), CS.EqualsCondition(space["sub"], space["kind"], "a"))
    return Space(space)


def distances(space: Space, *configs: dict[str, object]) -> Array:
    points = Embedding(space)(np.array([space.encode(config) for config in configs]))
    return np.asarray(np.sqrt(((points[:, None] - points) ** 2).sum(2)))


def test_two_different_choices_are_one_apart() -> None:
    space = Space({"c": ["a", "b", "c"], "d": ["x", "y"]})
    d = distances(space, {"c": "a", "d": "x"}, {"c": "b", "d": "x"}, {"c": "c", "d": "x"}, {"c": "a", "d": "y"})
    assert d[0, 1] == pytest.approx(1)
    assert d[1, 2] == pytest.approx(1)
    assert d[1, 3] == pytest.approx(math.sqrt(2))


def test_an_inactive_number_is_as_far_from_every_value_as_the_ends_of_its_range() -> None:
    space = conditional_space()
    active = [{"kind": "a", "x": 0.5, "y": y, "sub": "u"} for y in (0.0, 0.3, 1.0)]
    d = distances(space, *active, {"kind": "b", "x": 0.5})
    assert d[0, 2] == pytest.approx(1)  # the ends of the range
    # from the inactive one: the choice of `kind` 1, `y` 1, and `sub` 1
    assert d[:3, 3] == pytest.approx(math.sqrt(3))
    assert distances(space, {"kind": "b", "x": 0.5}, {"kind": "c", "x": 0.5})[0, 1] == pytest.approx(1)


def test_matern_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.random((70, 3)), rng.random((5, 3))
    r = np.sqrt(5 * ((A[:, None] - B) ** 2).sum(2))
    assert matern(A, B) == pytest.approx((1 + r + r**2 / 3) * np.exp(-r))


def example(seed: int, n: int = 30, studies: int = 1) -> tuple[Kernel, Indices, Array, Indices, Array]:
    rng = np.random.default_rng(seed)
    centre = prior(3, 3, studies)[0].vector()
    kernel = Kernel.of(centre + 0.3 * rng.standard_normal(len(centre)), 3, studies)
    owner = np.array([0, 1, 1, 2])
    return kernel, owner, rng.random((n, 4)), rng.integers(0, 3 * studies, n), rng.standard_normal(n)


@pytest.mark.parametrize(("seed", "studies"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_the_gradient_is_that_of_the_likelihood(seed: int, studies: int) -> None:
    kernel, owner, points, below, y = example(seed, studies=studies)
    theta = kernel.vector()
    _, gradient = negative_log_likelihood(kernel, Data(owner, points, below, y))
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-5
        more, less = (
            negative_log_likelihood(Kernel.of(theta + s, 3, studies), Data(owner, points, below, y))[0]
            for s in (step, -step)
        )
        assert gradient[i] == pytest.approx((more - less) / 2e-5, rel=1e-4, abs=1e-5)


def covariance(kernel: Kernel, A: Array, groups_a: Indices, B: Array, groups_b: Indices) -> Array:
    """The formula of the module, entry by entry."""
    found = matern(A, B)
    rungs = len(kernel.noises)
    scales = [1.0, *np.exp(kernel.scales)]
    study_scales = [1.0, *np.exp(kernel.study_scales)]
    study_decays = [0.0, *np.exp(kernel.study_decays)]
    for i, a in enumerate(groups_a.tolist()):
        for j, b in enumerate(groups_b.tolist()):
            (t, r), (u, q) = divmod(a, rungs), divmod(b, rungs)
            between = np.exp(kernel.decays)[min(r, q) : max(r, q)].sum()
            between += 0 if t == u else study_decays[t] + study_decays[u]
            found[i, j] *= np.exp(kernel.variance) * scales[r] * scales[q] * np.exp(-between)
            found[i, j] *= study_scales[t] * study_scales[u]
            found[i, j] += a == b
    return found


@pytest.mark.parametrize("studies", [1, 3])
def test_the_likelihood_is_that_of_a_normal_distribution(studies: int) -> None:
    kernel, owner, points, below, y = example(0, 8, studies)
    scaled = points * np.exp(-kernel.lengths)[owner]
    K = covariance(kernel, scaled, below, scaled, below)
    K += np.diag(np.exp(kernel.noises)[below % 3] + 1e-8)
    expected = 0.5 * y @ np.linalg.solve(K, y) + 0.5 * np.linalg.slogdet(K)[1]
    assert negative_log_likelihood(kernel, Data(owner, points, below, y))[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("studies", [1, 3])
def test_the_posterior_is_the_textbook_formula(studies: int) -> None:
    kernel, owner, points, below, y = example(1, 12, studies)
    process = Process(kernel, Data(owner, points, below, y))
    scale = np.exp(-kernel.lengths)[owner]
    at = np.random.default_rng(5).random((4, 4))
    top = np.zeros(4, dtype=np.intp)
    K = covariance(kernel, points * scale, below, points * scale, below) + np.diag(np.exp(kernel.noises)[below % 3])
    cross = covariance(kernel, at * scale, top, points * scale, below)
    mean, deviation = process.predict(process.similarity(at))
    assert mean == pytest.approx(cross @ np.linalg.solve(K, y), rel=1e-5)
    unknown = np.exp(kernel.variance) + 1
    assert deviation**2 == pytest.approx(unknown - np.diag(cross @ np.linalg.solve(K, cross.T)), rel=1e-4)
    assert process.mean(at, top) == pytest.approx(mean)
    assert process.observed_on_top() == pytest.approx(process.predict(process.similarity(points))[0])


def test_a_fit_finds_which_hyperparameter_matters() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((60, 2))
    y = np.sin(6 * points[:, 0])
    found = fit(prior(2, 1)[0], Data(np.arange(2), points, np.zeros(60, dtype=np.intp), (y - y.mean()) / y.std()), 12)
    assert found.lengths[1] - found.lengths[0] > 1  # more than e times as long


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.5])
def test_a_fit_finds_how_noisy_the_largest_budget_is(noise: float) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((60, 2))
    y = np.sin(4 * points[:, 0]) + points[:, 1]
    y = (y - y.mean()) / y.std() + noise * rng.standard_normal(60)
    found = fit(prior(2, 1)[0], Data(np.arange(2), points, np.zeros(60, dtype=np.intp), y), 30)
    deviation = float(np.exp(0.5 * found.noises[0]))
    assert noise / 1.5 < deviation < max(1.5 * noise, 0.02)


def two_rungs(low: Callable[[Array], Array]) -> tuple[Kernel, float]:
    """Fit 40 results on a low rung and 12 of the same configurations on top; return the error on top elsewhere."""
    rng = np.random.default_rng(1)
    points, elsewhere = rng.random((40, 2)), rng.random((50, 2))

    def top(X: Array) -> Array:
        return np.asarray(np.sin(5 * X[:, 0]) + X[:, 1])

    promoted = np.argsort(low(points))[:12]  # the best ones below
    y = np.concatenate([top(points[promoted]), low(points)])
    below = np.repeat([0, 1], [12, 40])
    X, centre, spread = np.vstack([points[promoted], points]), y.mean(), y.std()
    data = Data(np.arange(2), X, below, (y - centre) / spread)
    kernel = fit(prior(2, 2)[0], data, 30)
    process = Process(kernel, data)
    found = process.mean(elsewhere, 0) * spread + centre
    return kernel, float(np.sqrt(np.mean((found - top(elsewhere)) ** 2)) / np.std(top(elsewhere)))


def test_a_rung_that_agrees_is_believed_and_one_that_misleads_is_not() -> None:
    """The low rung that agrees tells about the 28 configurations that were never evaluated on top."""
    agrees, good = two_rungs(lambda X: np.asarray(np.sin(5 * X[:, 0]) + X[:, 1] + 0.7))
    misleads, _ = two_rungs(lambda X: np.asarray(np.cos(9 * X[:, 1]) - np.sin(7 * X[:, 0])))
    assert good < 0.1
    assert misleads.decays[0] - agrees.decays[0] > 2  # e² times the disagreement


@given(st.integers(0, 10_000))
def test_a_covariance_with_equal_rows_can_be_factorised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((3, 2))[rng.integers(3, size=20)]
    L = cholesky(matern(rows, rows))
    assert np.abs(L @ L.T - matern(rows, rows)).max() < 1e-3


@pytest.mark.parametrize("z", [-30.0, -8.0, -1.0001, -0.9999, 0.0, 2.5, 20.0])
def test_expected_improvement_is_the_integral_that_defines_it(z: float) -> None:
    # E max(0, z − Z) for a standard normal Z, scaled by φ(z) so that the tail does not underflow
    scaled, _ = quad(lambda t: t * math.exp(-0.5 * t**2 + t * z), 0, 60 if z < 5 else 100, limit=400)
    expected = math.log(scaled) + norm.logpdf(z)
    assert log_expected_improvement(np.array([z]))[0] == pytest.approx(expected, rel=1e-6)


def test_expected_improvement_is_finite_and_grows_however_far_out() -> None:
    z = -np.geomspace(1e7, 1e-3, 400)
    log_improvement = log_expected_improvement(z)
    assert np.isfinite(log_improvement).all()
    assert (np.diff(log_improvement) > 0).all()
