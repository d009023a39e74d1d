"""Which brackets an adaptive study opens: tables of rungs, and the fixed share of published brackets."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import bohb
from bohb import BOHB, History, Trial
from bohb.analysis.agreement import bracket_choice, bracket_choices, rung_agreement
from bohb.analysis.why import why
from bohb.core.decide import PlanBracket, decide
from bohb.core.encoding import from_json, to_json
from bohb.core.events import BracketPlanned, BudgetsRaised
from bohb.core.schedule.brackets import Bracket, halving, hyperband
from bohb.core.schedule.gains import choose_bracket, expected_gain, lowered
from bohb.core.space import Space
from bohb.journal import MemoryJournal

SPACE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
Losses = Callable[[Trial], float]


def sizes(bracket: Bracket) -> list[tuple[float, int]]:
    return [(rung.budget, rung.size) for rung in bracket.rungs]


def play(study: BOHB, losses: Losses, n: int) -> BOHB:
    for _ in range(n):
        for trial in study.ask_many(1):
            study.tell(trial, losses(trial))
    return study


def honest(trial: Trial) -> float:
    """Every budget has the ranking of the largest."""
    return abs(float(trial.config["x"]) - 0.3) + float(trial.config["y"]) + 1 / trial.budget


def misleading(trial: Trial) -> float:
    """Budgets below 1.8 have the opposite ranking."""
    return -honest(trial) if trial.budget < 1.8 else honest(trial)


def ladder_losses(rhos: list[float], n: int = 300, keep: int = 60) -> dict[float, dict[bytes, float]]:
    """Losses on the budgets 1, 3, 9 …, neighbours correlated as given; the best and some others are promoted."""
    rng = np.random.default_rng(0)
    losses = rng.standard_normal(n)
    names = np.array([str(i).encode() for i in range(n)])
    found = {1.0: dict(zip(names.tolist(), losses.tolist(), strict=True))}
    for step, rho in enumerate(rhos, start=1):
        chosen = np.argsort(losses)[: max(keep, 1)]
        chosen = np.concatenate([chosen[: keep // 2], rng.choice(len(losses), keep // 2, replace=False)])
        chosen = np.unique(chosen)
        names = names[chosen]
        losses = rho * losses[chosen] + math.sqrt(1 - rho**2) * rng.standard_normal(len(chosen))
        found[3.0**step] = dict(zip(names.tolist(), losses.tolist(), strict=True))
    return found


@pytest.mark.parametrize(
    ("budgets", "eta", "expected"),
    [
        ([9, 27, 81], 3, [3, 1]),
        ([10, 30], 3, [4, 2]),
        ([9.0], 3, [3.0, 1.0]),
        ([3**i for i in range(2, 7)], 3, [3]),
        ([3**i for i in range(2, 9)], 3, []),
        ([9.0, 27.0], 3, [3.0, 1.0]),
        ([1, 3, 9], 3, []),
        ([2.0, 6.0], 3, [1.0]),
        ([4, 13], 3, [2, 1]),
        ([0.9, 2.7], 3, [0.3, 0.1]),
        ([1.5, 4.5], 3, [0.5, 1 / 6]),
        ([2, 4, 8], 2, [1]),
    ],
)
def test_lower_budgets_are_whole_where_the_others_are(budgets: list[float], eta: float, expected: list[float]) -> None:
    found = lowered(budgets, eta)
    assert found == pytest.approx(expected)
    assert [type(b) for b in found] == [type(budgets[0])] * len(found)
    assert all(b >= budgets[0] / eta**2 * (1 - 1e-9) for b in found)


def best_of(n: int) -> float:
    """Return the expected maximum of n standard normal numbers."""
    x = np.linspace(-8, 8, 20_001)
    return float(np.sum(x * n * norm.pdf(x) * norm.cdf(x) ** (n - 1)) * (x[1] - x[0]))


def test_the_expected_gain_is_that_of_order_statistics() -> None:
    def pair(rho: float) -> np.ndarray:
        return np.array([[1, rho], [rho, 1]])

    def gain(sizes: list[int], correlation: np.ndarray) -> float:
        return expected_gain(np.random.default_rng(0), sizes, correlation)[0]

    one = np.ones((1, 1))
    assert expected_gain(np.random.default_rng(0), [1], one) == pytest.approx((0, 1), abs=0.03)
    assert gain([5], one) == pytest.approx(best_of(5), abs=0.03)
    assert gain([27, 1], pair(1)) == pytest.approx(best_of(27), abs=0.05)
    assert gain([27, 1], pair(0.5)) == pytest.approx(0.5 * best_of(27), abs=0.08)
    assert gain([27, 9], pair(0)) == pytest.approx(best_of(9), abs=0.05)
    assert gain([27, 1], pair(-1)) == pytest.approx(-best_of(27), abs=0.05)
    # The agreement of the first rung with the last counts, besides that with the second.
    chain = np.array([[1, 0.8, 0.64], [0.8, 1, 0.8], [0.64, 0.8, 1]])
    noise = np.array([[1, 0.8, 0.8], [0.8, 1, 0.8], [0.8, 0.8, 1]])
    assert gain([81, 9, 1], noise) > gain([81, 9, 1], chain) + 0.05


def starts(known: dict[float, dict[bytes, float]], budgets: list[float], n: int = 40) -> Counter[float]:
    """Return the first rungs of many chosen brackets."""
    found: Counter[float] = Counter()
    for seed in range(n):
        choice = choose_bracket(np.random.default_rng(seed), budgets, 3, known)
        found[choice.bracket.rungs[0].budget] += 1
    return found


def test_a_rung_that_misleads_falls_out_of_use() -> None:
    found = starts(ladder_losses([-0.2, 0.9, 0.9]), [1.0, 3.0, 9.0, 27.0])
    assert found[1.0] <= 4
    assert found[3.0] >= 25


def test_where_only_the_top_tells_anything_brackets_start_there() -> None:
    assert starts(ladder_losses([0.9, 0.9, 0.0]), [1.0, 3.0, 9.0, 27.0])[27.0] >= 30


def test_a_rung_that_agrees_very_well_invites_a_lower_one() -> None:
    known = {budget / 2: losses for budget, losses in ladder_losses([0.99, 0.99, 0.99]).items()}
    found = starts(known, [0.5, 1.5, 4.5, 13.5])
    assert found[0.5 / 3] >= 25
    assert min(found) == 0.5 / 3  # not yet two below: the first is unknown
    fair = {budget / 2: losses for budget, losses in ladder_losses([0.7, 0.9, 0.9]).items()}
    assert min(starts(fair, [0.5, 1.5, 4.5, 13.5])) == 0.5


def test_a_lower_rung_that_misleads_or_fails_is_left_again() -> None:
    known = {budget / 2: losses for budget, losses in ladder_losses([0.99, 0.99, 0.99]).items()}
    rng = np.random.default_rng(1)
    contrary = {key: -loss + 0.1 * rng.standard_normal() for key, loss in list(known[0.5].items())[:150]}
    assert starts({**known, 0.5 / 3: contrary}, [0.5, 1.5, 4.5, 13.5])[0.5 / 3] <= 2
    failed = {f"f{i}".encode(): math.inf for i in range(200)}
    assert starts({**known, 0.5 / 3: failed}, [0.5, 1.5, 4.5, 13.5])[0.5 / 3] <= 8


def test_when_the_last_rungs_agree_one_configuration_goes_to_the_top() -> None:
    perfect = ladder_losses([0.9, 0.999], keep=100)
    choice = choose_bracket(np.random.default_rng(0), [1.0, 3.0, 9.0], 3, perfect)
    assert choice.reason["settled"]
    assert choice.bracket.rungs[-1].size == 1
    assert not choose_bracket(np.random.default_rng(0), [1.0, 3.0, 9.0], 3, ladder_losses([0.9, 0.9])).reason["settled"]


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 3, 4.5, 10]),
    st.sampled_from([(3, 0), (3, 2), (3, 3), (2, 4), (4, 2)]),
    st.sampled_from([honest, misleading, lambda t: math.nan, lambda t: 1.0, lambda t: t.number * 37 % 11]),
)
@settings(max_examples=8, deadline=None)
def test_a_third_of_the_brackets_is_as_published_in_hyperbands_order(
    seed: int, low: float, shape: tuple[int, int], losses: Losses
) -> None:
    eta, rungs = shape
    study = BOHB(SPACE, min_budget=low, max_budget=low * eta**rungs, eta=eta, seed=seed, budgets="adaptive",
                 random_fraction=1)  # fmt: skip
    play(study, losses, 200)
    history = study.history
    published = [bracket.bracket for index, bracket in enumerate(history.brackets) if index % 3 == 0]
    assert published == list(itertools.islice(itertools.cycle(history.schedule.round), len(published)))
    assert {index for index in range(len(history.brackets)) if index % 3} <= set(history.schedule.planned)
    assert all(index % 3 for index in history.schedule.planned)
    for index, event in history.schedule.planned.items():
        assert event.rungs[-1][0] == history.budgets[-1]
        assert low / eta**2 * (1 - 1e-9) <= event.rungs[0][0]
        assert bracket_choice(history, index).bracket == history.schedule.plan(index)


def test_one_budget_that_cannot_be_lowered_is_hyperband() -> None:
    one: dict[str, Any] = {"min_budget": 1, "max_budget": 1, "seed": 0, "preset": "paper"}
    adaptive = play(BOHB(SPACE, **one, budgets="adaptive"), honest, 40)
    plain = play(BOHB(SPACE, **one), honest, 40)
    assert list(adaptive.history.trials.values()) == list(plain.history.trials.values())


def test_one_budget_that_is_too_large_gets_lower_ones() -> None:
    study = play(BOHB(SPACE, min_budget=9, max_budget=9, seed=0, budgets="adaptive"), honest, 300)
    budgets = Counter(trial.budget for trial in study.history.trials.values())
    assert set(budgets) == {1, 3, 9}
    assert budgets[1] > budgets[9]


def test_a_study_leaves_a_misleading_rung() -> None:
    study = play(BOHB(SPACE, min_budget=1, max_budget=27, seed=4, budgets="adaptive"), misleading, 700)
    rows = [row for row in bracket_choices(study.history) if not row.published]
    late = rows[len(rows) // 3 :]
    assert len(late) >= 6
    assert sum(row.verdict == "raised" for row in late) >= 0.8 * len(late)
    lowest = rung_agreement(study.history)[0]
    assert (lowest.low, lowest.high) == (1, 3)
    assert lowest.interval[1] < 0.2
    text = str(why(study.history, len(study.history.trials) - 1))
    assert f"Bracket {study.history.trials[len(study.history.trials) - 1].bracket} " in text


def test_a_study_lowers_its_smallest_budget() -> None:
    study = play(BOHB(SPACE, min_budget=9, max_budget=81, seed=0, budgets="adaptive", random_fraction=1), honest, 600)
    rows = bracket_choices(study.history)
    assert any(row.verdict == "lowered" and row.start == 3 for row in rows)
    assert min(trial.budget for trial in study.history.trials.values()) >= 1
    assert study.history.budgets == (9, 27, 81)
    number = next(n for n, t in study.history.trials.items() if t.budget == 3)
    told = why(study.history, number)
    assert told.bracket.verdict == "lowered"
    assert "was chosen to start on budget" in str(told)
    assert "below the smallest, because" in str(told)
    assert "on both; drawn:" in str(told)


def test_some_are_promoted_at_random_and_it_is_told() -> None:
    study = play(BOHB(SPACE, min_budget=1, max_budget=27, seed=0, budgets="adaptive"), honest, 120)
    history = study.history
    lucky = [t for t in history.trials.values() if t.reason.get("picked") == "at random"]
    places = Counter((t.bracket, t.rung) for t in lucky)
    assert places
    assert set(places.values()) == {1}
    for trial in lucky:
        rung = history.brackets[trial.bracket].bracket.rungs[trial.rung]
        assert rung.size >= 4
        assert "It was promoted at random" in str(why(history, trial.number))
    source = lucky[0].from_trial
    assert source is not None
    assert "and one at random" in str(why(history, source))
    assert why(history, source).fate == "promoted"


def test_the_same_events_give_the_same_decisions() -> None:
    study = play(BOHB(SPACE, min_budget=4.5, max_budget=40.5, seed=2, budgets="adaptive"), honest, 300)
    report = bohb.replay(study.events)
    assert report.differences == ()
    assert report.decisions == 300 + len(study.history.schedule.planned)
    for event in study.history.schedule.planned.values():
        assert from_json(event.kind, to_json(event)) == event


def test_a_resumed_study_is_the_uninterrupted_one() -> None:
    arguments: dict[str, Any] = {"min_budget": 4.5, "max_budget": 40.5, "seed": 2, "budgets": "adaptive"}
    whole = play(BOHB(SPACE, **arguments), honest, 200)
    journal = MemoryJournal()
    for _ in range(20):
        study = play(BOHB(SPACE, **arguments, journal=journal), honest, 10)
    assert list(study.history.trials.values()) == list(whole.history.trials.values())
    assert study.history.schedule.planned == whole.history.schedule.planned


def test_another_schedule_is_another_study() -> None:
    journal = MemoryJournal()
    play(BOHB(SPACE, min_budget=1, max_budget=9, seed=0, journal=journal), honest, 5)
    with pytest.raises(bohb.errors.StudyMismatch, match="schedule: stored 'informed', given 'adaptive'"):
        BOHB(SPACE, min_budget=1, max_budget=9, seed=0, budgets="adaptive", journal=journal)


def test_a_larger_maximum_is_taken_up_after_rungs_were_lowered() -> None:
    journal = MemoryJournal()
    arguments: dict[str, Any] = {"min_budget": 9, "seed": 0, "budgets": "adaptive", "journal": journal}
    arguments |= {"random_fraction": 1}
    before = play(BOHB(SPACE, max_budget=27, **arguments), honest, 400)
    assert any(row.verdict == "lowered" for row in bracket_choices(before.history))
    opened = len(before.history.brackets)
    study = BOHB(SPACE, max_budget=81, **arguments)
    raised = [event for event in study.events if isinstance(event, BudgetsRaised)]
    assert [event.first_bracket for event in raised] == [max(opened, 1 + max(before.history.schedule.planned))]
    play(study, honest, 600)
    history = study.history
    assert history.budgets == (9, 27, 81)
    later = range(raised[0].first_bracket, len(history.brackets))
    published = [history.brackets[index].bracket for index in later if index % 3 == 0]
    assert published == list(itertools.islice(itertools.cycle(hyperband([9.0, 27.0, 81.0], 3)), len(published)))
    chosen = [history.brackets[index].bracket for index in later if index % 3]
    assert chosen
    assert {bracket.rungs[-1].budget for bracket in chosen} == {81}
    assert any(bracket.rungs[0].budget < 9 for bracket in chosen)  # estimates of lower rungs remain valid
    assert bohb.replay(journal.read(0)).ok


def test_a_bracket_that_is_planned_keeps_its_rungs_when_budgets_are_raised() -> None:
    journal = MemoryJournal()
    arguments: dict[str, Any] = {"min_budget": 1, "seed": 0, "budgets": "adaptive", "journal": journal}
    study = BOHB(SPACE, max_budget=9, **arguments)
    for trial in study.ask_many(9):
        study.tell(trial, honest(trial))
    play(study, honest, 4)
    assert decide(study.history) == PlanBracket(1)
    (planned,) = study.next_events()
    assert isinstance(planned, BracketPlanned)
    journal.append([planned], study.history.n_events)
    study = BOHB(SPACE, max_budget=27, **arguments)
    assert study.history.schedule.plan(1).rungs[-1].budget == 9
    assert study.ask().bracket == 1
    assert study.history.brackets[1].bracket == Bracket(halving(1, [1]).rungs) or (
        sizes(study.history.brackets[1].bracket) == list(planned.rungs)
    )
    assert decide(study.history) != PlanBracket(1)


def test_a_bracket_is_planned_once_and_in_turn() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, budgets="adaptive")
    history = History(Space(SPACE)).extend(study.events)
    with pytest.raises(bohb.errors.JournalError, match="bracket 4 is planned, but the next one is 0"):
        history.apply(BracketPlanned(4, ((1.0, 9),), "adaptive"))


def test_results_of_an_earlier_study_count() -> None:
    old = play(BOHB(SPACE, min_budget=1, max_budget=27, seed=0), misleading, 120)
    study = BOHB(SPACE, min_budget=1, max_budget=27, seed=1, budgets="adaptive", warm_start=old)
    known = rung_agreement(study.history)
    assert known[0].shared >= 12
    assert known[0].rho < 0.2
    assert rung_agreement(old.history)[0].rho == pytest.approx(known[0].rho, abs=0.1)


def test_the_argument_is_checked() -> None:
    with pytest.raises(bohb.errors.InvalidArgument, match="budgets='adoptive' must be a list of numbers, or 'adapt"):
        BOHB(SPACE, min_budget=1, max_budget=9, budgets="adoptive")  # type: ignore[arg-type]
    with pytest.raises(bohb.errors.InvalidArgument, match="contradicts schedule='hyperband'"):
        BOHB(SPACE, min_budget=1, max_budget=9, budgets="adaptive", schedule="hyperband")
    with pytest.raises(bohb.errors.InvalidArgument, match="must both be given"):
        BOHB(SPACE, budgets="adaptive")
    listed = BOHB(SPACE, budgets=[1, 4, 16], eta=4, seed=0, schedule="adaptive")
    assert listed.history.schedule.adaptive


def test_minimize_takes_it() -> None:
    study = bohb.minimize(
        honest, SPACE, min_budget=1, max_budget=9, budgets="adaptive", max_brackets=5, seed=0, progress=False
    )
    assert sorted(study.history.schedule.planned) == [1, 2, 4]
    assert study.stopped == "all 5 brackets are complete"


def test_a_finite_space_comes_to_an_end() -> None:
    study = BOHB({"a": (1, 9)}, min_budget=1, max_budget=9, seed=0, budgets="adaptive")
    while trials := study.ask_many(1):
        study.tell(trials[0], float(trials[0].config["a"]))
    assert study.done
    assert bohb.replay(study.events).ok
