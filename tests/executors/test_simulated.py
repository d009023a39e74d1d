"""The simulated cluster drives the real runner and the real decisions."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import bohb
from bohb import BOHB, Limits, Trial, replay
from bohb.core.settings import Preset
from bohb.errors import InvalidArgument
from bohb.executors.evaluate import SimulatedExecutor
from bohb.testing.executors import make_trial
from tests import objectives
from tests.objectives import SPACE


def simulate(
    workers: int, limits: Limits, seed: int = 0, preset: Preset = "best", **keywords: Any
) -> tuple[bohb.Study, SimulatedExecutor, BOHB]:
    executor = SimulatedExecutor(objectives.quadratic, workers, seed=seed, **keywords)
    clock = executor.clock
    optimizer = BOHB(SPACE, min_budget=1, max_budget=27, seed=seed, preset=preset, clock=clock, stopwatch=clock)
    return bohb.run(optimizer, executor, limits), executor, optimizer


def test_one_worker_takes_the_sum_of_all_durations() -> None:
    study, executor, _ = simulate(1, Limits(max_trials=100))
    assert executor.now == pytest.approx(study.history.budget_spent)
    assert study.history.seconds == pytest.approx(executor.now)
    assert executor.utilisation == pytest.approx(1)


def test_one_simulated_worker_decides_as_a_serial_study_does() -> None:
    study, _, _ = simulate(1, Limits(max_trials=150))
    serial = bohb.minimize(
        objectives.quadratic, SPACE, min_budget=1, max_budget=27, seed=0, max_trials=150, progress=False
    )
    assert study.history.trials == serial.history.trials


@pytest.mark.parametrize("workers", [2, 8, 64])
def test_no_worker_does_two_things_at_once_and_time_is_saved(workers: int) -> None:
    study, executor, optimizer = simulate(workers, Limits(max_trials=300), straggling=0.5)
    spans: dict[str | None, list[tuple[float, float]]] = defaultdict(list)
    for outcome in study.history.outcomes.values():
        spans[outcome.worker].append((outcome.started or 0.0, outcome.finished or 0.0))
    assert len(spans) == workers
    for mine in spans.values():
        ordered = sorted(mine)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ordered))
    assert executor.now < executor.busy
    assert 0.25 < executor.utilisation <= 1  # at the end, everybody waits for the last one
    assert replay(optimizer.events).ok


def test_max_seconds_is_simulated_time() -> None:
    study, executor, _ = simulate(4, Limits(max_seconds=500), until=500.0)
    assert study.stopped.startswith("max_seconds=500")
    assert 470 < executor.now <= 500


def test_lost_workers_cost_time_and_nothing_else() -> None:
    study, _, optimizer = simulate(8, Limits(max_trials=200), loss_rate=0.02)
    assert len(study.history.outcomes) == 200
    assert sum(study.history.losses.values()) > 5
    assert replay(optimizer.events).ok


def test_thousands_of_workers() -> None:
    study, executor, _ = simulate(3_000, Limits(max_trials=3_600), preset="paper", straggling=1.0)  # proposes fast
    assert len(study.history.outcomes) == 3_600
    assert len({outcome.worker for outcome in study.history.outcomes.values()}) == 3_000
    assert executor.now > 0


def test_the_objective_may_say_how_long_it_took() -> None:
    def objective(trial: Trial) -> dict[str, float]:
        return {"loss": trial.config["x"], "cost": 2.5}

    executor = SimulatedExecutor(objective, 2, duration=lambda _, outcome: outcome.cost or 0.0)
    bohb.run(BOHB(SPACE, budgets=[1], seed=0), executor, Limits(max_trials=10))
    assert executor.now == pytest.approx(12.5)


def test_stragglers_have_a_median_factor_of_one() -> None:
    executor = SimulatedExecutor(lambda _: 0.0, 1, straggling=0.3)
    seconds: list[float] = []
    for number in range(2000):
        before = executor.now
        executor.submit(make_trial(number))  # on budget 1: one second without straggling
        executor.wait(None)
        seconds.append(executor.now - before)
    assert np.median(seconds) == pytest.approx(1.0, abs=0.03)
    assert np.std(np.log(seconds)) == pytest.approx(0.3, rel=0.1)


@pytest.mark.parametrize(
    "keywords", [{"workers": 0}, {"workers": 1.5}, {"workers": 1, "straggling": -1}, {"workers": 1, "loss_rate": -1}]
)
def test_bad_arguments_are_refused(keywords: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        SimulatedExecutor(objectives.quadratic, **keywords)


def test_a_bad_duration_is_named() -> None:
    executor = SimulatedExecutor(objectives.quadratic, 1, duration=lambda *_: float("nan"))
    with pytest.raises(InvalidArgument, match="duration=nan of trial 0"):
        bohb.run(BOHB(SPACE, budgets=[1], seed=0), executor, Limits(max_trials=3))
