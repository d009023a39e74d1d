from __future__ import annotations

from dataclasses import replace

import pytest

from bohb import BOHB
from bohb.analysis.lineage import Record, records
from bohb.analysis.overview import Overview
from bohb.analysis.trajectory import Moment, evaluations, run_clock, timeline, trajectory
from bohb.core.trial import Origin, Status
from tests.analysis.studies import KINDS, XY, Watch, play, played, smooth, tiny


def test_every_finished_trial_has_one_row_with_its_time_at_work() -> None:
    rows = evaluations(tiny().history)
    assert [(row.trial.number, row.trial.budget, row.outcome.loss, row.at.seconds) for row in rows] == [
        (0, 1, 0.5, 1),
        (1, 1, 0.2, 11),
        (2, 1, None, 21),
        (3, 3, 0.1, 33),
        (4, 3, 0.3, 43),
        (5, 3, 0.05, 53),
    ]
    assert rows[2].outcome.status is Status.CRASHED
    assert rows[3].trial.origin is Origin.PROMOTED
    assert rows[3].picked is rows[1].picked is Origin.RANDOM


def test_the_incumbent_over_time_spent_budget_and_trials() -> None:
    table = trajectory(tiny().history)
    assert [(step.number, step.loss, step.budget) for step in table.incumbents] == [
        (0, 0.5, 1),
        (1, 0.2, 1),
        (3, 0.1, 3),
        (5, 0.05, 3),
    ]
    # Full evaluations of 3: three of budget 1, then 3 (afresh) or 2 (continued from budget 1), then 3 and 3.
    assert [step.at for step in table.incumbents] == [
        Moment(1, 1.0, 1 / 3, 1 / 3),
        Moment(2, 11.0, 2 / 3, 2 / 3),
        Moment(4, 33.0, 6 / 3, 5 / 3),
        Moment(6, 53.0, 12 / 3, 11 / 3),
    ]
    assert {budget: [step.loss for step in steps] for budget, steps in table.per_budget.items()} == {
        1: [0.5, 0.2],
        3: [0.1, 0.05],
    }
    assert table.end == table.incumbents[-1].at


@pytest.mark.parametrize("kind", KINDS)
def test_the_trajectory_ends_with_the_incumbent_and_never_turns_back(kind: str) -> None:
    history = played(kind)
    table = trajectory(history)
    assert [step.number for step in table.incumbents] == [result.trial.number for result in history.trajectory]
    assert {budget: steps[-1].loss for budget, steps in table.per_budget.items()} == {
        budget: result.loss for budget, result in history.best.items()
    }
    for steps in (table.incumbents, *table.per_budget.values()):
        spent = [(step.at.trials, step.at.fresh, step.at.continued, step.at.seconds or 0) for step in steps]
        assert spent == sorted(spent)
    if not history.pending:
        assert table.end.continued == pytest.approx(history.budget_spent / history.budgets[-1])


def test_a_study_in_numbers() -> None:
    seen = Overview(tiny().history)
    assert seen.counts == {"started": 6, "finished": 6, "failed": 1, "running": 0, "waiting": 0, "late": 0}
    assert (seen.configurations, seen.finished_brackets, seen.open_brackets) == (5, 2, [])
    assert [(kind.status, kind.n) for kind in seen.failures] == [(Status.CRASHED, 1)]
    assert seen.origins == {Origin.RANDOM: 5, Origin.PROMOTED: 1}
    assert seen.history.cost_reported == 2.5
    assert seen.cost == pytest.approx(11 / 3)
    assert (seen.seconds, seen.busy, seen.rate) == (53, 12, 6 / 53)
    assert seen.best is not None
    assert seen.best.trial.number == 5
    low, high = seen.budgets
    assert (low.budget, low.finished, low.failed, low.best, low.seconds) == (1, 3, 1, seen.history.best[1], 1)
    assert (high.budget, high.finished, high.failed, high.best, high.seconds) == (3, 3, 0, seen.best, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_counts_add_up(kind: str) -> None:
    history = played(kind)
    seen = Overview(history)
    n = seen.counts
    assert sum(row.finished for row in seen.budgets) == n["finished"]
    assert sum(seen.origins.values()) == n["started"] == len(history.trials)
    assert n["finished"] + n["running"] + n["waiting"] == n["started"]
    assert n["failed"] == sum(row.failed for row in seen.budgets) == sum(kind.n for kind in seen.failures)


def test_trials_without_times_have_none() -> None:
    history = played("untimed")
    assert {row.at.seconds for row in evaluations(history)} == {None}
    assert Overview(history).seconds is None
    assert trajectory(history).incumbents[-1].at.seconds is None
    assert timeline(history) == []


def test_a_pause_between_two_sessions_is_not_run_time() -> None:
    watch = Watch()
    optimizer = BOHB(XY, budgets=[1, 3], seed=0, clock=watch)
    optimizer.session.begin("first")  # at 1000
    play(optimizer, 2, smooth, watch)  # until 1011
    watch.now = 5000
    optimizer.session.begin("second")
    play(optimizer, 1, smooth, watch)  # until 5001
    clock = run_clock(optimizer.history)
    assert (clock.origin, clock.pauses) == (1000, ((1011, 5000),))
    assert [row.at.seconds for row in evaluations(optimizer.history)] == [1, 11, 12]
    assert clock.seconds(3000) == 11


def test_sessions_of_several_runners_at_once_make_no_pause() -> None:
    watch = Watch()
    optimizer = BOHB(XY, budgets=[9, 27], seed=0, clock=watch)
    optimizer.session.begin("first")
    trial = optimizer.ask()
    play(optimizer, 1, smooth, watch)
    watch.now = 1400
    optimizer.history.sessions.append(type(optimizer.history.sessions[0])(1, "second", 1400.0))
    assert trial.number in optimizer.history.running
    assert run_clock(optimizer.history).pauses == ()


def test_the_timeline_shows_who_worked_when() -> None:
    spans = timeline(tiny().history)
    assert [(span.number, span.worker, span.start, span.end) for span in spans] == [
        (0, "host/0", 0, 1),
        (1, "host/1", 10, 11),
        (2, "host/0", 20, 21),
        (3, "host/1", 30, 33),
        (4, "host/0", 40, 43),
        (5, "host/1", 50, 53),
    ]


def test_trials_that_run_at_once_without_a_name_get_a_lane_each() -> None:
    spans = timeline(played("running"))
    assert [span.worker for span in spans if span.end is None] == [
        "running 1",
        "running 2",
    ]  # the third lost its worker
    assert all(span.status is None for span in spans if span.end is None)


def test_a_record_is_the_mean_rank_on_equal_budgets() -> None:
    """Losses 0.5, 0.2 and a failure on budget 1, then 0.3 and 0.05 on budget 3; the promoted one does not count."""
    history = tiny().history
    history.trials[1] = replace(history.trials[1], origin=Origin.MODEL, explains="process")
    assert records(history) == [Record("process", 1, 0.0), Record("prior", 4, (0.5 + 1 + 1 + 0) / 4)]
