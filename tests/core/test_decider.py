"""From a decision to the events that carry it out: which configuration, which seed, and why."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bohb import BOHB, Origin, Settings
from bohb.core.decide import Restart, restart
from bohb.core.decider import Decider
from bohb.core.events import BracketPlanned, BracketShortened, ConfigGiven, Event, RungCut, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.limits import UNLIMITED, Limits, Now
from bohb.core.schedule.halving import Wait
from bohb.core.settings import PRESETS
from bohb.core.times.deadline import TimeLeft
from bohb.core.times.durations import Sample, fit_durations
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument
from tests.core.building import created, finished, folded, lost, promoted, rung, started
from tests.core.playing import SPACE, new, run
from tests.replays.stored import events_of

NOW = Now(1000.0, 10.0, 2)
FULL = rung(0.3, 0.1, 0.2)
FIRST = [*FULL, promoted(3, started(1)), finished(3, 0.1)]


def following(
    *events: Event | list[Event], now: Now = NOW, limits: Limits = UNLIMITED, left: TimeLeft | None = None
) -> list[Event]:
    """Return what starts after these events."""
    history = folded(*events)
    n, decider = history.n_events, Decider(history)
    made = decider.next_events(now, limits) if left is None else decider.events_in_time(now, None, left)
    assert history.n_events == n, "deciding changes nothing"
    return made


def trial_of(events: list[Event]) -> Trial:
    (start,) = events
    assert isinstance(start, TrialStarted)
    assert (start.time, start.elapsed, start.session) == (NOW.time, NOW.elapsed, NOW.session)
    return start.trial


def time_left(seconds: float, **keywords: Any) -> TimeLeft:
    """One second per unit of budget, exactly, with one worker."""
    known = [Sample(-1 - i, b, p, b - (p or 0.0)) for i in range(10) for p, b in ((None, 1.0), (1.0, 3.0))]
    return TimeLeft(seconds, 1, fit_durations(known), **keywords)


def test_the_first_configuration_is_random_because_there_is_no_model() -> None:
    trial = trial_of(following())
    assert (trial.number, trial.config_id, trial.bracket, trial.rung, trial.budget) == (0, 0, 0, 0, 1)
    assert (trial.origin, trial.attempt, trial.previous_budget) == (Origin.RANDOM, 1, None)
    assert trial.reason["why"]


def test_a_random_configuration_depends_on_the_seed_and_the_number_of_its_trial_alone() -> None:
    restarted: list[Event] = [started(0), started(1), lost(1), started(1, attempt=2), finished(0, 0.9), finished(1)]
    one, other = trial_of(following(rung(0.3, 0.5))), trial_of(following(restarted))
    assert one.number == other.number == 2
    assert (one.config, one.seed) == (other.config, other.seed)
    assert trial_of(following(started(0))).config != one.config
    assert trial_of(following(created(1, 3, seed=1), *rung(0.3, 0.5))).config != one.config


def test_a_promoted_configuration_keeps_its_seed_and_states_the_loss_it_was_promoted_for() -> None:
    trial = trial_of(following(FULL))
    before = started(1).trial
    assert (trial.config, trial.seed, trial.config_id) == (before.config, before.seed, 1)
    assert (trial.number, trial.from_trial, trial.previous_budget, trial.budget) == (3, 1, 1, 3)
    assert (trial.origin, trial.reason) == (Origin.PROMOTED, {"loss": 0.1})


def test_a_trial_of_a_lost_worker_starts_as_it_was_with_the_next_attempt() -> None:
    trial = trial_of(following(started(0), started(1), lost(0), started(0, attempt=2), lost(0, 2)))
    assert (trial.number, trial.attempt) == (0, 3)
    assert (trial.config, trial.seed) == (started(0).trial.config, 0)


def test_the_users_configurations_take_places_in_the_order_in_which_they_were_given() -> None:
    wanted: list[Event] = [ConfigGiven(0, {"x": 0.75}), ConfigGiven(1, {"x": 0.25})]
    first = following(*wanted)
    assert (trial_of(first).config, trial_of(first).origin) == ({"x": 0.75}, Origin.GIVEN)
    assert trial_of(following(*wanted, *first)).config == {"x": 0.25}


def test_a_configuration_with_a_budget_starts_in_a_bracket_of_its_own() -> None:
    wanted: list[Event] = [*FULL, ConfigGiven(0, {"x": 0.75}), ConfigGiven(1, {"x": 0.25}, 3)]
    planned = following(*wanted)
    assert planned == [BracketPlanned(1, ((3, 1),), "given")]
    trial = trial_of(following(*wanted, *planned))
    assert (trial.config, trial.budget, trial.bracket, trial.origin) == ({"x": 0.25}, 3, 1, Origin.GIVEN)


def test_in_a_finite_space_a_promotion_takes_over_the_result_that_is_known() -> None:
    before: list[Event] = [
        created(1, 3, finite=30),
        *(started(n, config={"x": n + 1}) for n in range(3)),
        started(3, 1, 3, config={"x": 1}),
        *(finished(n, float(n)) for n in range(3)),
        finished(3, 0.5),
    ]
    start, end = following(*before)
    assert isinstance(start, TrialStarted)
    assert (start.trial.number, start.trial.from_trial, start.trial.reuses) == (4, 0, 3)
    assert isinstance(end, TrialFinished)
    assert (end.number, end.outcome.loss) == (4, 0.5)


def test_a_rung_of_a_finite_space_is_cut_when_nothing_new_is_left_and_the_study_ends_after_an_empty_round() -> None:
    events: list[Event] = [created(1, 3, finite=2), *rung(0.3, 0.1)]
    for number in range(2):
        events[1 + number] = started(number, config={"x": number + 1})
    assert following(*events) == [RungCut(0, 0)]
    ended = [*events, RungCut(0, 0), promoted(2, started(1, config={"x": 2})), finished(2, 0.1)]
    start = following(*ended)
    assert (trial_of(start).config, trial_of(start).budget) == ({"x": 1}, 3)
    ended += [*start, finished(3, 0.2)]
    cuts = []
    while made := following(*ended):
        cuts += made
        ended += made
    assert cuts == [RungCut(1, 0), RungCut(2, 0), RungCut(3, 0)]


def test_a_limit_of_brackets_ends_a_study() -> None:
    assert following(rung(math.inf, math.inf, math.inf), limits=Limits(max_brackets=1)) == []
    assert following(started(0), started(1), started(2), limits=Limits(max_brackets=1)) == []


def test_an_informed_study_with_several_workers_repeats_a_bracket_of_which_none_has_finished() -> None:
    running: list[Event] = [created(settings=PRESETS["best"]), started(0), started(1), started(2)]
    usual = ((1.0, 3), (3.0, 1))
    (planned,) = following(*running)
    assert planned == BracketPlanned(1, usual, "repeat")
    again: list[Event] = [*running, planned, started(3, 1), started(4, 1), started(5, 1)]
    assert following(*again) == [BracketPlanned(2, usual, "repeat")]
    done: list[Event] = [*again, *(finished(n, 0.1 * n) for n in range(3)), promoted(6, started(0)), finished(6, 0.0)]
    trial = trial_of(following(*done))
    assert (trial.bracket, trial.budget) == (2, 3)


def test_a_bracket_that_leaves_out_rungs_has_the_largest_budget_alone_and_no_random_configuration() -> None:
    events = events_of("best-misled")
    at = next(i for i, e in enumerate(events) if isinstance(e, BracketPlanned) and e.rule == "skip")
    history = History().extend(events[:at])
    decider = Decider(history)
    (planned,) = decider.next_events(NOW)
    assert isinstance(planned, BracketPlanned)
    assert [budget for budget, _ in planned.rungs] == [9]
    assert planned.reason["gains"][-1] == max(planned.reason["gains"])
    history.apply(planned)
    for _ in range(3):
        (start,) = decider.next_events(NOW)
        assert isinstance(start, TrialStarted)
        assert (start.trial.budget, start.trial.origin) == (9, Origin.MODEL)
        history.apply(start)


def test_before_a_deadline_nothing_starts_that_would_not_end_in_time() -> None:
    assert following(left=time_left(0.0)) == []
    assert following(FULL, left=time_left(1.0)) == []
    assert trial_of(following(FULL, left=time_left(100.0))).from_trial == 1
    assert following(FULL, ConfigGiven(0, {"x": 0.5}, 3), left=time_left(1.0)) == []


def test_before_a_deadline_a_new_bracket_is_as_large_as_the_time_allows() -> None:
    assert trial_of(following(left=time_left(100.0))).bracket == 0
    (planned,) = following(FIRST, *rung(0.5, 0.6, first=4, bracket=1, budget=3), left=time_left(4.6))
    assert isinstance(planned, BracketPlanned)
    assert planned.rungs == ((1, 2), (3, 1))
    assert (planned.rule, planned.seconds_left) == ("deadline", 4.6)
    assert trial_of(following(FIRST, *rung(0.5, 0.6, first=4, bracket=1, budget=3), planned)).budget == 1


def test_before_a_deadline_an_open_bracket_is_shortened_so_that_it_reaches_the_largest_budget() -> None:
    (shortened,) = following(rung(0.5), left=time_left(2.3))
    assert shortened == BracketShortened(0, 0, ((1, 1), (3, 1)), 2.3)
    assert trial_of(following(rung(0.5), shortened, left=time_left(2.3))).from_trial == 0


def test_a_runner_that_is_not_alone_leaves_brackets_as_they_are() -> None:
    assert not any(
        isinstance(event, BracketShortened | BracketPlanned)
        for event in following(rung(0.5), left=time_left(2.3, alone=False))
    )


def test_once_a_limit_is_reached_the_cheapest_lost_trial_starts_and_nothing_else() -> None:
    large = started(3, 1, 3)
    events: list[Event] = [started(0), started(1), started(2), large, lost(3), lost(2), lost(1)]
    assert trial_of(following(events, limits=Limits(max_trials=4))).number == 1
    assert trial_of(following(events[:4], limits=Limits(max_trials=5))).number == 4
    assert following(FULL, limits=Limits(max_trials=3)) == []
    only_large: list[Event] = [*events[:4], lost(3)]
    assert restart(folded(*only_large), time_left(10.0)) == Restart(large.trial)
    assert restart(folded(*only_large), time_left(1.0)) == Wait()


@pytest.mark.parametrize(("limits", "goes_on"), [
    (Limits(max_seconds=11), True), (Limits(max_seconds=10), False), (Limits(until=1001), True),
    (Limits(until=1000), False), (Limits(max_cost=1.1), True), (Limits(max_cost=1), False),
])  # fmt: skip
def test_limits_are_compared_with_the_time_and_the_history_of_the_decision(limits: Limits, goes_on: bool) -> None:
    assert bool(following(FULL, limits=limits)) == goes_on


def test_without_a_session_the_time_since_the_study_was_created_counts() -> None:
    begun = replace(created(), time=900.0)
    for seconds, goes_on in ((101, True), (100, False)):
        assert bool(following(begun, now=Now(1000.0), limits=Limits(max_seconds=seconds))) == goes_on


def test_a_deadline_changes_brackets_only_if_the_number_of_workers_is_known() -> None:
    seconds = [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    events = [
        replace(event, outcome=replace(event.outcome, started=0.0, finished=seconds[event.number]))
        if isinstance(event, TrialFinished)
        else event
        for event in [*FIRST, *rung(0.5, 0.6, first=4, bracket=1, budget=3)]
    ]
    for workers, alone, rule in ((None, True, None), (1, False, None), (1, True, "deadline")):
        found = following(events, now=Now(0.0, 10.0, 2, workers, alone), limits=Limits(max_seconds=14.6))
        assert getattr(found[0], "rule", None) == rule


def test_a_study_with_a_sampler_of_the_user_cannot_go_on_without_it() -> None:
    with pytest.raises(InvalidArgument, match="the sampler of this study is 'cautious'"):
        following(created(settings=Settings(sampler="cautious", random_fraction=0)))


def test_hyperband_random_search_and_tpe_are_settings() -> None:
    hyperband = run(new(1, random_fraction=1), 80)
    assert {t.origin for t in hyperband.history.trials.values()} == {Origin.RANDOM, Origin.PROMOTED}
    random_search = run(BOHB(SPACE, min_budget=9, max_budget=9, seed=1, random_fraction=1), 30)
    assert {t.budget for t in random_search.history.trials.values()} == {9.0}
    assert {t.origin for t in random_search.history.trials.values()} == {Origin.RANDOM}
    tpe = run(BOHB(SPACE, budgets=[9], seed=1), 40)
    assert {t.origin for t in tpe.history.trials.values()} == {Origin.RANDOM, Origin.MODEL}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 30))
def test_only_finished_trials_are_promoted_and_failed_ones_never(seed: int, workers: int) -> None:
    study = run(new(seed), 60, workers=workers)
    for trial in study.history.trials.values():
        if trial.origin is Origin.PROMOTED:
            assert trial.from_trial is not None
            assert study.history.outcomes[trial.from_trial].ok
            assert trial.previous_budget is not None
            assert trial.previous_budget < trial.budget
            first = study.history.trials[trial.config_id]
            assert (first.config, first.seed) == (trial.config, trial.seed)
