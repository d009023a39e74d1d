"""What a free worker does next: events in, a decision out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bohb import BOHB, Origin
from bohb.core.decide import Decision, PlanBracket, Restart, StartPromotion, StartSample, decide, first_run, ready_runs
from bohb.core.events import BracketPlanned, BracketShortened, BudgetsRaised, ConfigGiven, Event, RungCut, TrialLost
from bohb.core.history import History
from bohb.core.samplers.chain import Samplers
from bohb.core.schedule import rules
from bohb.core.schedule.halving import Done, Wait
from bohb.core.settings import PRESETS
from tests.core.building import SPACE, created, finished, folded, lost, promoted, rung, started

# With the budgets 1 and 3, Hyperband's brackets are in turn: 3 configurations on 1 and the best on 3; 2 on 3.
FULL = rung(0.3, 0.1, 0.2)
RUNNING: list[Event] = [started(0), started(1), started(2)]
ANYWHERE = ConfigGiven(0, {"x": 0.5})
DIRECTLY = ConfigGiven(0, {"x": 0.5}, 3)
OWN = BracketPlanned(0, ((3, 1),), "given")
INFORMED = created(settings=PRESETS["best"])
USUAL = ((1, 3), (3, 1))
FIRST = [*FULL, promoted(3, started(1)), finished(3, 0.1)]  # the whole first bracket
ROUND = [*FIRST, *rung(0.5, 0.6, first=4, bracket=1, budget=3)]
AGAIN = [*rung(0.3, 0.1, 0.2, first=6, bracket=2), promoted(9, started(7, 2)), finished(9, 0.1)]
BOTH = [started(3, 1, 3), started(4, 1, 3)]

TABLE: dict[str, tuple[list[Event], Decision]] = {
    # the schedule
    "a study begins on the smallest budget": ([], StartSample(0, 0, 1)),
    "a bracket is filled": ([started(0)], StartSample(0, 0, 1)),
    "a full rung waits, and the next bracket opens": (RUNNING, StartSample(1, 0, 3)),
    "the best of a finished rung goes on": (FULL, StartPromotion(0, 1, 3, 1)),
    "no failed trial goes on": (rung(math.inf, math.inf, 0.7), StartPromotion(0, 1, 3, 2)),
    "a rung of failures ends its bracket": (rung(math.inf, math.inf, math.inf), StartSample(1, 0, 3)),
    "failures on the first rung do not end it": ([started(0), finished(0)], StartSample(0, 0, 1)),
    "runs of one budget start in the order of their brackets": (
        [*RUNNING, started(3, 1, 3), finished(0, 0.3), finished(1, 0.1), finished(2, 0.2)],
        StartPromotion(0, 1, 3, 1),
    ),
    "a smaller budget comes before an older bracket": (
        [*RUNNING, *BOTH, started(5, 2), finished(0, 0.3), finished(1, 0.1), finished(2, 0.2)],
        StartSample(2, 0, 1),
    ),
    "brackets repeat": ([*FULL, promoted(3, started(1)), started(4, 1, 3), started(5, 1, 3)], StartSample(2, 0, 1)),
    # lost trials
    "a lost trial is started again": ([*RUNNING, lost(1)], Restart(RUNNING[1].trial)),  # type: ignore[union-attr]
    "a lost trial comes before new ones of its budget": (
        [started(0), lost(0), started(0, attempt=2), started(1), lost(1)],
        Restart(started(1).trial),
    ),
    "a lost trial on a larger budget waits for smaller ones": (
        [*RUNNING, started(3, 1, 3), lost(3), finished(0, 0.3), lost(1)],
        Restart(started(1).trial),
    ),
    "a trial that was started again is not lost": ([*RUNNING, lost(1), started(1, attempt=2)], StartSample(1, 0, 3)),
    # the user's configurations
    "a configuration for any place takes the next one": ([ANYWHERE], StartSample(0, 0, 1)),
    "a configuration with a budget gets a bracket": ([DIRECTLY], PlanBracket(0, 3)),
    "and starts in it": ([DIRECTLY, OWN], StartSample(0, 0, 3)),
    "before a lost trial": ([started(0), lost(0), DIRECTLY], PlanBracket(1, 3)),
    "and before promotions": ([*FULL, DIRECTLY], PlanBracket(1, 3)),
    "Hyperband's brackets follow in their order": (
        [DIRECTLY, OWN, started(0, 0, 3, origin=Origin.GIVEN), finished(0, 0.5)],
        StartSample(1, 0, 1),
    ),
    # finite spaces
    "a rung that was cut goes on with what it has": ([*rung(0.3, 0.1), RungCut(0, 0)], StartPromotion(0, 1, 3, 1)),
    "a rung that was cut before anything ran ends its bracket": ([RungCut(0, 0)], StartSample(1, 0, 3)),
    # deadlines
    "a shortened rung is complete when those that started end": (
        [started(0), finished(0, 0.5), BracketShortened(0, 0, ((1, 1), (3, 1)), 9.0)],
        StartPromotion(0, 1, 3, 0),
    ),
    "a shortened rung still waits for those that run": (
        [started(0), started(1), finished(0, 0.5), BracketShortened(0, 0, ((1, 2), (3, 1)), 9.0)],
        StartSample(1, 0, 3),
    ),
    "a bracket that was chosen for a deadline starts on its first budget": (
        [BracketPlanned(0, ((3, 1),), "deadline", seconds_left=9.0)],
        StartSample(0, 0, 3),
    ),
    # larger budgets
    "brackets after a raised budget use the new ones": (
        [*FIRST, BudgetsRaised((1, 3, 9), 1)],
        StartSample(1, 0, 1),
    ),
    "the best of the old largest budget are promoted first": (
        [
            *FULL,
            promoted(3, started(1)),
            finished(3, 0.1),
            BudgetsRaised((1, 3, 9), 1),
            BracketPlanned(1, ((9, 1),), "promote", promotes=(3,)),
        ],
        StartPromotion(1, 0, 9, 3),
    ),
    # informed studies
    "an informed study opens the first bracket of its round": ([INFORMED], StartSample(0, 0, 1)),
    "it repeats a bracket of which none has finished": ([INFORMED, *RUNNING], PlanBracket(1)),
    "a repeated bracket starts like the last one": (
        [INFORMED, *RUNNING, BracketPlanned(1, USUAL, "repeat")],
        StartSample(1, 0, 1),
    ),
    "Hyperband's next bracket follows once one has finished": (
        [INFORMED, *FIRST],
        StartSample(1, 0, 3),
    ),
    "after a round it chooses whether to leave out rungs": (
        [INFORMED, *ROUND, *AGAIN],
        PlanBracket(3),
    ),
    "a bracket that leaves out rungs starts on the largest budget": (
        [INFORMED, *ROUND, *AGAIN, BracketPlanned(3, ((3, 2),), "skip")],
        StartSample(3, 0, 3),
    ),
}


def decided(history: History, most: int | None = None) -> Decision:
    """Return the decision; if it is to open a bracket that no rule has to choose, the first run of Hyperband's."""
    found = decide(history, most)
    if found != PlanBracket(len(history.brackets)):
        return found
    index = len(history.brackets)
    chosen = rules.chosen(history, index, np.random.default_rng(0), Samplers(history).process)
    return found if chosen else first_run(history, index)


