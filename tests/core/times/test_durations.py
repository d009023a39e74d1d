"""The model of durations: what it learns, and what cannot mislead it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import bohb
from bohb import BOHB, Limits
from bohb.core.times.durations import Duration, Sample, fit_durations, learnt, start_up
from bohb.core.times.forecast import seconds_to_end
from bohb.core.trial import Origin, Outcome, Status, Trial
from bohb.executors.base import Done
from bohb.executors.evaluate import SimulatedExecutor, budget_added
from tests import objectives
from tests.objectives import SPACE


def trial(config_id: int, budget: float, previous: float | None = None) -> Trial:
    return Trial(1000, {}, budget, config_id, 0, 0, 0, Origin.RANDOM, previous)


def sample(config_id: int, budget: float, seconds: float, previous: float | None = None) -> Sample:
    return Sample(config_id, budget, previous, seconds)


def study(constant: float = 0.0, growth: float = 1.0, continued: bool = True) -> list[Sample]:
    """Return 27 configurations on budget 1, of which 9 go on to 3 and 3 to 9; 0.1 s per unit of work on average."""
    rate = 0.1 * np.exp(np.random.default_rng(0).normal(0, 0.3, 27))
    found = []
    for budget, previous, n in ((1.0, None, 27), (3.0, 1.0, 9), (9.0, 3.0, 3)):
        work = (budget - (previous or 0.0 if continued else 0.0)) ** growth
        found += [sample(i, budget, constant + float(rate[i]) * work, previous) for i in range(n)]
    return found


@pytest.mark.parametrize(
    ("constant", "continued", "growth"),
    [(0.0, True, 1.0), (0.5, True, 1.0), (0.0, False, 1.0), (0.5, False, 1.0), (0.0, True, 2.0), (0.0, False, 2.0)],
)
def test_a_budget_that_was_never_seen_is_foreseen(constant: float, continued: bool, growth: float) -> None:
    known = study(constant, growth, continued)
    model = fit_durations(known)
    assert model is not None
    rate = (known[0].seconds - constant) / 1
    truth = constant + rate * (27 - (9 if continued else 0)) ** growth
    assert model.duration(trial(0, 27.0, 9.0)).median == pytest.approx(truth, rel=0.25)


def test_one_slow_first_trial_and_a_warm_cache_change_little() -> None:
    plain, disturbed = study(), study()
    disturbed[0] = sample(0, 1.0, 60.0)
    disturbed[27:] = [sample(s.config_id, s.budget, 0.8 * s.seconds, s.previous) for s in disturbed[27:]]
    before, after = fit_durations(plain), fit_durations(disturbed)
    assert before is not None
    assert after is not None
    assert after.expected(1.0).median == pytest.approx(before.expected(1.0).median, rel=0.15)
    assert after.expected(9.0, 3.0).median == pytest.approx(before.expected(9.0, 3.0).median, rel=0.35)


def test_configurations_have_their_own_durations_and_others_count_as_typical() -> None:
    rng = np.random.default_rng(1)
    known = [sample(i, 1.0, float(s)) for i, s in enumerate(np.exp(rng.uniform(math.log(0.08), math.log(5.12), 60)))]
    model = fit_durations(known)
    assert model is not None
    for one in known[:20]:
        assert model.duration(trial(one.config_id, 1.0)).median == pytest.approx(one.seconds, rel=0.3)
    assert model.duration(trial(999, 1.0)).median == model.expected(1.0).median


def test_the_interval_covers_what_it_says() -> None:
    rng = np.random.default_rng(2)
    seconds = np.exp(rng.normal(0, 0.7, 400))
    model = fit_durations([sample(i, 1.0, float(s)) for i, s in enumerate(seconds[:200])])
    assert model is not None
    one = model.expected(1.0)
    assert 0.62 < np.mean([0.1 < one.chance(float(s)) < 0.9 for s in seconds[200:]]) < 0.9
    assert one.chance(one.high) == pytest.approx(0.9)
    assert one.mean == pytest.approx(float(seconds.mean()), rel=0.2)
    assert one.chance(one.median) == pytest.approx(0.5)
    assert one.chance(0.0) == 0.0


def test_drawn_durations_have_the_expected_mean_and_what_has_passed_counts() -> None:
    duration = Duration(median=10.0, spread=0.5)
    drawn = [duration.drawn((i + 0.5) / 200) for i in range(200)]
    assert np.mean(drawn) == pytest.approx(duration.mean, rel=0.03)
    left = [duration.drawn((i + 0.5) / 200, since=12.0) for i in range(200)]
    assert min(left) > 0
    assert np.mean(left) == pytest.approx(np.mean([d - 12.0 for d in drawn if d > 12.0]), rel=0.1)


def test_the_duration_of_a_new_trial_varies_as_those_of_single_trials_did() -> None:
    noisy = np.random.default_rng(1)
    model = fit_durations(
        [sample(i % 60, b, b * math.exp(noisy.normal(0, 0.2)), None) for b in (1.0, 3.0) for i in range(60)]
    )
    assert model is not None
    assert 0.15 < model.expected(1.0).spread < 0.3


def test_without_trials_there_is_no_model() -> None:
    assert fit_durations([]) is None


class WithStartUps(SimulatedExecutor):
    """A simulated cluster whose workers need 9 seconds before each trial, or only before their first."""

    def __init__(self, workers: int, kept: bool) -> None:
        super().__init__(objectives.quadratic, workers, duration=self._with_start_up)
        self._kept = kept

    def _start_up(self, trial: Trial) -> float:
        return 0.0 if self._kept and trial.number >= self.slots else 9.0

    def _with_start_up(self, trial: Trial, outcome: Outcome) -> float:
        return budget_added(trial, outcome) + self._start_up(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Wait as usual; a trial's own time begins when its worker has started."""
        found = []
        for done in super().wait(timeout):
            assert isinstance(done.result, Outcome)
            assert done.result.started is not None
            started = done.result.started + self._start_up(done.trial)
            found.append(Done(done.trial, replace(done.result, started=started)))
        return found


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("kept", [False, True])
def test_the_end_is_foreseen_when_every_trial_or_only_the_first_needs_a_worker_to_start(
    workers: int, kept: bool
) -> None:
    executor = WithStartUps(workers, kept)
    optimizer = BOHB(
        SPACE, min_budget=1, max_budget=9, preset="paper", seed=0, clock=executor.clock, stopwatch=executor.clock
    )
    ends: list[float] = []

    def look(running: bohb.RunningStudy) -> None:
        if len(running.history.outcomes) >= 20 and not ends:
            now = executor.now
            left = seconds_to_end(running.history, learnt(running.history), {"max_trials": 60}, workers, now, now)
            assert left is not None
            ends.append(now + left)

    bohb.run(optimizer, executor, Limits(max_trials=60), callbacks=[look])
    assert ends[0] == pytest.approx(executor.now, rel=0.1)


def test_waits_for_kept_workers_and_a_single_long_wait_are_not_expected_again() -> None:
    history = BOHB(SPACE, min_budget=1, max_budget=9, seed=0).history
    assert start_up(history) == 0.0
    history.waits = {0: 9.0, 1: 9.0, 2: 0.5, 3: 0.1, 4: 600.0, 5: 0.6}
    history.outcomes = {n: Outcome(Status.OK, 0.0, worker=f"machine/{n % 2}") for n in range(6)}
    assert start_up(history) == pytest.approx(0.4)
    history.n_before_session = 2  # the workers of this session start with the trials 2 and 3
    assert start_up(history) == pytest.approx(0.6)
