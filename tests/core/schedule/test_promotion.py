"""Promotions: the best of a bracket, each configuration once."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import bohb
from bohb import BOHB, Origin, Trial
from bohb.core.schedule import brackets
from bohb.core.schedule.halving import Halving, Promote

SPACE: dict[str, Any] = {"x": (0.0, 1.0)}


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

    plan = brackets.halving(3, [1, 3], 3)
    bracket = Halving(plan, choose=choose)
    for number in range(3):
        bracket.start(number)
    for number in range(3):
        bracket.finish(number, float(number))
    assert asked == [([(0.0, 0), (1.0, 1), (2.0, 2)], 1)]
    assert bracket.next_action() == Promote(1, 42)
    assert bracket.survivors == [[42]]
