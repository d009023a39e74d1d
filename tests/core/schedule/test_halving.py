"""Algorithm 3 as actions, and the rule of §4.2 for which bracket acts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bohb import BOHB, Trial
from bohb.core.decide import Restart, StartPromotion, StartSample, decide
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


def test_free_workers_take_the_smallest_budget_and_open_a_bracket_only_when_nothing_is_ready() -> None:
    """§4.2 by hand: budgets 1, 3, 9; bracket 0 has rungs 9·1, 3·3, 1·9, bracket 1 has 5·3, 1·9, bracket 2 has 3·9."""
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0)
    first = [study.ask() for _ in range(9)]
    assert {(t.bracket, t.budget) for t in first} == {(0, 1.0)}
    # All nine run; a tenth worker finds nothing ready in bracket 0, so bracket 1 opens.
    second = [study.ask() for _ in range(2)]
    assert {(t.bracket, t.budget) for t in second} == {(1, 3.0)}
    for trial in first:
        study.tell(trial, trial.number)
    # Bracket 0 has three promotions to budget 3, bracket 1 has three samples left on budget 3: older bracket first.
    third = [study.ask() for _ in range(6)]
    assert [(t.bracket, t.budget, t.origin.value == "promoted") for t in third] == [(0, 3.0, True)] * 3 + [
        (1, 3.0, False)
    ] * 3
    assert [t.config for t in third[:3]] == [t.config for t in first[:3]]
    # Everything runs: bracket 2 opens on the full budget, then bracket 3, again the most aggressive one.
    fourth = [study.ask() for _ in range(4)]
    assert [(t.bracket, t.budget) for t in fourth] == [(2, 9.0)] * 3 + [(3, 1.0)]
    # Bracket 0's last promotion (budget 9) must wait behind bracket 3's samples (budget 1).
    for trial in third[:3]:
        study.tell(trial, trial.number)
    fifth = [study.ask() for _ in range(9)]
    assert [(t.bracket, t.budget) for t in fifth] == [(3, 1.0)] * 8 + [(0, 9.0)]


def test_hpbandsters_order_goes_by_the_age_of_the_bracket() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, start_order="oldest_bracket")
    first = [study.ask() for _ in range(9)]
    for trial in first[:8]:
        study.tell(trial, trial.number)
    later = [study.ask() for _ in range(9)]  # bracket 1 (5), bracket 2 (3), bracket 3 (first of 9)
    assert [t.bracket for t in later] == [1] * 5 + [2] * 3 + [3]
    study.tell(first[8], 100)
    assert (study.ask().bracket, study.ask().bracket) == (0, 0)


def test_decisions_are_data() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=3, seed=0, max_brackets=1)
    assert decide(study.history) == StartSample(0, 0, 1.0)
    trials = [study.ask() for _ in range(3)]
    assert decide(study.history, max_brackets=1) == Wait()
    assert decide(study.history) == StartSample(1, 0, 3.0)
    study.lose(trials[1], "worker gone")
    assert decide(study.history) == Restart(trials[1])
    again = study.ask()
    assert (again.number, again.attempt, again.seed, again.config) == (1, 2, trials[1].seed, trials[1].config)
    study.tell(trials[1], 0.0)  # late: another runner has taken the trial over
    for trial, loss in zip([trials[0], again, trials[2]], [3.0, 1.0, 2.0], strict=True):
        study.tell(trial, loss)
    assert study.history.outcomes[1].loss == 1.0
    assert decide(study.history) == StartPromotion(0, 1, 3.0, 1)
    study.tell(study.ask(), 0.5)
    assert decide(study.history, max_brackets=1) == Done()


@pytest.mark.parametrize("workers", [1, 2, 7, 40])
def test_with_any_number_of_workers_the_rungs_have_their_planned_sizes(workers: int) -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=27, seed=1, max_brackets=8)
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
