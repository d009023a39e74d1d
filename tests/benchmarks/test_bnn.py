from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import evaluations
from benchmarks.data import Missing
from benchmarks.evaluations import Evaluations
from benchmarks.experiment import measure
from benchmarks.paper import bnn
from benchmarks.problems import problem_of
from benchmarks.problems.bnn import BayesianNetwork
from benchmarks.problems.perceptron import Perceptron
from benchmarks.problems.sghmc import Chain, Network, Sampler, negative_log_likelihood, predictive, samples
from scipy import stats

CONFIG = {"l_rate": 1e-2, "burn_in": 0.3, "n_units_1": 16, "n_units_2": 16, "mdecay": 0.05}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a data directory in which the Boston data is a noisy sine."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(400, 2))
    y = 5 * np.sin(X[:, 0]) + 0.5 * rng.standard_normal(400)
    (tmp_path / "raw").mkdir()
    np.savez(tmp_path / "raw" / "boston.npz", X=X, y=y)
    monkeypatch.setenv("BOHB_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("data_size", [1, 50])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sghmc_recovers_mean_and_variance_of_a_gaussian(seed: int, data_size: int) -> None:
    """The vector holds 1000 chains per coordinate. Tolerances: 5 % of a standard deviation, 5 % of the variance."""
    mean, deviation = np.array([[1.0], [-2.0], [0.5]]), np.array([[0.5], [1.0], [2.0]])
    theta = np.zeros(3000, dtype=np.float32)
    rng = np.random.default_rng(seed)
    sampler = Sampler(rng, theta, step_length=0.1, momentum_decay=0.1, data_size=data_size)
    kept = []
    for step in range(1500):
        gradient = (theta.reshape(3, 1000) - mean) / deviation**2 / data_size
        sampler.step(gradient.ravel().astype(np.float32), adapt=step < 300)
        if step >= 700 and step % 50 == 0:
            kept.append(theta.reshape(3, 1000).copy())
    found = np.concatenate(kept, axis=1)
    np.testing.assert_allclose((found.mean(1) - mean[:, 0]) / deviation[:, 0], 0, atol=0.05)
    np.testing.assert_allclose(found.var(1) / deviation[:, 0] ** 2, 1, atol=0.05)


def test_scales_stay_as_they_are_after_the_burn_in() -> None:
    rng = np.random.default_rng(0)
    sampler = Sampler(rng, np.zeros(4, dtype=np.float32), step_length=0.1, momentum_decay=0.1, data_size=1)
    for _ in range(20):
        sampler.step(np.array([1, 10, 100, 1000], dtype=np.float32), adapt=True)
    drift = sampler._drift.copy()
    assert np.all(np.diff(drift) < 0)  # steeper coordinates take shorter steps
    sampler.step(np.ones(4, dtype=np.float32), adapt=False)
    np.testing.assert_array_equal(sampler._drift, drift)


def test_the_gradient_is_the_derivative_of_the_energy() -> None:
    rng = np.random.default_rng(1)
    network = Network(rng, 3, (4, 5))
    network.theta[:] = rng.standard_normal(len(network.theta)) * 0.5
    network.theta[-1] = -1.0
    X, y = rng.standard_normal((20, 3)).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    gradient = network.gradient(X, y, 300).copy()
    numeric = np.empty(len(gradient))
    for k in range(len(gradient)):
        sides = []
        for shift in (0.01, -0.01):
            network.theta[k] += np.float32(shift)
            sides.append(network.energy(X, y, 300))
            network.theta[k] -= np.float32(shift)
        numeric[k] = (sides[0] - sides[1]) / 0.02
    np.testing.assert_allclose(gradient, numeric, atol=2e-3, rtol=2e-3)


def test_networks_in_a_stack_are_independent_and_can_be_dropped() -> None:
    rng = np.random.default_rng(2)
    network = Perceptron(rng, 3, (4, 5), stack=(3,))
    X, error = rng.standard_normal((3, 6, 3)).astype(np.float32), rng.standard_normal((3, 6)).astype(np.float32)
    first, second, output = network.forward(X)
    network.backward(X, first, second, error)
    all_slopes, other = network.slope.copy(), np.arange(len(network.theta), dtype=np.float32)
    (kept,) = network.keep([2, 0], other)
    assert len(kept) == len(network.theta) == len(other) * 2 // 3
    first, second, again = network.forward(X[[2, 0]])
    np.testing.assert_allclose(again, output[[2, 0]], rtol=1e-5)
    network.backward(X[[2, 0]], first, second, error[[2, 0]])
    # `other` holds positions, so `kept` says where the parameters came from.
    np.testing.assert_allclose(network.slope, all_slopes[kept.astype(int)], rtol=1e-4, atol=1e-6)


def test_negative_log_likelihood_is_that_of_a_gaussian() -> None:
    y, mean, variance = np.array([0.0, 1.0, -3.0]), np.array([0.0, 0.5, -1.0]), np.array([1.0, 4.0, 0.25])
    expected = -float(np.mean(stats.norm.logpdf(y, mean, np.sqrt(variance))))
    assert negative_log_likelihood(y, mean, variance) == pytest.approx(expected)
    assert negative_log_likelihood(y[:1], mean[:1], variance[:1]) == pytest.approx(0.5 * math.log(2 * math.pi))


@pytest.mark.parametrize(
    ("burn_in", "steps", "kept"),
    [(0.0, 1111, range(0, 1111, 100)), (0.8, 1111, range(900, 1111, 100)), (0.3, 10_000, range(3000, 10_000, 100))],
)
def test_every_hundredth_step_after_the_burn_in_is_kept(burn_in: float, steps: int, kept: range) -> None:
    assert Chain((16, 16), 0.01, burn_in, 0.05, steps).kept == kept


def test_predictive_variance_is_the_spread_of_the_samples_and_their_noise() -> None:
    networks = [Network(np.random.default_rng(k), 2, (4, 4)) for k in range(3)]
    for k, network in enumerate(networks):
        network.theta[-1] = k
    X = np.ones((1, 2), dtype=np.float32)
    outputs = [float(network.predict(X)[0]) for network in networks]
    found = predictive(iter(networks), X, expected=3)
    assert found is not None
    assert found[0][0] == pytest.approx(np.mean(outputs), rel=1e-5)
    assert found[1][0] == pytest.approx(float(np.var(outputs)) + (1 + math.e + math.e**2) / 3, rel=1e-5)
    assert predictive(iter(networks), X, expected=4) is None


def test_a_chain_learns_a_noisy_sine(data: Path) -> None:
    problem = BayesianNetwork("boston")
    loss = problem.evaluate(CONFIG, 3333.3, 0).loss
    assert loss is not None
    assert loss < 2.5  # a constant with the targets' own variance has 2.7, the true function 0.73
    assert problem.evaluate(CONFIG, 3333.3, 0).loss == loss
    assert BayesianNetwork("boston").evaluate(CONFIG, 3333.3, 0).loss == loss
    assert BayesianNetwork("boston").evaluate(CONFIG, 3333.3, 1).loss != loss


def test_a_diverging_chain_fails_without_a_warning(data: Path) -> None:
    evaluation = BayesianNetwork("boston").evaluate({**CONFIG, "l_rate": 1e3}, 1111.1, 0)
    assert evaluation.loss is None
    assert evaluation.cost == 1111.1


def test_a_chain_ends_where_it_diverges() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 2)).astype(np.float32), rng.standard_normal(50).astype(np.float32)
    chain = Chain((16, 16), 1e10, 0.0, 0.0, 1000)
    with np.errstate(all="ignore"):
        assert 1 <= len(list(samples(rng, chain, X, y))) < len(chain.kept)


