"""Promotions from the whole rung: the best of all brackets, each configuration once."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bohb
from bohb import BOHB, Origin, Trial
from bohb.analysis import survival, why
from bohb.core.schedule import brackets
from bohb.core.schedule.halving import Halving, Promote

SPACE: dict[str, Any] = {"x": (0.0, 1.0)}


def promoted(study: BOHB) -> list[Trial]:
    return [trial for trial in study.history.trials.values() if trial.origin is Origin.PROMOTED]


def source_of(trial: Trial) -> int:
    assert trial.from_trial is not None
    return trial.from_trial


def play(study: BOHB, losses: Any, n: int, workers: int = 1) -> BOHB:
    """Run n trials, `workers` at a time, told in an order that depends on their numbers."""
    running: list[Trial] = []
    for _ in range(n):
        running += study.ask_many(workers - len(running))
        if not running:
            break
        trial = running.pop(len(study.history.trials) * 7 % len(running))
        study.tell(trial, losses(trial))
    return study


def test_the_next_rung_takes_the_best_of_all_brackets_that_were_not_promoted() -> None:
    """Budgets 1 and 3: brackets of 3 → 1 and of 2. Losses on budget 1: 1, 2, 3, then 9, 8, 7."""
    given = {0: 1.0, 1: 2.0, 2: 3.0, 6: 9.0, 7: 8.0, 8: 7.0}
    study = play(BOHB(SPACE, budgets=[1, 3], seed=0, promote="rung"), lambda t: given.get(t.number, 5.0), 12)
    taken = [(trial.bracket, source_of(trial), trial.reason["loss"]) for trial in promoted(study)]
    assert taken == [(0, 0, 1.0), (2, 1, 2.0)]
    second = promoted(study)[1]
    assert (second.config_id, second.seed) == (1, study.history.trials[1].seed)
    assert (second.previous_budget, second.budget) == (1, 3)
    assert "among the best configurations that no bracket had promoted yet" in str(why(study.history, second.number))
    assert "A later bracket may still promote it" in str(why(study.history, 2))
    assert why(study.history, 1).fate == "promoted"


def test_by_default_a_bracket_promotes_its_own_alone() -> None:
    study = play(BOHB(SPACE, budgets=[1, 3, 9], seed=0), lambda t: (t.number * 37) % 101, 60)
    assert promoted(study)
    for trial in promoted(study):
        assert study.history.trials[source_of(trial)].bracket == trial.bracket
    assert study.history.promotions.taken == set()


@pytest.mark.parametrize("schedule", ["hyperband", "adaptive"])
@pytest.mark.parametrize("promote", ["bracket", "rung"])
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(0, 6))
@settings(max_examples=5, deadline=None)
def test_no_configuration_is_promoted_twice_from_a_budget(
    promote: str, schedule: str, seed: int, workers: int, failing: int
) -> None:
    def losses(trial: Trial) -> float:
        return math.nan if trial.number % 7 < failing else (trial.number * 37 + seed) % 101

    study = BOHB(SPACE, min_budget=1, max_budget=27, seed=seed, promote=promote, schedule=schedule, random_fraction=1)
    play(study, losses, 180, workers)
    sources = [source_of(trial) for trial in promoted(study)]
    assert len(set(sources)) == len(sources)
    for trial in promoted(study):
        before = study.history.trials[source_of(trial)]
        assert (trial.config, trial.seed, trial.config_id) == (before.config, before.seed, before.config_id)
        assert trial.previous_budget == before.budget < trial.budget
    assert bohb.replay(study.events).ok


@given(st.lists(st.lists(st.integers(0, 30), min_size=9, max_size=9), min_size=2, max_size=6))
@settings(max_examples=50, deadline=None)
def test_no_better_one_waits_when_a_rung_is_filled(losses: list[list[int]]) -> None:
    """Brackets of 9 → 3 → 1 one after the other, held against a pool that is sorted by hand."""
    study = BOHB(SPACE, budgets=[1, 3, 9], seed=0, promote="rung")
    pools: dict[float, list[tuple[float, int]]] = {1: [], 3: []}
    told: dict[int, float] = {}
    numbers = itertools.cycle(itertools.chain.from_iterable(losses))
    for _ in range(40):
        trial = study.ask()
        if trial.origin is Origin.PROMOTED:
            source, below = source_of(trial), trial.previous_budget
            assert below is not None
            assert (told[source], source) == min(pools[below])
            pools[below].remove((told[source], source))
        told[trial.number] = float(next(numbers))
        if trial.budget in pools:
            pools[trial.budget].append((told[trial.number], trial.number))
        study.tell(trial, told[trial.number])


def test_a_finite_space_is_evaluated_once_and_results_that_were_taken_over_are_not_promoted_again() -> None:
    study = BOHB({"a": (1, 7)}, min_budget=1, max_budget=9, seed=3, promote="rung")
    while trials := study.ask_many(1):
        study.tell(trials[0], float(trials[0].config["a"]))
    assert study.done
    ran = [t for t in study.history.trials.values() if t.reuses is None]
    assert len({(t.config["a"], t.budget) for t in ran}) == len(ran)
    sources = [source_of(trial) for trial in promoted(study)]
    assert len(set(sources)) == len(sources)
    assert bohb.replay(study.events).ok


def test_a_rung_that_failed_as_a_whole_is_filled_from_other_brackets() -> None:
    study = BOHB(SPACE, budgets=[1, 3], seed=0, promote="rung")
    play(study, lambda t: math.nan if t.bracket == 2 and t.budget == 1 else float(t.number), 10)
    assert [(t.bracket, source_of(t)) for t in promoted(study)] == [(0, 0), (2, 1)]


def test_the_rung_tables_show_who_went_on_by_whom() -> None:
    study = play(BOHB(SPACE, budgets=[1, 3], seed=0, promote="rung"), lambda t: float(t.number), 12)
    first, _, third, *_ = survival(study.history)
    assert [entry.promoted for entry in first.entries] == [True, True, False]
    assert first.cutoff == 0.0
    third = next(table for table in survival(study.history) if (table.bracket, table.rung) == (2, 0))
    assert [entry.promoted for entry in third.entries] == [False] * 3
    assert third.cutoff == 1.0


def test_only_what_may_be_promoted_soon_stays_alive() -> None:
    study = play(BOHB(SPACE, min_budget=1, max_budget=9, seed=0, promote="rung"), lambda t: float(t.number), 400)
    history = study.history
    bound = sum(upper.size for lower, upper in itertools.pairwise(history.round[0].rungs)) + 1
    bound += sum(len(history.brackets[index].alive()) for index in history.open_brackets)
    assert len(history.alive()) <= bound < len(history.trials) / 5


def test_the_checkpoint_of_a_configuration_from_another_bracket_is_found(tmp_path: Path) -> None:
    found: list[tuple[float | None, list[str], bool]] = []

    def objective(trial: Trial) -> float:
        assert trial.checkpoint_dir is not None
        left = sorted(path.name for path in trial.checkpoint_dir.iterdir())
        found.append((trial.previous_budget, left, trial.origin is Origin.PROMOTED))
        for path in trial.checkpoint_dir.iterdir():
            path.unlink()
        (trial.checkpoint_dir / f"reached-{trial.budget:g}").touch()
        return float(trial.config["x"]) if trial.bracket == 0 else 1 + float(trial.config["x"])

    study = bohb.minimize(
        objective, SPACE, min_budget=1, max_budget=9, seed=0, max_brackets=7, promote="rung", progress=False,
        directory=tmp_path,
    )  # fmt: skip
    crossed = [
        trial
        for trial, _ in study.trials
        if trial.origin is Origin.PROMOTED and study.history.trials[source_of(trial)].bracket != trial.bracket
    ]
    assert crossed
    for previous, left, is_promoted in found:
        assert left == ([] if previous is None else [f"reached-{previous:g}"])
        assert is_promoted or previous is None
    continued = [found[trial.number][0] is not None for trial in crossed]
    assert any(continued)  # one whose checkpoint was let go finds an empty directory and no previous_budget


def test_a_bracket_asks_who_goes_on() -> None:
    asked: list[tuple[Any, ...]] = []

    def choose(rung: int, budget: float, losses: list[tuple[float, int]], k: int) -> list[int]:
        asked.append((rung, budget, sorted(losses), k))
        return [42]

    plan = brackets.halving(3, [1, 3], 3)
    bracket = Halving(plan, choose=choose)
    for number in range(3):
        bracket.start(number)
    for number in range(3):
        bracket.finish(number, float(number))
    assert asked == [(0, 1, [(0.0, 0), (1.0, 1), (2.0, 2)], 1)]
    assert bracket.next_action() == Promote(1, 42)
    assert bracket.survivors == [[42]]
