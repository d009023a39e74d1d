"""Algorithm 3 as actions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bohb import BOHB, Trial
from bohb.core.schedule.brackets import halving
from bohb.core.schedule.halving import Done, Halving, Promote, Sample, Wait, top_k

SPACE = {"x": (0.0, 1.0)}


def test_a_bracket_samples_its_first_rung_then_waits_then_promotes_the_best() -> None:
    bracket = Halving(halving(9, [1, 3, 9], 3))
    for number in range(9):
        assert bracket.next_action() == Sample(0)
        bracket.start(number)
    assert bracket.next_action() == Wait()
    for number in range(8):
        bracket.finish(number, float(-number))
        assert bracket.next_action() == Wait()
    bracket.finish(8, 100.0)
    for number, best in [(9, 7), (10, 6), (11, 5)]:
        assert bracket.next_action() == Promote(1, best)
        bracket.start(number)
    for number in (10, 9, 11):
        bracket.finish(number, float(number))
    assert bracket.next_action() == Promote(2, 9)
    bracket.start(12)
    assert bracket.next_action() == Wait()
    bracket.finish(12, 0.0)
    assert bracket.next_action() == Done()


def test_a_failed_trial_is_never_promoted_even_if_places_stay_empty() -> None:
    bracket = Halving(halving(9, [1, 3, 9], 3))
    for number in range(9):
        bracket.start(number)
    for number in range(9):
        bracket.finish(number, 1.0 if number == 4 else math.inf)
    assert bracket.next_action() == Promote(1, 4)
    bracket.start(9)
    assert bracket.next_action() == Wait()
    bracket.finish(9, math.inf)
    assert bracket.next_action() == Done()


def test_hpbandster_refills_empty_places_with_fresh_configurations_on_the_higher_rung() -> None:
    bracket = Halving(halving(9, [1, 3, 9], 3), refill=True)
    for number in range(9):
        bracket.start(number)
    for number in range(9):
        bracket.finish(number, 1.0 if number == 4 else math.inf)
    assert bracket.next_action() == Promote(1, 4)
    bracket.start(9)
    assert bracket.next_action() == Sample(1)


@given(st.lists(st.floats(-1, 1) | st.just(math.inf), min_size=1, max_size=50), st.integers(1, 20))
def test_only_finite_losses_are_promoted_and_none_better_stays_behind(losses: list[float], k: int) -> None:
    numbered = [(loss, i) for i, loss in enumerate(losses)]
    kept = top_k(numbered, k)
    assert len(kept) == min(k, sum(map(math.isfinite, losses)))
    if kept:
        worst = max(losses[i] for i in kept)
        assert all(losses[i] >= worst for i in range(len(losses)) if i not in kept)


@pytest.mark.parametrize("workers", [1, 2, 7, 40])
def test_with_any_number_of_workers_the_rungs_have_their_planned_sizes(workers: int) -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=27, seed=1, preset="paper", max_brackets=8)
    running: list[Trial] = []
    while not study.done:
        running += study.ask_many(workers - len(running))
        trial = running.pop(trial_index := len(study.history.trials) * 7 % len(running))
        study.tell(trial, (trial.number * 37) % 101 + trial_index)
    started: dict[tuple[int, float], int] = {}
    for trial in study.history.trials.values():
        started[trial.bracket, trial.budget] = started.get((trial.bracket, trial.budget), 0) + 1
    planned = {(row.bracket, row.budget): row.configurations for row in study.plan(8).rows()}
    assert started == planned
