"""`schedule="compare"`: when brackets start on the largest budget instead of where Hyperband's order says."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest

import bohb
from bohb.analysis import bracket_choice, why
from bohb.core.schedule.brackets import Bracket, hyperband
from bohb.core.schedule.comparison import chance_of_top, cost_of_result
from bohb.core.schedule.halving import Halving, Promote
from bohb.journal import MemoryJournal

ROUND = hyperband([1, 3, 9])
Loss = Callable[[float, float], float]  # of x and the budget


def finished(bracket: Bracket, *top: float) -> Halving:
    """A finished bracket with these losses on the largest budget."""
    halving, numbers = Halving(bracket), itertools.count()
    last = iter(top)
    while not halving.done:
        action, number = halving.next_action(), next(numbers)
        on_top = halving.budget == bracket.rungs[-1].budget
        assert isinstance(action, Promote) or halving.rung == 0
        halving.start(number)
        halving.finish(number, next(last) if on_top else float(number))
    return halving


def study(loss: Loss, trials: int = 250, seed: int = 0, journal: MemoryJournal | None = None) -> bohb.BOHB:
    made = bohb.BOHB({"x": (0.0, 1.0)}, budgets=[1, 3, 9], seed=seed, schedule="compare", journal=journal)
    while len(made.history.outcomes) < trials:
        trial = made.ask()
        made.tell(trial, loss(trial.config["x"], trial.budget))
    return made


def agrees(x: float, budget: float) -> float:
    return (x - 0.3) ** 2 + 1 / budget


def misleads(x: float, budget: float) -> float:
    return (x - 0.3) ** 2 if budget == 9 else -abs(x - 0.3)


def test_a_result_costs_its_share_of_the_whole_bracket() -> None:
    # 9 on 1, 3 of them on to 3, 1 on to 9: 9 + 3·2 + 6 = 21 units for one result, and 9 units are one evaluation
    assert cost_of_result(finished(ROUND[0], 0.5)) == pytest.approx(21 / 9)
    assert cost_of_result(finished(ROUND[2], 0.1, 0.2, 0.3)) == 1


@pytest.mark.parametrize(
    ("new", "promoted", "expected"),
    [
        ([0.1, 0.2, 0.3], [1.0, 1.0], "above"),  # every new one is better
        ([1.0, 1.1, 1.2], [0.1, 0.1], "below"),
        ([1.0, 1.1, math.inf], [math.inf, math.inf], "above"),  # the promoted ones fail
    ],
)
def test_the_chance_is_that_of_the_best_of_as_many_as_cost_the_same(
    new: list[float], promoted: list[float], expected: str
) -> None:
    chance = chance_of_top([finished(ROUND[0], loss) for loss in promoted] + [finished(ROUND[2], *new)], ROUND)
    assert chance is not None
    assert (chance > 0.6) == (expected == "above")


def test_equal_results_speak_for_what_is_cheaper_but_not_enough_to_change_anything() -> None:
    brackets = [finished(ROUND[1], 0.5), finished(ROUND[1], 0.5), finished(ROUND[2], 0.5, 0.5, 0.5)]
    assert chance_of_top(brackets, ROUND) == pytest.approx((2 * (1 - 0.5 ** cost_of_result(brackets[0])) + 1) / 4)


def test_nothing_is_concluded_from_few_results_or_another_largest_budget() -> None:
    new = finished(ROUND[2], 0.1, 0.2, 0.3)
    assert chance_of_top([new, finished(ROUND[0], 1.0)], ROUND) is None
    other = [finished(bracket, *[0.5] * bracket.rungs[-1].size) for bracket in hyperband([1, 3, 9, 27])]
    assert chance_of_top([*other, *other], ROUND) is None


@pytest.mark.parametrize("seed", range(3))
def test_where_low_budgets_mislead_two_of_three_brackets_start_on_the_largest(seed: int) -> None:
    made = study(misleads, seed=seed)
    chosen = made.history.planned
    assert len(chosen) >= 0.4 * len(made.history.brackets)
    assert all(index % 3 for index in chosen)
    assert all(event.rungs == ((9, 3),) for event in chosen.values())


def test_what_is_not_chosen_is_hyperband_in_its_order() -> None:
    made = study(misleads)
    published = [b.bracket for i, b in enumerate(made.history.brackets) if i not in made.history.planned]
    assert published == [ROUND[i % 3] for i in range(len(published))]


def test_where_low_budgets_agree_hyperbands_order_is_mostly_kept() -> None:
    """The promoted ones are the best of many, so few brackets leave the order: at most a third over ten studies."""
    made = [study(agrees, seed=seed).history for seed in range(10)]
    chosen, opened = (sum(map(len, counted)) for counted in ([h.planned for h in made], [h.brackets for h in made]))
    assert chosen <= opened / 3


def test_decisions_can_be_replayed_and_resumed() -> None:
    journal = MemoryJournal()
    study(misleads, trials=100, journal=journal)
    resumed = study(misleads, trials=250, journal=journal)
    whole = study(misleads)
    assert resumed.history.planned == whole.history.planned
    assert [t.config for t in resumed.history.trials.values()] == [t.config for t in whole.history.trials.values()]
    report = bohb.replay(resumed.events)
    assert report.ok
    assert report.differences == ()


def test_the_choice_is_explained() -> None:
    made = study(misleads)
    index = min(made.history.planned)
    trial = next(t for t in made.history.trials.values() if t.bracket == index)
    assert bracket_choice(made.history, index).chance_of_top == made.history.planned[index].reason["chance_of_top"]
    assert any("starts on the largest budget" in line for line in why(made.history, trial.number).sentences)
