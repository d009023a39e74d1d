"""What is known before a study begins: priors and earlier studies steer the Gaussian process, and can be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import numpy as np
import pytest
from scipy.integrate import quad

import bohb
from bohb.analysis.why import why
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.proposal import PRIOR_RESULTS, Situation
from bohb.core.samplers.search import log_prior
from bohb.core.space import Space
from bohb.journal import MemoryJournal

Loss = Callable[[dict[str, Any]], float]
PLANE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def believed(x: float, y: float) -> CS.ConfigurationSpace:
    space = CS.ConfigurationSpace()
    space.add(*(CS.Float(name, (0.0, 1.0), distribution=CS.Normal(mu, 0.1)) for name, mu in (("x", x), ("y", y))))
    return space


def bowl(config: dict[str, Any]) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["y"] - 0.8) ** 2)


def study(space: Any, trials: int, loss: Loss = bowl, seed: int = 0, **settings: Any) -> bohb.BOHB:
    made = bohb.BOHB(space, min_budget=1, max_budget=9, seed=seed, **{"preset": "best", **settings})
    for _ in range(trials):
        trial = made.ask()
        made.tell(trial, loss(trial.config) + 0.1 / trial.budget)
    return made


def distance(config: dict[str, Any], x: float = 0.3, y: float = 0.8) -> float:
    return math.dist((config["x"], config["y"]), (x, y))


@pytest.mark.parametrize(
    "hyperparameter",
    [
        CS.Float("h", (0.0, 2.0), distribution=CS.Normal(0.5, 0.3)),
        CS.Float("h", (1e-4, 1.0), log=True, distribution=CS.Beta(2, 5)),
        CS.Float("h", (-1.0, 1.0), distribution=CS.Beta(3, 1)),
    ],
    ids=["normal", "beta on a log scale", "beta"],
)
def test_the_prior_is_the_density_of_random_draws(hyperparameter: Any) -> None:
    space = CS.ConfigurationSpace()
    space.add(hyperparameter)
    compiled = Space(space)
    drawn = compiled.draw(np.random.default_rng(0), 4000)[:, 0]

    def density(u: float) -> float:
        return float(np.exp(compiled.log_prior(np.array([[u]])))[0])

    assert compiled.has_prior
    assert quad(density, 0, 1)[0] == pytest.approx(1)
    for edge in (0.25, 0.5, 0.75):
        assert quad(density, 0, edge)[0] == pytest.approx((drawn < edge).mean(), abs=0.03)


def test_weights_are_a_prior_and_uniform_draws_respect_a_weight_of_zero() -> None:
    space = CS.ConfigurationSpace()
    space.add(CS.Categorical("c", ["a", "b", "c"], weights=[3, 0, 1]))
    compiled = Space(space)
    assert np.exp(compiled.log_prior(np.array([[0.0], [2.0]]))) == pytest.approx([9 / 4, 3 / 4])
    assert np.isfinite(compiled.log_prior(np.array([[1.0]])))
    drawn = compiled.draw(np.random.default_rng(0), 1000, uniform=True)[:, 0]
    assert (drawn == 0).mean() == pytest.approx(0.5, abs=0.05)
    assert not (drawn == 1).any()


def test_inactive_coordinates_do_not_count_in_the_prior() -> None:
    space = CS.ConfigurationSpace()
    space.add(CS.Categorical("kind", ["a", "b"]), CS.Float("x", (0.0, 1.0), distribution=CS.Beta(2, 2)))
    space.add(CS.EqualsCondition(space["x"], space["kind"], "a"))
    assert Space(space).log_prior(np.array([[1.0, np.nan]])).tolist() == [0]


@pytest.mark.parametrize("space", [PLANE, {"c": ["a", "b"], "n": (1, 9, "log")}])
def test_without_a_prior_there_is_none(space: Any) -> None:
    compiled = Space(space)
    assert not compiled.has_prior
    assert compiled.log_prior(compiled.draw(np.random.default_rng(0), 5)).tolist() == [0] * 5


def test_what_a_prior_adds_to_the_score_is_bounded_below_and_fades() -> None:
    space = Space(believed(0.3, 0.8))
    centre, far = np.array([[0.3, 0.8]]), np.array([[1.0, 0.0]])
    for weight in (0.5, 0.1, 0.01):
        assert log_prior(space, far, weight)[0] >= weight * math.log(1 - weight) - 1e-12
    gains = [float((log_prior(space, centre, w) - log_prior(space, far, w))[0]) for w in (0.5, 0.1, 0.01)]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 1
    assert gains[-1] < 0.01


def test_the_weight_of_a_prior_halves_after_some_results_and_stays_without_a_process() -> None:
    made = study(believed(0.3, 0.8), PRIOR_RESULTS)
    assert Situation(made.history, 1.0, lambda _: True, None).prior_weight == 0.5
    published = study(believed(0.3, 0.8), PRIOR_RESULTS, preset="paper")
    assert Situation(published.history, 1.0, lambda _: True, None).prior_weight == 1
    assert not any(trial.reason.get("uniform") for trial in published.history.trials.values())


def test_a_good_prior_leads_the_first_proposals_to_it_and_the_reason_says_so() -> None:
    with_prior, without = study(believed(0.3, 0.8), 15), study(PLANE, 15)
    near, usual = (
        np.median([distance(t.config) for t in made.history.trials.values()]) for made in (with_prior, without)
    )
    assert near < 0.7 * usual
    told = [t for t in with_prior.history.trials.values() if "log_prior" in t.reason]
    assert told
    assert 0 < told[-1].reason["prior_weight"] < 0.5
    assert "The prior of the space changed" in str(why(with_prior.history, told[-1].number))
    assert not any("log_prior" in t.reason for t in without.history.trials.values())


def test_a_bad_prior_is_overcome() -> None:
    made = study(believed(0.9, 0.1), 60)
    late = [distance(t.config) for t in made.history.trials.values() if t.explains == "process"][-10:]
    assert np.median(late) < 0.1
    assert any(t.reason.get("uniform") for t in made.history.trials.values())


def test_decisions_with_a_prior_and_an_earlier_study_are_made_again() -> None:
    journal = MemoryJournal()
    study(believed(0.9, 0.1), 20, warm_start=study(PLANE, 30), journal=journal)
    assert not bohb.replay(journal).differences


def earlier_and_later(earlier_loss: Loss) -> bohb.BOHB:
    return study(PLANE, 60, seed=2, warm_start=study(PLANE, 50, earlier_loss))


def test_an_earlier_study_that_agrees_is_believed() -> None:
    later = earlier_and_later(lambda config: 5 + 100 * bowl(config))  # another level and another scale
    first = [distance(t.config) for t in later.history.trials.values() if t.explains == "process"][:5]
    assert np.median(first) < 0.15
    told = [t for t in later.history.trials.values() if "earlier_agreement" in t.reason]
    assert max(t.reason["earlier_agreement"][0] for t in told) > 0.7
    assert "The correlation of the results of earlier studies" in str(why(later.history, told[-1].number))


def test_an_earlier_study_that_says_the_opposite_is_ignored() -> None:
    later = earlier_and_later(lambda config: -bowl(config))
    told = [t.reason["earlier_agreement"][0] for t in later.history.trials.values() if "earlier_agreement" in t.reason]
    assert told[-1] < 0.4
    late = [distance(t.config) for t in later.history.trials.values() if t.explains == "process"][-5:]
    assert np.median(late) < 0.15


def test_two_earlier_studies_are_told_apart() -> None:
    agrees, differs = study(PLANE, 40), study(PLANE, 40, lambda config: -bowl(config), seed=2)
    later = study(PLANE, 30, seed=1, warm_start=[differs, agrees])
    told = [t.reason["earlier_agreement"] for t in later.history.trials.values() if "earlier_agreement" in t.reason]
    assert told[-1][0] < told[-1][1]


def test_configurations_of_an_earlier_study_may_be_proposed_again() -> None:
    earlier = study(PLANE, 50)
    proposed_again = 0
    for seed in range(20):
        later = study(PLANE, 10, seed=seed, warm_start=earlier)
        surrogate = GaussianSampler(later.space).surrogate(later.history)
        assert surrogate is not None
        assert len(surrogate.earlier) > 0
        known = {later.history.key(t.config) for t in earlier.history.trials.values()}
        assert all(vector.tobytes() in known for vector in surrogate.earlier)
        proposed_again += any(later.history.key(t.config) in known for t in later.history.trials.values())
    assert proposed_again  # in about a fifth of the studies
