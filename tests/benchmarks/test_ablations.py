"""The Gaussian process over budgets: its mathematics, and the method that uses it."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.harness import simulate
from benchmarks.paper.ablations import (
    Array,
    GaussianProcessOverBudgets,
    Kernel,
    Process,
    fit,
    kernel_of,
    log_improvement,
    negative_log_likelihood,
    one_hot,
    standardised,
)
from scipy.optimize import approx_fprime

from bohb.core.space import Space
from tests.benchmarks.test_rivals import Mixed, legal

X = np.random.default_rng(0).random((30, 3))
Y = np.sin(3 * X[:, 0]) + X[:, 1]


def test_the_gradient_of_the_likelihood_is_its_slope() -> None:
    theta = np.array([0.1, -0.2, 0.3, 0.2, -3.0])

    def value(t: Array) -> float:
        return negative_log_likelihood(kernel_of(t), X, Y)[0]

    slope = approx_fprime(theta, value, 1e-6)
    assert negative_log_likelihood(kernel_of(theta), X, Y)[1] == pytest.approx(slope, abs=1e-3)


def test_the_process_passes_through_what_it_was_told_and_is_unsure_elsewhere() -> None:
    process = Process(Kernel(np.full(3, -0.7), 0.0, -12.0), X, Y)
    mean, deviation = process.predict(X)
    assert mean == pytest.approx(Y, abs=1e-2)
    assert deviation.max() < 0.05
    assert process.predict(X + 5)[1] == pytest.approx(np.ones(30))


def test_a_dimension_that_does_not_matter_gets_the_longest_length() -> None:
    lengths = fit(X, standardised(Y), None).lengths
    assert np.argmax(lengths) == 2


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 1.0), (0.8, 0.3), (-1.0, 0.5)])
def test_expected_improvement_is_the_mean_of_the_improvements(mean: float, deviation: float) -> None:
    draws = np.random.default_rng(1).normal(mean, deviation, 200_000)
    expected = np.maximum(0.2 - draws, 0).mean()
    assert np.exp(log_improvement(np.array([mean]), np.array([deviation]), 0.2))[0] == pytest.approx(expected, rel=0.05)


def test_a_diverged_loss_does_not_hide_the_others() -> None:
    assert np.ptp(standardised(np.array([0.1, 0.2, 0.3, 1e9]))[:3]) > 0.1


def test_any_two_choices_are_as_far_apart_as_the_ends_of_a_range() -> None:
    space = Space({"a": ["x", "y", "z"], "b": (0.0, 1.0)})
    rows = one_hot(space, np.array([[0, 0.5], [1, 0.5], [2, 0.5]]))
    gaps = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert gaps == pytest.approx(1 - np.eye(3))


def test_the_method_proposes_legal_configurations_and_repeats_itself() -> None:
    problem = Mixed()
    first, again = (
        simulate(GaussianProcessOverBudgets(problem, 3), problem, seed=0, full_evaluations=8) for _ in range(2)
    )
    assert all(legal(record.config) for record in first)
    assert first == again
    assert {record.budget for record in first} == set(problem.budgets)
