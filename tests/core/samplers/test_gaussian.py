"""Proposals by the Gaussian process: valid, different, reproducible and always available."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest

import bohb
from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.search import mutations
from bohb.core.space import Space
from bohb.core.trial import Origin
from bohb.journal import MemoryJournal

GP: dict[str, Any] = {"preset": "best"}
Loss = Callable[[dict[str, Any], float], float]
PLANE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def bowl(config: dict[str, Any], budget: float) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["y"] - 0.8) ** 2 + 0.1 / budget)


def study(loss: Loss, trials: int, space: Any = PLANE, seed: int = 0, **settings: Any) -> bohb.BOHB:
    made = bohb.BOHB(space, min_budget=1, max_budget=9, seed=seed, **{**GP, **settings})
    for _ in range(trials):
        trial = made.ask()
        made.tell(trial, loss(trial.config, trial.budget))
    return made


def proposed(history: History) -> list[dict[str, Any]]:
    return [t.config for t in history.trials.values() if t.explains == "process"]


def test_proposals_come_near_the_optimum() -> None:
    made = study(bowl, 60)
    late = [(c["x"], c["y"]) for c in proposed(made.history)][-10:]
    near = [math.dist(point, (0.3, 0.8)) for point in late]
    assert np.median(near) < 0.1  # 3 % of random points are that near


def test_the_reason_tells_what_was_expected() -> None:
    made = study(bowl, 40, schedule="hyperband")
    reasons = [t.reason for t in made.history.trials.values() if t.explains == "process"]
    last = reasons[-1]
    assert set(last) == {
         "log_improvement", "expected_loss", "deviation", "best_expected_loss", "model_points",
    }  # fmt: skip
    assert -0.2 < last["expected_loss"] < 0.7
    assert last["deviation"] > 0
    assert last["model_points"] == len(made.history.outcomes) - 1  # all but its own


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(lambda _c, _b: 1.0, id="constant"),
        pytest.param(lambda _c, _b: float("nan"), id="all failed"),
        pytest.param(lambda c, _b: float("nan") if c["x"] > 0.02 else c["x"], id="nearly all failed"),
        pytest.param(lambda c, _b: 1e300 * c["x"], id="huge"),
        pytest.param(lambda c, _b: 1e-300 * c["x"], id="tiny"),
        pytest.param(lambda c, _b: 1e15 + c["x"], id="small differences of large numbers"),
        pytest.param(lambda c, _b: math.exp(700 * c["x"]), id="hundreds of orders of magnitude"),
        pytest.param(lambda c, _b: float(c["x"] > 0.5), id="a step"),
        pytest.param(lambda c, b: -b * c["x"], id="rungs that contradict each other"),
    ],
)
@pytest.mark.parametrize("space", [PLANE, {"x": (0.0, 1.0), "c": ["a", "b"]}], ids=["numbers", "mixed"])
def test_there_is_always_a_proposal(loss: Loss, space: Any) -> None:
    made = study(loss, 40, space)
    assert len(made.history.outcomes) == 40


def test_one_point_and_repeated_points_are_no_obstacle() -> None:
    same = [{"x": 0.25, "y": 0.5}] * 12
    made = bohb.BOHB(PLANE, budgets=[1.0, 3.0], seed=0, initial_configs=same, **GP)
    for _ in range(40):
        trial = made.ask()
        made.tell(trial, bowl(trial.config, trial.budget))
    assert proposed(made.history)


def test_the_density_answers_while_the_process_cannot_and_the_prior_while_neither_can() -> None:
    made = study(bowl, 1, seed=1)
    first = made.history.trials[0]
    assert (first.origin, first.reason["why"]) in {
        (Origin.RANDOM, "no model yet"), (Origin.RANDOM, "random fraction"),
    }  # fmt: skip
    flat = study(lambda _c, _b: 1.0, 60, random_fraction=0.0)
    assert not proposed(flat.history)  # all configurations are equal
    assert any("log_ratio" in t.reason for t in flat.history.trials.values())


@pytest.mark.parametrize(("conditional", "needed"), [(False, 9), (True, 5)])
def test_the_process_needs_three_configurations_more_than_hyperparameters_are_active(
    conditional: bool, needed: int
) -> None:
    """Of six hyperparameters, four are inactive in all results if they depend on the first one."""
    space = CS.ConfigurationSpace({"on": [False, True], "x": (0.0, 1.0), **{f"z{i}": (0.0, 1.0) for i in range(4)}})
    if conditional:
        space.add([CS.EqualsCondition(space[f"z{i}"], space["on"], True) for i in range(4)])
    rest = {} if conditional else {f"z{i}": 0.5 for i in range(4)}
    made = study(bowl, 0, space=space)
    for n in range(needed):
        assert GaussianSampler(made.space).surrogate(made.history) is None
        made.enqueue({"on": False, "x": n / 10, **rest})
        made.tell(made.ask(), n / 10)
    assert GaussianSampler(made.space).surrogate(made.history) is not None


def test_the_same_seed_decides_the_same_and_another_one_otherwise() -> None:
    one, same, other = (proposed(study(bowl, 40, seed=seed).history) for seed in (3, 3, 4))
    assert one == same
    assert one != other


@pytest.mark.parametrize("after", [9, 20, 37])
def test_a_study_that_was_interrupted_goes_on_as_if_it_had_not_been(after: int) -> None:
    whole = study(bowl, 60)
    events = list(whole.events)
    started = [i for i, event in enumerate(events) if event.kind == "started"]
    resumed = bohb.BOHB.from_events(events[: started[after]])
    for _ in range(60 - after):
        trial = resumed.ask()
        resumed.tell(trial, bowl(trial.config, trial.budget))
    assert [t.config for t in resumed.history.trials.values()] == [t.config for t in whole.history.trials.values()]


def test_sixteen_workers_get_sixteen_different_points() -> None:
    made = study(bowl, 14, random_fraction=0.0)
    batch = made.ask_many(16)
    fresh = [t for t in batch if t.explains == "process"]
    assert len(fresh) >= 5
    points = np.array([made.space.encode(t.config) for t in fresh])
    apart = np.sqrt(((points[:, None] - points) ** 2).sum(2))[np.triu_indices(len(points), 1)]
    assert apart.min() > 0.005


def conditional() -> CS.ConfigurationSpace:
    space = CS.ConfigurationSpace()
    space.add(CS.Categorical("kind", ["a", "b"]), CS.Float("x", (1e-3, 1), log=True), CS.Integer("n", (1, 9)))
    space.add(CS.Float("only_a", (0, 1)), CS.OrdinalHyperparameter("size", ["s", "m", "l"]))
    space.add(CS.EqualsCondition(space["only_a"], space["kind"], "a"))
    space.add(CS.ForbiddenAndConjunction(
        CS.ForbiddenEqualsClause(space["kind"], "b"), CS.ForbiddenEqualsClause(space["size"], "s"),
    ))  # fmt: skip
    return space


def test_proposals_are_legal_in_a_space_with_everything() -> None:
    space = conditional()
    made = study(lambda c, b: c["x"] + c.get("only_a", 0.5) + 1 / b, 80, space)
    found = proposed(made.history)
    assert len(found) > 20
    for config in found:
        made.space.encode(config)  # raises if it is not legal
        assert not made.space.forbids(config)


def test_mutations_of_legal_vectors_are_legal() -> None:
    space = Space(conditional())
    rng = np.random.default_rng(0)
    parents = space.draw(rng, 10)
    for width in (None, 0.05):
        X = mutations(rng, space, parents, 200, width)
        assert len(np.unique(X, axis=0)) > 50
        np.testing.assert_array_equal(space.snap(X), X)


def test_draws_from_the_prior_follow_it() -> None:
    space = CS.ConfigurationSpace()
    space.add(
        CS.CategoricalHyperparameter("c", ["a", "b"], weights=[0.9, 0.1]),
        CS.Float("z", (0, 1), distribution=CS.Normal(0.5, 0.1)),
    )
    X = Space(space).draw(np.random.default_rng(0), 2000)
    assert X[:, 0].mean() == pytest.approx(0.1, abs=0.03)
    assert X[:, 1].std() == pytest.approx(0.1, abs=0.02)


def test_no_configuration_of_a_finite_space_is_proposed_twice_on_a_budget() -> None:
    made = study(lambda c, b: c["n"] * c["m"] + 1 / b, 40, {"n": (1, 5), "m": [1, 2, 3]})
    seen = [(made.history.key(t.config), t.budget) for t in made.history.trials.values() if t.reuses is None]
    assert len(seen) == len(set(seen))


def test_proposals_avoid_where_evaluations_fail() -> None:
    made = study(lambda c, b: float("nan") if c["x"] > 0.6 else bowl(c, b), 80)
    late = proposed(made.history)[-15:]
    assert sum(c["x"] > 0.6 for c in late) <= 3


def test_a_raised_maximum_is_modelled_with_what_was_learnt_below() -> None:
    journal = MemoryJournal()
    first = bohb.BOHB(PLANE, min_budget=1, max_budget=9, seed=0, journal=journal, **GP)
    for _ in range(40):
        trial = first.ask()
        first.tell(trial, bowl(trial.config, trial.budget))
    second = bohb.BOHB(PLANE, min_budget=1, max_budget=27, seed=0, journal=journal, **GP)
    sampler = GaussianSampler(second.space)
    surrogate = sampler.surrogate(second.history)
    assert surrogate is not None
    assert surrogate.targets.below.min() == 1  # nothing was evaluated on the new maximum yet
    trial = second.ask()
    assert trial.budget <= 27


def test_a_plateau_is_not_searched_again() -> None:
    """The loss is constant on each of 64 squares; most proposals go to squares that were not seen."""

    def steps(config: dict[str, Any], budget: float) -> float:
        return bowl({name: math.floor(8 * value) / 8 for name, value in config.items()}, budget)

    made = study(steps, 150, random_fraction=0.0)
    seen: set[tuple[int, ...]] = set()
    repeated = []
    for config in proposed(made.history):
        square = tuple(math.floor(8 * value) for value in config.values())
        repeated.append(square in seen)
        seen.add(square)
    assert len(seen) > 45
    assert np.mean(repeated[:40]) < 0.5