def test_budgets_are_those_of_the_paper() -> None:
    assert BayesianNetwork.budgets == pytest.approx((10_000 / 9, 10_000 / 3, 10_000))


def test_missing_data_and_unknown_names_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOHB_DATA", str(tmp_path))
    with pytest.raises(Missing, match=r"boston\.npz is missing"):
        BayesianNetwork("boston")
    with pytest.raises(ValueError, match="'year' must be one of"):
        BayesianNetwork("year")


def test_an_evaluation_is_done_once(tmp_path: Path) -> None:
    code, path = tmp_path / "code.py", tmp_path / "kept.jsonl"
    code.write_text("a = 1\n")
    count = itertools.count()

    def ask(seed: int = 0) -> int:
        row = Evaluations(path, (code,)).get({"x": 1.0}, 3.0, seed, lambda: {"loss": next(count)})
        return int(row["loss"])

    assert [ask(), ask(), ask(1), ask(1)] == [0, 0, 1, 1]
    with path.open("a") as file:
        file.write(json.dumps({"key": "cut off"})[:9])  # a process was killed while it wrote
    assert ask(1) == 1


def test_evaluations_of_other_code_are_not_used(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("a = 1\n")
    new.write_text("a = 2  # changed\n")
    path = tmp_path / "kept.jsonl"
    Evaluations(path, (old,)).get({}, 1.0, 0, lambda: {"loss": 1.0})
    assert Evaluations(path, (new,)).get({}, 1.0, 0, lambda: {"loss": 2.0})["loss"] == 2.0


def test_the_smoke_version_measures_losses_of_validation_and_test(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "KEPT", data / "evaluations")
    problem_of.cache_clear()
    try:
        measured = measure(replace(bnn.EXPERIMENT.shrunk(), runs=1), 1, data / "runs")
        finals = measured.finals("bnn-boston", "hyperband")
        assert sorted(finals) == [0]
        assert all(math.isfinite(loss) for loss in finals.values())
        assert bnn.held_out_losses(measured, bnn.kept_tests(["bnn-boston"]))["bnn-boston"]["hyperband"].endswith(
            "(1 runs)"
        )
    finally:
        problem_of.cache_clear()
