"""Problems agree with their sources; those that need missing data are skipped."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from benchmarks.data import directory
from benchmarks.methods import space_of
from benchmarks.problem import Parameter, uniform
from benchmarks.problems import problem_of
from benchmarks.problems.smooth import FUNCTIONS
from benchmarks.problems.svm import MINIMUM
from scipy.optimize import minimize

from bohb import Space

needs_data = pytest.mark.skipif(not (directory() / "README.md").exists(), reason="the benchmark data is not here")
NAMES = (
    "svm_mnist",
    "lcbench-3945",
    "rbv2_ranger-3",
    "iaml_super-1489",
    "iaml_glmnet-1489",
    "taskset-imdb_patch32_GRU128_bs128",
    "table-segment",
    "table-protein",
    "table-nasbench201",
)


@pytest.mark.parametrize(
    "name",
    [
        "counting_ones-2-2",
        "hartmann-3",
        *(f"smooth-{function}-0.1-0.2" for function in FUNCTIONS),
        "smooth-levy-0.1-0.2-0.3",
        "reversed-30-0.02",
        *(pytest.param(n, marks=needs_data) for n in NAMES),
    ],
)
def test_random_configurations_are_legal_and_no_better_than_the_best_known(name: str) -> None:
    problem = problem_of(name)
    assert problem.name == name
    space = Space(space_of(problem.parameters))
    rng = np.random.default_rng(0)
    for i in range(20):
        config = uniform(rng, problem.parameters)
        space.encode(config)  # raises if a value or a condition is wrong
        evaluation = problem.evaluate(config, problem.budgets[i % len(problem.budgets)], i)
        assert math.isfinite(evaluation.cost)
        assert evaluation.cost > 0
        assert problem.regret(config, evaluation.loss or 0.0) >= 0


def test_near_the_optimum_of_a_reversed_problem_only_the_largest_budget_is_lower_than_in_the_trap() -> None:
    problem = problem_of("reversed-30-0")
    trap = {f"x_{i}": 0.5 for i in range(30)}
    corner = {f"x_{i}": 0.9 if i % 2 else 0.1 for i in range(30)}
    losses = [
        [problem.evaluate(config, budget, 0).loss or 0.0 for config in (corner, trap)] for budget in problem.budgets
    ]
    assert [near < there for near, there in losses] == [False, False, False, True]
    assert problem.regret(corner, 0.0) == pytest.approx(0, abs=1e-3)
    assert problem.regret(trap, 0.0) > 0.3


def test_an_unknown_problem_is_told_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="counting_ones-8-8"):
        problem_of("counting_twos")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_smooth_functions_reach_their_minimum_and_not_less(name: str) -> None:
    function = FUNCTIONS[name]
    d, rng = len(function.low), np.random.default_rng(0)
    found = min(
        minimize(function, start, bounds=[(0, 1)] * d, options={"ftol": 1e-15}).fun for start in rng.random((200, d))
    )
    # Ackley's function has too many local minima for such a search; its minimum is where all numbers are 0.
    found = min(found, function(function.low / (function.low - function.high)))
    assert found == pytest.approx(function.minimum, abs=1e-6)


def test_small_budgets_of_smooth_functions_are_biased_and_noisy() -> None:
    problem = problem_of("smooth-rosenbrock-0.1-0.2")
    config = uniform(np.random.default_rng(0), problem.parameters)
    low, high = problem.budgets[0], problem.budgets[-1]
    assert len({problem.evaluate(config, high, seed).loss for seed in range(5)}) == 1
    assert len({problem.evaluate(config, low, seed).loss for seed in range(5)}) == 5
    noisy = problem_of("smooth-rosenbrock-0.1-0.2-0.3")
    assert len({noisy.evaluate(config, high, seed).loss for seed in range(5)}) == 5
    shifted, exact = problem_of("smooth-rosenbrock-0.1-0"), problem_of("smooth-rosenbrock-0-0")
    assert shifted.evaluate(config, low, 0).loss != exact.evaluate(config, low, 0).loss
    assert shifted.evaluate(config, high, 0).loss == exact.evaluate(config, high, 0).loss


def test_the_largest_budget_of_hartmann_has_the_known_minimum() -> None:
    problem = problem_of("hartmann-3")
    best = dict(zip(("x_0", "x_1", "x_2"), (0.114614, 0.555649, 0.852547), strict=True))
    assert problem.regret(best, 0.0) == pytest.approx(0, abs=1e-5)
    losses = [problem.evaluate(best, budget, 0).loss or 0.0 for budget in problem.budgets]
    assert losses == sorted(losses, reverse=True)  # smaller budgets have lower peaks


def test_random_values_cover_their_ranges_and_scales() -> None:
    rng = np.random.default_rng(0)
    parameters = [Parameter("n", "int", 1, 3), Parameter("r", "float", 1e-4, 1.0, log=True)]
    configs = [uniform(rng, parameters) for _ in range(300)]
    assert {config["n"] for config in configs} == {1, 2, 3}
    assert 0.4 < np.mean([config["r"] < 1e-2 for config in configs]) < 0.6


@needs_data
def test_the_svm_surrogate_has_the_losses_that_the_authors_recorded() -> None:
    problem = problem_of("svm_mnist")
    recorded = json.loads((directory() / "icml2018" / "reference_trajectories.json").read_text())["svm"]
    lowest = min(loss for runs in recorded.values() for run in runs for loss in run["losses"])
    assert lowest == pytest.approx(MINIMUM, abs=1e-15)
    rng = np.random.default_rng(0)
    ours = [problem.evaluate(uniform(rng, problem.parameters), 1.0, 0).loss for _ in range(300)]
    assert min(loss for loss in ours if loss is not None) == MINIMUM


@needs_data
def test_conditions_of_the_surrogates_are_kept() -> None:
    parameters = {p.name: p for p in problem_of("iaml_super-1489").parameters}
    assert parameters["xgboost.eta"].active_if == (
        ("xgboost.booster", ("dart", "gbtree")),
        ("learner", ("xgboost",)),
    )
    assert "trainsize" not in parameters


@needs_data
def test_a_measured_configuration_of_taskset_stands_for_itself() -> None:
    problem = problem_of("taskset-imdb_patch32_GRU128_bs128")
    with np.load(directory() / "taskset" / "imdb_patch32_GRU128_bs128.npz") as stored:
        hp, curves = stored["hp"], stored["valid"]
    for row in (0, 17, 999):
        values = [*hp[row]]
        values[1:3] = 1 - hp[row, 1], 1 - hp[row, 2]
        config = dict(zip((p.name for p in problem.parameters), values, strict=True))
        assert problem.evaluate(config, problem.budgets[-1], 0).loss == pytest.approx(float(curves[row, -1]))


@needs_data
def test_a_larger_budget_of_a_table_adds_seeds_to_those_of_the_smaller() -> None:
    problem = problem_of("table-nasbench201")
    config = uniform(np.random.default_rng(1), problem.parameters)
    one = [problem.evaluate(config, 1.0, seed) for seed in range(20)]
    three = [problem.evaluate(config, 3.0, seed) for seed in range(20)]
    assert len({e.loss for e in one}) > 1  # which seed comes first depends on the evaluation's seed
    assert len({round(e.loss or 0.0, 12) for e in three}) == 1  # there are only three
    assert all(a.cost < b.cost for a, b in zip(one, three, strict=True))