@pytest.mark.parametrize("what", TABLE)
def test_each_history_has_its_next_decision(what: str) -> None:
    events, decision = TABLE[what]
    assert decided(folded(*events)) == decision


@pytest.mark.parametrize(
    ("events", "most", "decision"),
    [
        (RUNNING, 1, Wait()),
        (RUNNING, 2, StartSample(1, 0, 3)),
        (rung(math.inf, math.inf, math.inf), 1, Done()),
        (FULL, 1, StartPromotion(0, 1, 3, 1)),
        ([*RUNNING, lost(2)], 1, Restart(started(2).trial)),
        ([*RUNNING, DIRECTLY], 1, PlanBracket(1, 3)),
        ([DIRECTLY, OWN, started(0, 0, 3, origin=Origin.GIVEN)], 1, StartSample(1, 0, 1)),
        ([INFORMED, *RUNNING], 1, Wait()),
    ],
)
def test_a_limit_of_brackets_keeps_only_new_ones_from_opening(
    events: list[Event], most: int, decision: Decision
) -> None:
    assert decided(folded(*events), most) == decision


def test_hpbandster_starts_the_oldest_bracket_first() -> None:
    events = [created(settings=PRESETS["hpbandster"]), *RUNNING, *BOTH, started(5, 2), lost(5)]
    ended: list[Event] = [finished(0, 0.3), finished(1, 0.1), finished(2, 0.2)]
    assert decide(folded(*events, *ended)) == StartPromotion(0, 1, 3, 1)
    assert decide(folded(created(), *events[1:], *ended)) == Restart(started(5, 2).trial)


