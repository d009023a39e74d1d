"""Studies with several objectives and constraints: parallel, replayed, resumed."""

from __future__ import annotations

from typing import Any

import pytest

import bohb
from bohb.analysis.why import why
from bohb.executors.evaluate import SimulatedExecutor
from bohb.journal import MemoryJournal

SPACE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": ["a", "b"]}
GOALS: dict[str, Any] = {"objectives": ["error", "-speed"], "constraints": {"memory": "<= 1.8"}}


def objective(trial: bohb.Trial) -> dict[str, Any]:
    x, y = trial.config["x"], trial.config["y"]
    if trial.number % 17 == 3:
        raise ValueError("a crash now and then")
    losses = {"error": x**2 + y + 0.1 / trial.budget, "speed": 2 + x - y if trial.number % 13 else float("nan")}
    return {"losses": losses, "memory": 1 + 2 * y + x / 2}


def simulated(journal: MemoryJournal, trials: int, **settings: Any) -> bohb.Study:
    optimizer = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=5, journal=journal, **GOALS, **settings)
    executor = SimulatedExecutor(objective, 4, straggling=0.3, loss_rate=0.01)
    return bohb.run(optimizer, executor, bohb.Limits(max_trials=trials))


@pytest.mark.parametrize(
    "settings",
    [{}, {"preset": "paper"}, {"preset": "hpbandster"}],
    ids=["best", "paper", "hpbandster"],
)
def test_a_study_on_four_workers_is_replayed_exactly(settings: dict[str, Any]) -> None:
    journal = MemoryJournal()
    study = simulated(journal, 40, **settings)
    replayed = bohb.replay(journal)
    assert replayed.ok, replayed.differences[:3]
    assert replayed.decisions >= 40
    again = bohb.History().extend(journal.read(0))
    assert [r.trial.number for r in again.front] == [r.trial.number for r in study.front]
    assert again.snapshot().front == again.front


def test_an_interrupted_study_goes_on_as_if_it_had_not_been() -> None:
    whole, parts = MemoryJournal(), MemoryJournal()
    made = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=5, journal=whole, preset="best", **GOALS)
    for _ in range(30):
        trial = made.ask()
        made.tell(trial, _told(trial))
    for _ in range(3):
        again = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=5, journal=parts, preset="best", **GOALS)
        for _ in range(10):
            trial = again.ask()
            again.tell(trial, _told(trial))
    trials = list(made.history.trials.values())
    assert [t.config for t in again.history.trials.values()] == [t.config for t in trials]
    assert any(t.origin is bohb.Origin.RANDOM and "chance" in t.reason for t in trials)  # drawn by what is feasible


def _told(trial: bohb.Trial) -> object:
    try:
        return objective(trial)
    except ValueError as error:
        return error


def test_each_rung_promotes_feasible_results_first_and_then_the_better_fronts() -> None:
    study = simulated(MemoryJournal(), 80)
    history = study.history
    for index, bracket in enumerate(history.brackets):
        for rung, survivors in enumerate(bracket.survivors):
            members = [n for n, t in history.trials.items() if (t.bracket, t.rung) == (index, rung)]
            ok = [n for n in members if history.outcomes[n].ok]
            level = history.order.levels(ok)
            assert survivors == history.order.best_first(members)[: len(survivors)]
            left = [level[n] for n in ok if n not in survivors]
            assert not survivors or not left or max(level[n] for n in survivors) <= min(left)


def test_a_promotion_is_explained_by_its_front() -> None:
    history = simulated(MemoryJournal(), 80).history
    promoted = [n for n, t in history.trials.items() if t.from_trial is not None]
    reasons = [history.trials[n].reason for n in promoted]
    assert all(reason["rank"] <= reason["of"] for reason in reasons)
    first = next(n for n in promoted if history.trials[n].reason.get("front") == 1)
    text = str(why(history, first))
    assert "it keeps the constraints and is on the first front of its rung (rank " in text
    assert "error " in text
    assert "speed " in text


def test_a_single_named_objective_decides_as_an_unnamed_loss_does() -> None:
    def ran(**goals: Any) -> bohb.BOHB:
        made = bohb.BOHB(SPACE, min_budget=1, max_budget=9, seed=2, preset="best", **goals)
        for _ in range(40):
            trial = made.ask()
            loss = trial.config["x"] + trial.config["y"] + 0.1 / trial.budget
            made.tell(trial, -loss if goals.get("direction") == "maximize" else loss)
        return made

    plain = [t.config for t in ran().history.trials.values()]
    assert [t.config for t in ran(objectives=["error"]).history.trials.values()] == plain
    assert [t.config for t in ran(direction="maximize").history.trials.values()] == plain
