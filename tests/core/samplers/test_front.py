"""Gaussian processes for several objectives and constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bohb
from bohb.analysis.why import why
from bohb.core.goals import goals_of
from bohb.core.order import cells, hypervolume
from bohb.core.samplers.front import SeveralSampler, log_hypervolume_improvement
from bohb.core.samplers.plateaus import Plateaus
from bohb.core.samplers.targets import Table, best_first, quantities, targets, winsorised
from bohb.core.trial import outcome_of

SPACE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)}
BEST: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "preset": "best"}


def values(config: dict[str, Any], budget: float) -> dict[str, float]:
    x, y = config["x"], config["y"]
    return {"error": x**2 + y + 0.1 / budget, "speed": 1 - (1 - x) ** 2 - y, "memory": 1 + 2 * y + x}


def played(made: bohb.BOHB, trials: int) -> bohb.BOHB:
    for _ in range(trials):
        trial = made.ask()
        made.tell(trial, values(trial.config, trial.budget))
    return made


def by_process(made: bohb.BOHB) -> list[bohb.Trial]:
    return [trial for trial in made.history.trials.values() if trial.explains == "process"]


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_cells_cover_exactly_what_the_front_does_not_dominate(m: int) -> None:
    rng = np.random.default_rng(m)
    for n in (0, 1, 5):
        front, reference, floor = rng.random((n, m)), np.full(m, 0.8), -1.0
        lower, upper = cells(front, reference)
        covered = float(np.prod(upper - np.maximum(lower, floor), axis=1).sum())
        dominated = hypervolume(front.tolist(), reference.tolist())
        assert covered + dominated == pytest.approx((0.8 - floor) ** m)
        for point in rng.random((20, m)) * 0.8:
            inside = ((lower < point) & (point < upper)).all(axis=1).sum()
            assert inside == (not (front <= point).all(axis=1).any())


@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_expected_hypervolume_improvement_is_that_of_samples(m: int) -> None:
    rng = np.random.default_rng(m)
    front, reference = rng.random((4, m)), np.full(m, 1.1)
    mean, deviation = rng.random((1, m)), 0.1 + 0.4 * rng.random((1, m))
    exact = float(np.exp(log_hypervolume_improvement(mean, deviation, *cells(front, reference))[0]))
    before = hypervolume(front.tolist(), reference.tolist())
    drawn = mean + deviation * rng.standard_normal((2000, m))
    gains = [hypervolume([*front.tolist(), row], reference.tolist()) - before for row in drawn.tolist()]
    assert exact == pytest.approx(np.mean(gains), abs=4 * float(np.std(gains)) / 2000**0.5)


def test_far_from_the_front_the_improvement_is_still_told_apart() -> None:
    lower, upper = cells(np.zeros((1, 2)), np.ones(2))
    mean = np.array([[30.0, 30.0], [40.0, 40.0], [1e6, 1e6]])
    score = log_hypervolume_improvement(mean, np.ones((3, 2)), lower, upper)
    assert np.isfinite(score).all()
    assert score[0] > score[1] > score[2]


def test_every_objective_and_every_other_bounded_value_is_modelled_once() -> None:
    goals = goals_of(["error", "-speed"], {"speed": ">= 2", "memory": "<= 4", "margin": ">= 0"})
    found = quantities(goals)
    assert len(found) == 4
    assert [q.bounds for q in found[:2]] == [[], [(-2.0, True)]]
    good = outcome_of({"error": 0.1, "speed": 3, "memory": 3, "margin": 1}, goals)
    bad = outcome_of({"error": 0.1, "speed": 1, "memory": 5, "margin": -1}, goals)
    for quantity in found[1:]:
        [(bound, upper)] = quantity.bounds
        assert upper
        assert quantity.value(good) < bound < quantity.value(bad)
    crashed = outcome_of(ValueError("no"), goals)
    assert quantities(goals)[0].value(crashed) == np.inf
    assert np.isnan([quantity.value(crashed) for quantity in found[1:]]).all()


def test_values_count_by_their_ratios_so_that_budgets_with_twice_the_values_differ_by_a_constant() -> None:
    goals = goals_of(["error", "seconds", "-speed"], {"memory": "<= 10"})
    results = [outcome_of({"error": 0.1, "seconds": v, "speed": v, "memory": v}, goals) for v in (5, 10, 20, 40)]
    error, *others = quantities(goals, results)
    signed = [outcome_of({"error": 0.1, "seconds": v, "speed": v, "memory": v}, goals) for v in (-1, 1)]
    assert [quantity.unit for quantity in quantities(goals, signed)] == [0.0] * 4
    assert (error.unit, error.value(results[0])) == (0.0, 0.1)
    assert [abs(quantity.bounds[0][0]) for quantity in others if quantity.bounds] == [pytest.approx(np.arcsinh(10))]
    for quantity in others:
        steps = np.abs(np.diff([quantity.value(result) for result in results]))
        assert steps == pytest.approx(np.log(2), rel=0.03)
    seconds, speed, _ = others
    assert seconds.loss(seconds.value(results[2])) == pytest.approx(20)
    assert speed.loss(speed.value(results[2])) == pytest.approx(-20)
    assert np.isfinite(seconds.loss(1e300))


def test_most_random_draws_are_likely_to_keep_the_constraints_and_the_others_are_not_filtered() -> None:
    settings = BEST | {"random_fraction": 0.8}
    made = played(bohb.BOHB(SPACE, **settings, seed=0, objectives=["error"], constraints={"memory": "<= 1.3"}), 70)
    drawn = [t for t in list(made.history.trials.values())[30:] if t.reason.get("why") == "random fraction"]
    kept = [(("chance" in t.reason), values(t.config, t.budget)["memory"] <= 1.3) for t in drawn]
    filtered, others = [ok for likely, ok in kept if likely], [ok for likely, ok in kept if not likely]
    assert len(filtered) > len(others) > 3
    assert np.mean(filtered) > 0.5 > np.mean(others)  # 2 % of random configurations keep it
    likely = next(trial.number for trial in drawn if "chance" in trial.reason)
    assert "drawn at random, like a share of 0.8 of all" in why(made.history, likely).sentences[0]
    assert "among those likely to keep the constraints" in why(made.history, likely).sentences[0]


def test_a_bound_far_beyond_the_best_stays_visible_when_high_values_are_cut() -> None:
    values = np.array([0.0, 0.1, 0.2, 5.0, 100.0])
    assert winsorised(values).max() < 1
    assert (winsorised(values, 4.0) > 4.0).sum() == 2


def test_too_many_results_are_chosen_by_merit_instead_of_the_value_that_is_modelled() -> None:
    found = targets(Table(np.arange(6), np.arange(6.0)[:, None]))
    assert sorted(best_first(found, 3).rows.tolist()) == [0, 1, 2]
    assert sorted(best_first(found, 3, np.array([0, 1, 1, 1, 0, 0])).rows.tolist()) == [0, 4, 5]


def test_proposals_spread_along_the_front() -> None:
    made = played(bohb.BOHB(SPACE, **BEST, seed=0, objectives=["error", "-speed"]), 50)
    late = [trial.config for trial in by_process(made)][-12:]
    assert np.median([config["y"] for config in late]) < 0.1
    assert np.ptp([config["x"] for config in late]) > 0.5
    front = [[r.values["error"], -r.values["speed"]] for r in made.front]
    assert hypervolume(front, [1.0, 0.0]) > 0.65  # the whole front has 0.83, random search reaches about 0.5


def test_proposals_keep_the_constraint_that_low_budgets_have_taught() -> None:
    made = played(bohb.BOHB(SPACE, **BEST, seed=1, objectives=["error"], constraints={"memory": "<= 1.2"}), 45)
    late = by_process(made)[-10:]
    assert len(late) == 10
    kept = [values(trial.config, trial.budget)["memory"] <= 1.2 for trial in late]
    assert np.mean(kept) >= 0.7  # 1 % of random configurations keep it
    assert made.incumbent is not None
    assert made.incumbent.feasible


def test_the_reason_names_what_was_expected_in_the_users_sign() -> None:
    goals: dict[str, Any] = {"objectives": ["error", "-speed"], "constraints": {"memory": "<= 2"}}
    reason = by_process(played(bohb.BOHB(SPACE, **BEST, seed=0, **goals), 40))[-1].reason
    assert set(reason) == {
        "log_improvement", "expected", "deviations", "model_points", "front", "chance",
    }  # fmt: skip
    assert set(reason["expected"]) == {"error", "speed"}
    assert 0 <= reason["chance"] <= 1
    assert -0.5 < reason["expected"]["error"] < 2.5


def test_five_objectives_are_proposed_for_by_scalarisation() -> None:
    names = [f"o{i}" for i in range(5)]
    made = bohb.BOHB(SPACE, **BEST, seed=0, objectives=names)
    for number in range(30):
        trial = made.ask()
        losses = {name: abs(trial.config["x"] - i / 4) + trial.config["y"] for i, name in enumerate(names)}
        made.tell(trial, {"losses": losses} if number != 5 else ValueError("crash"))
    assert by_process(made)
    assert len(made.front) >= 3


def test_an_objective_that_never_differs_and_a_value_that_is_never_known_are_no_obstacle() -> None:
    made = bohb.BOHB(SPACE, **BEST, seed=0, objectives=["error", "size"], constraints={"memory": "<= 1"})
    for number in range(25):
        trial = made.ask()
        result = {"error": trial.config["x"], "size": 3.0, "memory": 2.0 if number % 2 else float("nan")}
        made.tell(trial, result)
    assert by_process(made)


def test_sixteen_workers_get_sixteen_different_points() -> None:
    made = played(bohb.BOHB(SPACE, **BEST, seed=3, objectives=["error", "-speed"]), 30)
    points = [tuple(trial.config.values()) for trial in made.ask_many(16)]
    assert len(set(points)) == 16
    nearest = [min(np.abs(np.subtract(a, b)).max() for b in points if b != a) for a in points]
    assert min(nearest) > 1e-4


@pytest.mark.parametrize(("stepped", "lowered"), [(("error", "speed"), True), (("error",), False)])
def test_only_what_is_a_plateau_of_every_objective_is_held_back(stepped: tuple[str, ...], lowered: bool) -> None:
    """On 125 cubes, the losses of the stepped objectives are constant."""
    made = bohb.BOHB(SPACE, **BEST, seed=0, objectives=["error", "-speed"])
    for _ in range(60):
        trial = made.ask()
        corner = {name: np.floor(5 * value) / 5 for name, value in trial.config.items()}
        found = values(trial.config, trial.budget)
        made.tell(trial, found | {name: values(corner, trial.budget)[name] for name in stepped})
    sampler = SeveralSampler(made.space, made.history.goals)
    surrogates = sampler.surrogates(np.random.default_rng(0), made.history)
    assert surrogates is not None
    widths = [process.plateaus.width for process in surrogates.objectives]
    assert [width > 0 for width in widths] == ["error" in stepped, "speed" in stepped]
    known = surrogates.parents
    flat = [replace(process, plateaus=Plateaus(0.0, process.plateaus.points)) for process in surrogates.objectives]
    without = replace(surrogates, objectives=tuple(flat))
    fell = without.log_improvement(known) - surrogates.log_improvement(known)
    assert (fell > 5).all() if lowered else (fell == 0).all()
