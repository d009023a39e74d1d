"""Brackets near a deadline: which are kept, how they shrink, and that all of it can be replayed."""

from __future__ import annotations

import math
from typing import Any

import pytest

import bohb
from bohb import BOHB, Limits, replay
from bohb.analysis.why import why
from bohb.core.schedule.brackets import hyperband
from bohb.core.times.deadline import TimeLeft, fitting_bracket, in_time
from bohb.core.times.durations import Sample, fit_durations
from bohb.core.times.forecast import forecast, proportional, seconds_to_end
from bohb.executors.evaluate import SimulatedExecutor
from tests import objectives
from tests.objectives import SPACE

ROUND = hyperband((1.0, 3.0, 9.0, 27.0))
PAPER: dict[str, Any] = {"min_budget": 1, "max_budget": 27, "seed": 0, "preset": "paper"}


def time_left(seconds: float, workers: int = 1, **keywords: Any) -> TimeLeft:
    """One second per unit of budget, exactly."""
    known = [Sample(-1 - i, b, p, b - (p or 0.0)) for i in range(10) for p, b in ((None, 1.0), (1.0, 3.0), (3.0, 9.0))]
    return TimeLeft(seconds, workers, fit_durations(known), **keywords)


def begun(n: int) -> BOHB:
    """A study of which n trials have finished."""
    optimizer = BOHB(SPACE, min_budget=1, max_budget=27, seed=0)
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["x"])
    return optimizer


def cost(rungs: tuple[tuple[float, int], ...]) -> float:
    before = (0.0, *(budget for budget, _ in rungs))
    return sum(size * (budget - b) for (budget, size), b in zip(rungs, before, strict=False))


@pytest.mark.parametrize("seconds", [200.0, 80.0, 60.0, 50.0, 40.0, 36.0])
def test_a_new_bracket_ends_in_time_and_reaches_the_largest_budget(seconds: float) -> None:
    chosen = fitting_bracket(BOHB(SPACE, min_budget=1, max_budget=27).history, time_left(seconds), (), ROUND[0])
    assert chosen.continued_cost <= seconds
    assert chosen.rungs[-1].budget == 27
    assert (chosen == ROUND[0]) == (seconds >= 110)
    assert chosen.continued_cost > 0.4 * min(seconds, 81)


def test_if_no_bracket_ends_in_time_the_usual_one_is_begun_for_the_next_session() -> None:
    history = BOHB(SPACE, min_budget=1, max_budget=27).history
    assert fitting_bracket(history, time_left(20.0), (), ROUND[1]) == ROUND[1]
    assert fitting_bracket(history, time_left(20.0), (), ROUND[3]) == ROUND[0]


@pytest.mark.parametrize("seconds", [38.0, 34.0, 30.0])
def test_an_open_bracket_shrinks_to_the_time_that_is_left(seconds: float) -> None:
    optimizer = begun(10)
    decided = in_time(optimizer.history, time_left(seconds))
    assert decided.kept == {0}
    (event,) = decided.events
    assert event.rungs[0][1] == 10
    assert event.rungs[-1][0] == 27
    assert cost(event.rungs) - 10 <= seconds


