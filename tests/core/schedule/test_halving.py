"""Algorithm 3 as actions: the best of a bracket go on, each configuration once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bohb
from bohb import BOHB, Origin, Trial
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
    play(study, lambda trial: (trial.number * 37) % 101, 10_000, workers)
    assert study.done
    started: dict[tuple[int, float], int] = {}
    for trial in study.history.trials.values():
        started[trial.bracket, trial.budget] = started.get((trial.bracket, trial.budget), 0) + 1
    planned = {(row.bracket, row.budget): row.configurations for row in study.plan(8).rows()}
    assert started == planned


def promoted(study: BOHB) -> list[Trial]:
    return [trial for trial in study.history.trials.values() if trial.origin is Origin.PROMOTED]


def source_of(trial: Trial) -> int:
    assert trial.from_trial is not None
    return trial.from_trial


def play(study: BOHB, losses: Any, n: int, workers: int = 1) -> BOHB:
    """Run n trials, `workers` at a time; they finish in an order that depends on their numbers."""
    running: list[Trial] = []
    for _ in range(n):
        running += study.ask_many(workers - len(running))
        if not running:
            break
        trial = running.pop(len(study.history.trials) * 7 % len(running))
        study.tell(trial, losses(trial))
    return study


def test_a_bracket_promotes_its_own() -> None:
    study = play(BOHB(SPACE, budgets=[1, 3, 9], seed=0), lambda t: (t.number * 37) % 101, 60)
    assert promoted(study)
    for trial in promoted(study):
        assert study.history.trials[source_of(trial)].bracket == trial.bracket


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(0, 6))
@settings(max_examples=5, deadline=None)
def test_no_configuration_is_promoted_twice_from_a_budget(seed: int, workers: int, failing: int) -> None:
    def losses(trial: Trial) -> float:
        return math.nan if trial.number % 7 < failing else (trial.number * 37 + seed) % 101

    study = BOHB(SPACE, min_budget=1, max_budget=27, seed=seed, preset="paper", random_fraction=1)
    play(study, losses, 180, workers)
    sources = [source_of(trial) for trial in promoted(study)]
    assert len(set(sources)) == len(sources)
    for trial in promoted(study):
        before = study.history.trials[source_of(trial)]
        assert (trial.config, trial.seed, trial.config_id) == (before.config, before.seed, before.config_id)
        assert trial.previous_budget == before.budget < trial.budget
    assert bohb.replay(study.events).ok


def test_a_bracket_asks_who_goes_on() -> None:
    asked: list[tuple[Any, ...]] = []

    def choose(losses: list[tuple[float, int]], k: int) -> list[int]:
        asked.append((sorted(losses), k))
        return [42]

    bracket = Halving(halving(3, [1, 3], 3), choose=choose)
    for number in range(3):
        bracket.start(number)
    for number in range(3):
        bracket.finish(number, float(number))
    assert asked == [([(0.0, 0), (1.0, 1), (2.0, 2)], 1)]
    assert bracket.next_action() == Promote(1, 42)
    assert bracket.survivors == [[42]]
