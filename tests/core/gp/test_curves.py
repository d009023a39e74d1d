"""Learning curves as results on smaller budgets: which count, what is read from them, and that order decides."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bohb
from bohb.core.goals import goals_of
from bohb.core.gp.curves import Curves, comparable
from bohb.core.gp.targets import Results, rungs
from bohb.core.history import History
from bohb.core.trial import Origin, Outcome, Status, Trial

SPACE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
Curve = tuple[tuple[float, float], ...]


def trial_on(budget: float, previous: float | None = None) -> Trial:
    return Trial(0, {"x": 0.5}, budget, 0, 0, 0, 0, Origin.RANDOM, previous_budget=previous)


def ended(curve: Curve, loss: float | None = None) -> Outcome:
    return Outcome(Status.OK, curve[-1][1] if loss is None else loss, curve=curve)


FALLING = ((1.0, 0.9), (2.0, 0.8), (3.0, 0.7), (4.0, 0.6))


@pytest.mark.parametrize(
    ("curve", "budget", "expected"),
    [
        pytest.param(FALLING, 4, FALLING[:3], id="epochs from 1"),
        pytest.param(FALLING, 4.3, FALLING[:3], id="a budget that the objective rounded"),
        pytest.param(((0, 1.0), *FALLING), 4, FALLING[:3], id="a point before training"),
        pytest.param(tuple((s - 1, y) for s, y in FALLING), 4, FALLING[:3], id="epochs from 0"),
        pytest.param(((0.25, 0.9), (0.5, 0.8), (1.0, 0.7)), 1.0, ((0.25, 0.9), (0.5, 0.8)), id="fractions"),
        pytest.param(((1, 0.9), (2, math.nan), (3, 0.7)), 3, ((1, 0.9),), id="a loss that is not a number"),
        pytest.param(FALLING, 9, (), id="steps that are not in the unit of the budget"),
        pytest.param(((100, 0.9), (200, 0.8), (300, 0.7)), 3, (), id="minibatches"),
        pytest.param(FALLING[-1:], 4, (), id="the end alone"),
        pytest.param((), 4, (), id="nothing"),
    ],
)
def test_a_curve_counts_if_its_steps_are_in_the_budgets_unit(curve: Curve, budget: float, expected: Curve) -> None:
    outcome = ended(curve) if curve else Outcome(Status.OK, 0.5)
    assert comparable(trial_on(budget), outcome).tolist() == [list(point) for point in expected]


def test_a_curve_of_another_quantity_than_the_returned_loss_is_ignored() -> None:
    assert len(comparable(trial_on(4), ended(FALLING, loss=0.6 * (1 + 1e-8)))) == 3  # rounded to single precision
    assert not len(comparable(trial_on(4), ended(FALLING, loss=0.61)))
    assert not len(comparable(trial_on(4), Outcome(Status.DIVERGED, error="nan", curve=FALLING)))


def test_a_curve_of_scores_is_turned_into_losses() -> None:
    scores = tuple((step, -loss) for step, loss in FALLING)
    goals = goals_of(direction="maximize")
    assert comparable(trial_on(4), ended(scores, loss=0.6), goals).tolist() == [list(point) for point in FALLING[:3]]
    assert not len(comparable(trial_on(4), ended(FALLING, loss=0.6), goals))  # losses beside a returned score


def test_one_curve_is_not_enough_for_several_objectives_or_constraints() -> None:
    for goals in (goals_of(["error", "latency"]), goals_of(["error"], {"latency": "<= 1"})):
        assert not len(comparable(trial_on(4), ended(FALLING), goals))


def test_a_promoted_trial_has_results_on_the_smaller_budgets_and_its_curve_is_ignored() -> None:
    assert not len(comparable(trial_on(4, previous=1), ended(FALLING)))


def test_a_rung_takes_the_nearest_step_and_the_latest_of_equal_ones() -> None:
    curves = Curves()
    steps = [(2.0, 0.8), (5.5, 0.5), (6.0, 0.4), (6.0, 0.3), (17.0, 0.2), (52.0, 0.1)]
    curves.add(0, 7, trial_on(52.0), ended(tuple(steps)))
    assert curves.on_rungs(1, (52 / 27, 52 / 9, 52 / 3, 52.0)).tolist() == [[7, 1, 0.2], [7, 2, 0.3], [7, 3, 0.8]]
    assert curves.on_rungs(1, (4.0, 52.0)).tolist() == []  # no step is near: nothing is guessed
    assert curves.on_rungs(0, (2.0, 52.0)).tolist() == []  # the trial has not ended


def loss_of(config: dict[str, Any], budget: float) -> float:
    return float((config["x"] - 0.3) ** 2 + (config["y"] - 0.8) ** 2 + 0.5 / budget)


def study(trials: int, reported: bool = True, **settings: Any) -> bohb.BOHB:
    made = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=0, **{"settings": bohb.BEST, **settings})
    for _ in range(trials):
        trial = made.ask()
        curve = tuple((float(step), loss_of(trial.config, step)) for step in range(1, round(trial.budget) + 1))
        made.tell(trial, Outcome(Status.OK, curve[-1][1], curve=curve if reported else ()))
    return made


def table(history: History, n: int | None = None) -> tuple[list[int], list[list[float]]]:
    results = Results(2)
    results.catch_up(history)
    rows, losses = results.table(len(results) if n is None else n, rungs(history))
    return rows.tolist(), np.nan_to_num(losses, nan=-1).tolist()


def test_a_configuration_has_losses_on_all_rungs_below_the_one_it_reached() -> None:
    made = study(40, learning_curves=True)
    reached = {trial.config_id: trial for trial in made.history.trials.values()}
    rows, losses = table(made.history)
    assert rows == list(range(len(reached)))
    for trial, found in zip(reached.values(), losses, strict=True):
        on = [b for b in (9.0, 3.0, 1.0) if b <= trial.budget]
        assert found == pytest.approx([-1.0] * (3 - len(on)) + [loss_of(trial.config, b) for b in on])


def test_a_result_on_a_budget_counts_more_than_a_point_of_a_curve() -> None:
    made = bohb.BOHB(SPACE, budgets=[1, 3, 9], seed=0, settings=bohb.BEST, learning_curves=True)
    for _ in range(30):
        trial = made.ask()
        curve = (*((float(step), 100.0) for step in range(1, round(trial.budget))), (trial.budget, trial.budget))
        made.tell(trial, Outcome(Status.OK, trial.budget, curve=curve))
    evaluated = {(trial.config_id, trial.budget) for trial in made.history.trials.values()}
    ids = list(dict.fromkeys(trial.config_id for trial in made.history.trials.values()))
    for row, losses in zip(*table(made.history), strict=True):
        for budget, loss in zip((9.0, 3.0, 1.0), losses, strict=True):
            assert loss in ((budget,) if (ids[row], budget) in evaluated else (100.0, -1.0))


def test_the_order_of_results_decides_what_is_read_and_not_when_it_is_read() -> None:
    made = study(40, learning_curves=True)
    at_once, one_by_one, history = Results(2), Results(2), History()
    for event in made.events:
        history.apply(event)
        one_by_one.catch_up(history)
        one_by_one.table(len(one_by_one), rungs(history))
    at_once.catch_up(history)
    for n in (5, 20, 40):
        for first, second in zip(*(r.table(n, rungs(history)) for r in (at_once, one_by_one)), strict=True):
            assert np.array_equal(first, second, equal_nan=True)


def test_curves_change_proposals_only_if_the_setting_is_on() -> None:
    def configs(**settings: Any) -> list[dict[str, Any]]:
        return [trial.config for trial in study(40, **settings).history.trials.values()]

    assert configs(learning_curves=True) != configs(learning_curves=False)
    assert configs(learning_curves=False) == configs(learning_curves=True, reported=False)
    assert not bohb.PAPER.learning_curves


def test_a_study_with_curves_is_stored_replayed_and_continued(tmp_path: Any) -> None:
    def objective(trial: Trial) -> float:
        for step in range(round(trial.budget)):  # epochs from 0
            loss = loss_of(trial.config, step + 1)
            trial.report(step, loss)
        return loss

    def run(path: str, max_trials: int) -> bohb.Study:
        return bohb.minimize(
            objective, SPACE, min_budget=1, max_budget=9, seed=0, settings=bohb.BEST, learning_curves=True,
            journal=str(tmp_path / path), max_trials=max_trials,
        )  # fmt: skip

    run("parts.db", 25)
    parts, whole = run("parts.db", 40), run("whole.db", 40)
    assert bohb.replay(str(tmp_path / "parts.db")).ok
    assert [t.config for t in parts.history.trials.values()] == [t.config for t in whole.history.trials.values()]