def test_hpbandster_fills_the_place_of_a_failed_trial_on_the_next_rung() -> None:
    failed = rung(math.inf, math.inf, math.inf)
    assert decide(folded(created(settings=PRESETS["hpbandster"]), *failed)) == StartSample(0, 1, 3)


def test_all_that_can_start_is_listed_in_order() -> None:
    history = folded(*RUNNING, started(3, 1, 3), started(4, 1, 3), started(5, 2), lost(4), lost(1))
    assert ready_runs(history) == [Restart(started(1).trial), StartSample(2, 0, 1), Restart(started(4, 1, 3).trial)]


def test_in_a_finite_space_a_promotion_waits_for_a_trial_that_evaluates_the_same() -> None:
    before: list[Event] = [
        created(1, 3, finite=30),
        *(started(n, config={"x": n + 1}) for n in range(3)),
        started(3, 1, 3, config={"x": 1}),
        *(finished(n, float(n)) for n in range(3)),
    ]
    assert decided(folded(*before)) == StartSample(1, 0, 3)
    assert decide(folded(*before, finished(3, 0.5))) == StartPromotion(0, 1, 3, 0)


def test_free_workers_take_the_smallest_budget_and_open_a_bracket_only_when_nothing_is_ready() -> None:
    """§4.2 by hand: budgets 1, 3, 9; bracket 0 has rungs 9·1, 3·3, 1·9, bracket 1 has 5·3, 1·9, bracket 2 has 3·9."""
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, preset="paper")
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
    study = BOHB(SPACE, min_budget=1, max_budget=9, seed=0, preset="paper", start_order="oldest_bracket")
    first = [study.ask() for _ in range(9)]
    for trial in first[:8]:
        study.tell(trial, trial.number)
    later = [study.ask() for _ in range(9)]  # bracket 1 (5), bracket 2 (3), bracket 3 (first of 9)
    assert [t.bracket for t in later] == [1] * 5 + [2] * 3 + [3]
    study.tell(first[8], 100)
    assert (study.ask().bracket, study.ask().bracket) == (0, 0)


def test_decisions_are_data() -> None:
    study = BOHB(SPACE, min_budget=1, max_budget=3, seed=0, preset="paper", max_brackets=1)
    assert decide(study.history) == PlanBracket(0)
    assert first_run(study.history, 0) == StartSample(0, 0, 1.0)
    trials = [study.ask() for _ in range(3)]
    assert decide(study.history, max_brackets=1) == Wait()
    assert decide(study.history) == PlanBracket(1)
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


def test_a_trial_that_asks_for_another_try_waits_for_longer_each_time_and_others_start() -> None:
    history = folded(started(0))
    for attempt, delay in enumerate((1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300), 1):
        history.extend([TrialLost(0, attempt, "no GPU", time=1000.0, counts=False, retry=True)])
        assert decide(history, time=1000.0 + delay - 0.1) == StartSample(0, 0, 1)
        assert decide(history, time=1000.0 + delay) == Restart(history.trials[0])
        assert decide(history, time=100.0) == Restart(history.trials[0]), "a clock was set back"
        history.extend([started(0, attempt=attempt + 1)])
        assert decide(history, time=1000.0) == StartSample(0, 0, 1)
    assert (len(history.retries[0]), history.losses) == (11, {})
