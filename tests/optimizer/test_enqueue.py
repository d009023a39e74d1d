"""Configurations that the user adds to a study, on a budget of their choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import bohb
from bohb import BOHB, replay
from bohb.analysis.why import why
from bohb.cli.app import app
from bohb.core.trial import Origin, Trial
from bohb.errors import InvalidArgument
from bohb.journal import MemoryJournal
from tests.objectives import SPACE, quadratic

GIVEN = {"x": 0.5, "y": 0.25}
OPTIONS: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "seed": 0}


def told(optimizer: BOHB, n: int) -> list[Trial]:
    trials = []
    for _ in range(n):
        trials.append(optimizer.ask())
        optimizer.tell(trials[-1], quadratic(trials[-1]))
    return trials


@pytest.mark.parametrize("changes", [{}, {"preset": "paper"}])
@pytest.mark.parametrize("before", [0, 40])
def test_a_configuration_with_a_budget_is_the_next_one_to_start_directly_there(
    changes: dict[str, Any], before: int
) -> None:
    optimizer, plain = (BOHB(SPACE, **OPTIONS, **changes) for _ in range(2))
    told(optimizer, before)
    assert optimizer.enqueue(GIVEN, budget=9)
    assert not optimizer.enqueue(GIVEN, budget=9)
    assert optimizer.enqueue(GIVEN, budget=3)
    first, second, *others = told(optimizer, 12)
    assert [(t.config, t.budget, t.origin, t.rung) for t in (first, second)] == [
        (GIVEN, 9, Origin.GIVEN, 0),
        (GIVEN, 3, Origin.GIVEN, 0),
    ]
    assert not {t.bracket for t in others} & {first.bracket, second.bracket}
    assert not optimizer.enqueue(GIVEN, budget=9)
    assert "wanted it on budget 9" in str(why(optimizer.history, first.number))
    assert replay(optimizer.events).ok
    if not changes:  # the order of Hyperband's brackets is the same
        rungs = [[r.size for r in h.bracket.rungs] for h in optimizer.history.brackets if len(h.bracket.rungs) > 1]
        told(plain, before + 10)
        assert rungs == [[r.size for r in h.bracket.rungs] for h in plain.history.brackets if len(h.bracket.rungs) > 1]


def test_brackets_of_their_own_do_not_count_as_brackets_of_the_study() -> None:
    def count(configs: list[dict[str, float]]) -> int:
        def add(study: bohb.RunningStudy) -> None:
            if study.latest[0].number == 3:
                for config in configs:
                    study.enqueue(config, budget=9)

        study = bohb.minimize(quadratic, SPACE, **OPTIONS, max_brackets=2, callbacks=[add], progress=False)
        assert study.stopped == "all 2 brackets are complete"
        return len(study.trials)

    assert count([GIVEN, {"x": 0.1, "y": 0.1}]) == count([]) + 2


def test_a_failed_one_on_a_budget_of_its_own_ends_its_bracket() -> None:
    optimizer = BOHB(SPACE, **OPTIONS)
    optimizer.enqueue(GIVEN, budget=9)
    optimizer.tell(optimizer.ask(), ValueError("diverged"))
    assert optimizer.ask().budget == 1
    assert replay(optimizer.events).ok


@pytest.mark.parametrize("budget", [2, 10, True, "9", float("nan"), float("inf"), 10**400, -(10**400)])
def test_a_budget_that_the_study_does_not_have_is_refused(budget: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"must be one of the study's: 1, 3, 9"):
        BOHB(SPACE, **OPTIONS).enqueue(GIVEN, budget=budget)


def test_initial_configs_of_a_continued_study_add_only_what_is_new() -> None:
    journal = MemoryJournal()
    told(BOHB(SPACE, **OPTIONS, initial_configs=[GIVEN], journal=journal), 2)
    again = BOHB(SPACE, **OPTIONS, initial_configs=[GIVEN, {"x": 0.75, "y": 0.75}], journal=journal)
    assert list(again.history.given.anywhere) == [{"x": 0.75, "y": 0.75}]
    assert told(again, 1)[0].config == {"x": 0.75, "y": 0.75}


def test_a_study_that_ended_is_given_configurations_and_continues_with_them(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    study = bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=4, journal=path, progress=False)
    assert study.enqueue(GIVEN, budget=3)
    added = CliRunner().invoke(app, ["enqueue", '{"x": 0.75, "y": 0.75}', str(path), "--budget", "9"])
    assert added.output == "added; 2 configurations to be started\n"
    refused = CliRunner().invoke(app, ["enqueue", '{"x": 0.75, "y": 0.75}', str(path), "--budget", "2"])
    assert refused.exit_code == 1
    study = bohb.minimize(quadratic, SPACE, **OPTIONS, max_trials=6, journal=path, progress=False)
    assert [trial.budget for trial, _ in study.trials][4:] == [3, 9]
    assert replay(path).ok
