"""The model of durations: what it learns, and what cannot mislead it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bohb.core.cost import Duration, Sample, encoder, fit_costs
from bohb.core.space import Space
from bohb.core.trial import Origin, Trial

SPACE = Space({"units": (8, 512, "log"), "act": ["relu", "tanh"]})


def trial(config_id: int, budget: float, previous: float | None = None, units: int = 64) -> Trial:
    config = {"units": units, "act": "relu"}
    return Trial(1000, config, budget, config_id, 0, 0, 0, Origin.RANDOM, previous)


def sample(
    config_id: int, budget: float, seconds: float, previous: float | None = None, units: int = 64, act: str = "relu"
) -> Sample:
    return Sample(config_id, budget, previous, seconds, {"units": units, "act": act})


def study(start_up: float = 0.0, growth: float = 1.0, continued: bool = True) -> list[Sample]:
    """Return 27 configurations on budget 1, of which 9 go on to 3 and 3 to 9; 0.1 s per unit of work on average."""
    rate = 0.1 * np.exp(np.random.default_rng(0).normal(0, 0.3, 27))
    found = []
    for budget, previous, n in ((1.0, None, 27), (3.0, 1.0, 9), (9.0, 3.0, 3)):
        work = (budget - (previous or 0.0 if continued else 0.0)) ** growth
        found += [sample(i, budget, start_up + float(rate[i]) * work, previous) for i in range(n)]
    return found


@pytest.mark.parametrize(
    ("start_up", "continued", "growth"),
    [(0.0, True, 1.0), (0.5, True, 1.0), (0.0, False, 1.0), (0.5, False, 1.0), (0.0, True, 2.0), (0.0, False, 2.0)],
)
def test_a_budget_that_was_never_seen_is_foreseen(start_up: float, continued: bool, growth: float) -> None:
    known = study(start_up, growth, continued)
    costs = fit_costs(known)
    assert costs is not None
    rate = (known[0].seconds - start_up) / 1
    truth = start_up + rate * (27 - (9 if continued else 0)) ** growth
    assert costs.duration(trial(0, 27.0, 9.0)).median == pytest.approx(truth, rel=0.25)


def test_one_slow_first_trial_and_a_warm_cache_change_little() -> None:
    plain, disturbed = study(), study()
    disturbed[0] = sample(0, 1.0, 60.0)
    disturbed[27:] = [sample(s.config_id, s.budget, 0.8 * s.seconds, s.previous) for s in disturbed[27:]]
    before, after = fit_costs(plain), fit_costs(disturbed)
    assert before is not None
    assert after is not None
    assert after.typical(1.0).median == pytest.approx(before.typical(1.0).median, rel=0.15)
    assert after.typical(9.0, 3.0).median == pytest.approx(before.typical(9.0, 3.0).median, rel=0.35)


def test_configurations_have_their_own_durations_and_vectors_foretell_those_of_new_ones() -> None:
    rng = np.random.default_rng(1)
    units = [int(u) for u in np.exp(rng.uniform(math.log(8), math.log(512), 60))]
    known = [
        sample(i, 1.0, 0.01 * u * (2.0 if i % 2 else 1.0), None, u, "tanh" if i % 2 else "relu")
        for i, u in enumerate(units)
    ]
    plain, vectors = fit_costs(known), fit_costs(known, encoder(SPACE))
    assert plain is not None
    assert vectors is not None
    assert plain.duration(trial(3, 1.0)).median == pytest.approx(known[3].seconds, rel=0.3)
    for size in (10, 100, 500):
        predicted = vectors.duration(trial(999, 1.0, units=size))
        assert predicted.median == pytest.approx(0.01 * size, rel=0.2)
        assert predicted.low < 0.01 * size < predicted.high or predicted.spread < 0.1
    assert plain.duration(trial(999, 1.0, units=10)).median == plain.typical(1.0).median


def test_the_interval_covers_what_it_says() -> None:
    rng = np.random.default_rng(2)
    seconds = np.exp(rng.normal(0, 0.7, 400))
    costs = fit_costs([sample(i, 1.0, float(s)) for i, s in enumerate(seconds[:200])])
    assert costs is not None
    one = costs.typical(1.0)
    assert 0.62 < np.mean((seconds[200:] > one.low) & (seconds[200:] < one.high)) < 0.9
    assert one.mean == pytest.approx(float(seconds.mean()), rel=0.2)
    assert one.chance(one.median) == pytest.approx(0.5)
    assert one.chance(0.0) == 0.0


def test_drawn_durations_have_the_expected_mean_and_what_has_passed_counts() -> None:
    duration = Duration(median=10.0, mean=12.0, spread=0.5)
    drawn = [duration.drawn((i + 0.5) / 200) for i in range(200)]
    assert np.mean(drawn) == pytest.approx(12.0, rel=0.03)
    left = [duration.drawn((i + 0.5) / 200, since=12.0) for i in range(200)]
    assert min(left) > 0
    assert np.mean(left) == pytest.approx(np.mean([d - 12.0 for d in drawn if d > 12.0]), rel=0.1)


def test_the_duration_of_a_new_trial_varies_as_those_of_single_trials_did() -> None:
    noisy = np.random.default_rng(1)
    costs = fit_costs(
        [sample(i % 60, b, b * math.exp(noisy.normal(0, 0.2)), None) for b in (1.0, 3.0) for i in range(60)]
    )
    assert costs is not None
    assert 0.15 < costs.typical(1.0).spread < 0.3


def test_without_trials_there_is_no_model() -> None:
    assert fit_costs([]) is None