def test_a_rung_ends_only_when_nothing_more_on_it_ends_in_time() -> None:
    """Until then more is learnt about durations, and the low rungs are where most is found."""
    decided = in_time(begun(10).history, time_left(65.0))
    assert decided.tight
    assert decided.events == ()
    sizes = []
    for n in range(10, 27):
        decided = in_time(begun(n).history, time_left(75.0 - n))
        sizes += [(n, *(size for _, size in event.rungs)) for event in decided.events]
    started, first, second, third, last = sizes[0]
    assert 10 < started == first < 27
    assert (second, third, last) == (first // 3, first // 9, 1)


def test_no_bracket_changes_before_durations_were_seen_on_two_budgets() -> None:
    one = [Sample(-1 - i, 1.0, None, 1.0) for i in range(10)]
    two = [*one, Sample(-1, 3.0, 1.0, 2.0)]
    history = begun(10).history
    assert in_time(history, TimeLeft(36.0, 1, fit_durations(one))).events == ()
    assert in_time(history, TimeLeft(36.0, 1, fit_durations(two))).events
    assert fitting_bracket(history, TimeLeft(45.0, 1, fit_durations(one)), (), ROUND[0]) == ROUND[0]
    assert fitting_bracket(history, TimeLeft(45.0, 1, fit_durations(two)), (), ROUND[0]) != ROUND[0]


def test_with_enough_time_or_too_few_results_nothing_changes() -> None:
    optimizer = begun(10)
    assert in_time(optimizer.history, time_left(500.0)).events == ()
    unknown = TimeLeft(10.0, 1, fit_durations([Sample(-1, 1.0, None, 1.0)]))
    assert in_time(optimizer.history, unknown).events == ()
    assert in_time(optimizer.history, time_left(10.0, alone=False)).events == ()


def study(workers: int, seconds: float, seed: int = 0, **keywords: Any) -> tuple[bohb.Study, SimulatedExecutor, BOHB]:
    executor = SimulatedExecutor(objectives.quadratic, workers, seed=seed, until=seconds, **keywords)
    optimizer = BOHB(SPACE, min_budget=1, max_budget=27, seed=seed, clock=executor.clock, stopwatch=executor.clock)
    return bohb.run(optimizer, executor, Limits(max_seconds=seconds)), executor, optimizer


@pytest.mark.parametrize(("workers", "seconds"), [(1, 90.0), (1, 250.0), (4, 90.0), (16, 60.0)])
@pytest.mark.parametrize("straggling", [0.0, 0.5])
def test_a_study_ends_at_its_deadline_with_the_largest_budget_seen_and_can_be_replayed(
    workers: int, seconds: float, straggling: float
) -> None:
    ended, executor, optimizer = study(workers, seconds, straggling=straggling)
    assert executor.now <= seconds
    assert 27 in ended.history.best
    used = sum((o.finished or 0.0) - (o.started or 0.0) for o in ended.history.outcomes.values())
    assert used > (0.65 if straggling else 0.85) * workers * seconds
    assert not ended.failures
    assert replay(optimizer.events).ok
    assert all(str(why(ended.history, number)) for number in ended.history.trials)


def test_what_was_stopped_at_the_deadline_runs_again_when_the_study_is_resumed() -> None:
    first, _, optimizer = study(8, 70.0, straggling=1.0)
    stopped = set(first.history.lost)
    assert stopped
    assert "stopped, to run again" in first.stopped
    executor = SimulatedExecutor(objectives.quadratic, 8, seed=1)
    again = bohb.run(optimizer, executor, Limits(max_trials=len(first.history.trials)))
    assert stopped <= set(again.history.outcomes)
    assert all(again.history.trials[number].attempt == 2 for number in stopped)
    assert replay(optimizer.events).ok


def test_without_a_deadline_nothing_changes() -> None:
    executor = SimulatedExecutor(objectives.quadratic, 4)
    optimizer = BOHB(SPACE, **PAPER, clock=executor.clock, stopwatch=executor.clock)
    bohb.run(optimizer, executor, Limits(max_trials=150))
    assert not optimizer.history.shortened
    assert not optimizer.history.schedule.planned
    assert replay(optimizer.events).exact == 150


def test_the_rest_of_a_study_is_foreseen_by_running_it_ahead() -> None:
    """One second per unit of budget: the forecast equals what then happens."""
    half: list[float] = []
    executor = SimulatedExecutor(objectives.quadratic, 3)
    optimizer = BOHB(SPACE, **PAPER, clock=executor.clock, stopwatch=executor.clock)

    def look(running: bohb.RunningStudy) -> None:
        if len(running.history.outcomes) >= 60 and not half:
            costs = fit_durations([Sample(-i, b, None, b) for i in range(9) for b in (1.0, 27.0)])
            left = seconds_to_end(running.history, costs, {"max_trials": 150}, 3, executor.now, executor.now)
            assert left is not None
            half.append(executor.now + left)

    bohb.run(optimizer, executor, Limits(max_trials=150), callbacks=[look])
    assert half[0] == pytest.approx(executor.now, rel=0.1)


def test_many_workers_are_expected_to_wait_for_the_slowest_trial() -> None:
    """Sixteen trials that take 27 s on average, give or take a half: the last of them ends far later."""
    optimizer = BOHB(SPACE, budgets=[27.0], seed=0, clock=lambda: 100.0, stopwatch=lambda: 0.0)
    for _ in range(16):
        optimizer.ask()
    spread = [math.exp(0.5 * (-1) ** i) for i in range(40)]
    costs = fit_durations([Sample(-1 - i, 27.0, None, 27 * factor) for i, factor in enumerate(spread)])
    assert costs is not None
    one = costs.expected(27.0).mean
    left = seconds_to_end(optimizer.history, costs, {"max_trials": 16}, 16, 0.0, 100.0)
    assert left is not None
    assert 1.4 * one < left < 4 * one


def test_a_forecast_leaves_the_study_as_it_is() -> None:
    optimizer = begun(40)
    before = optimizer.next_events()
    ahead = forecast(optimizer.history, 2, proportional(27.0, 27.0, continued=True), {"max_brackets": 4})
    assert optimizer.history.outcomes.keys() == set(range(40))
    assert [event.key for event in optimizer.next_events()] == [event.key for event in before]
    assert ahead >= (ROUND[0].continued_cost - 40) / 2
    assert math.isfinite(ahead)
