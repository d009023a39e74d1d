"""Warm starts into a space that has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import pytest
from click.testing import CliRunner

import bohb
from bohb import BOHB
from bohb.cli.app import app
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.journal.location import study_of

OLD = {"lr": (1e-4, 1.0, "log"), "units": (8, 64), "act": ["relu", "tanh"]}


def earlier(n: int = 20, space: Any = OLD) -> History:
    optimizer = BOHB(space, budgets=[1, 3], seed=1)
    for _ in range(n):
        trial = optimizer.ask()
        optimizer.tell(trial, trial.config["lr"])
    return optimizer.history


def started(space: Any, history: History | None = None, **options: Any) -> BOHB:
    return BOHB(space, budgets=[1, 3], seed=2, warm_start=history or earlier(), **options)


def test_the_same_space_takes_all_results_as_they_are_and_says_nothing() -> None:
    history = earlier()
    later = started(OLD, history)
    assert [old.config for old in later.history.observed] == [t.config for t in history.trials.values()]
    assert later.history.notes == []


def test_a_new_hyperparameter_without_a_declared_default_is_drawn_for_each_result() -> None:
    later = started({**OLD, "dropout": (0.0, 0.5)}).history
    drawn = {old.config["dropout"] for old in later.observed}
    assert len(drawn) == 20
    assert later.notes[0].text == (
        "warm start: 20 of 20 earlier results used; 'dropout' is new and was drawn at random for each result"
    )
    again = started({**OLD, "dropout": (0.0, 0.5)}).history
    assert [old.config for old in again.observed] == [old.config for old in later.observed]


def test_a_new_hyperparameter_with_a_declared_default_takes_it() -> None:
    space = CS.ConfigurationSpace({"units": (8, 64), "act": ["relu", "tanh"]})
    space.add(CS.Float("lr", (1e-4, 1.0), log=True), CS.Float("dropout", (0.0, 0.5), default=0.1))
    later = started(space).history
    assert {old.config["dropout"] for old in later.observed} == {0.1}
    assert "'dropout' is new and was set to its default 0.1" in later.notes[0].text


def test_a_hyperparameter_that_is_gone_is_left_out_and_the_study_uses_the_rest() -> None:
    space = {"lr": OLD["lr"], "units": OLD["units"]}
    later = started(space, random_fraction=0)
    assert all(old.config.keys() == space.keys() for old in later.history.observed)
    assert "'act' is not in this space and was left out" in later.history.notes[0].text
    assert later.ask().origin == "model"
    assert bohb.replay(later.events).ok


def test_results_outside_of_narrower_ranges_are_left_out_and_counted() -> None:
    history = earlier(40)
    inside = [t for t in history.trials.values() if t.config["lr"] <= 0.1 and t.config["act"] == "relu"]
    later = started({"lr": (1e-4, 0.1, "log"), "units": (8, 64), "act": ["relu", "gelu"]}, history).history
    assert [old.config for old in later.observed] == [t.config for t in inside]
    assert f"{len(inside)} of 40 earlier results used; {40 - len(inside)} results with a value" in later.notes[0].text
    assert "'act' " in later.notes[0].text
    assert "'lr' " in later.notes[0].text


def test_conditions_decide_what_a_new_hyperparameter_needs() -> None:
    space = CS.ConfigurationSpace({"lr": CS.Float("lr", (1e-4, 1.0), log=True), "act": ["relu", "tanh"]})
    slope = CS.Float("slope", (0.0, 1.0))
    space.add(slope)
    space.add(CS.EqualsCondition(slope, space["act"], "relu"))
    for old in started(space).history.observed:
        assert ("slope" in old.config) == (old.config["act"] == "relu")
        assert "units" not in old.config


def test_a_study_that_has_nothing_usable_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidArgument, match=r"does not fit this space: 0 of 20.*'lr' 20"):
        started({"lr": (10.0, 20.0)})


def test_a_hyperparameter_that_is_fixed_now_keeps_the_results_with_its_value() -> None:
    history = earlier(30)
    later = started({"lr": OLD["lr"], "units": OLD["units"], "act": {"constant": "relu"}}, history).history
    assert len(later.observed) == sum(t.config["act"] == "relu" for t in history.trials.values())


def test_status_states_what_was_done_and_a_journal_of_several_studies_is_named_with_two_colons(tmp_path: Path) -> None:
    def objective(trial: bohb.Trial) -> float:
        return float(trial.config["x"])

    options: dict[str, Any] = {"budgets": [1, 3], "seed": 0, "max_trials": 6, "progress": False}
    for name in ("a", "b"):
        bohb.minimize(objective, {"x": (0.0, 1.0)}, journal=tmp_path / "old.db", study=name, **options)
    wide = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    with pytest.raises(InvalidArgument, match=r"old\.db::NAME; it has a, b"):
        bohb.minimize(objective, wide, warm_start=tmp_path / "old.db", **options)
    bohb.minimize(objective, wide, journal=tmp_path / "new.db", warm_start=f"{tmp_path / 'old.db'}::b", **options)
    shown = CliRunner().invoke(app, ["status", str(tmp_path / "new.db")]).output
    assert "warm start: 6 of 6 earlier results used; 'y' is new" in shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a.db", ("a.db", None)),
        ("a.db::x", ("a.db", "x")),
        ("a.db::x::y", ("a.db", "x::y")),
        ("postgresql://u@[::1]:5432/d", ("postgresql://u@[::1]:5432/d", None)),
        ("postgresql://u@[::1]/d::x", ("postgresql://u@[::1]/d", "x")),
    ],
)
def test_two_colons_name_a_study_of_a_journal(text: str, found: tuple[str, str | None]) -> None:
    assert study_of(text) == found
