"""`bohb compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import bohb
from bohb.analysis.questions import comparison
from bohb.cli.app import app
from tests.objectives import SPACE, quadratic

WIDE = {f"a_rather_long_name_of_a_hyperparameter_{i}": (0.0, 1.0) for i in range(12)}


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two journals: one with two studies, one with a study of another space, in which every fourth trial fails."""
    directory = tmp_path_factory.mktemp("compare")
    options: dict[str, Any] = {"min_budget": 1, "max_budget": 9, "progress": False, "max_brackets": 1}

    def often_fails(trial: bohb.Trial) -> float:
        if trial.number % 4 == 1:
            raise ValueError("unlucky")
        return float(0.0123456789 * sum(trial.config.values()) / trial.budget)

    for seed, name in enumerate(
        ["one", "a study with a name that is longer than a table at 80 columns is wide, at least"]
    ):
        bohb.minimize(quadratic, SPACE, seed=seed, journal=directory / "a.db", study=name, **options)
    bohb.minimize(often_fails, WIDE, seed=1, journal=directory / "b.db", **options)
    return directory


def test_studies_of_several_journals_are_compared_at_80_columns(directory: Path) -> None:
    result = call("compare", directory / "a.db", f"{directory / 'b.db'}::study", directory / "b.db", directory / "a.db")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert "Best loss on budget 9 after so many full evaluations:" in result.output
    assert "#6" in result.output


def test_what_is_compared_has_the_name_that_the_studies_give_it(tmp_path: Path) -> None:
    for name, objectives in (("a", ["-acc"]), ("b", ["-acc"]), ("c", ["error"])):
        values = {"acc": 0.5, "error": 0.5}
        options: dict[str, Any] = {"budgets": [1], "objectives": objectives, "progress": False, "max_trials": 2}
        bohb.minimize(lambda _: values, SPACE, journal=tmp_path / "s.db", study=name, **options)  # noqa: B023
    same = call("compare", tmp_path / "s.db::a", tmp_path / "s.db::b").output
    assert "best acc" in same
    assert "Best acc on budget 1 after" in same
    assert "loss" not in same
    assert "best result" in call("compare", tmp_path / "s.db").output


def test_the_losses_at_equal_cost_are_those_that_the_studies_had_then(directory: Path) -> None:
    studies = [bohb.load(directory / "a.db", "one"), bohb.load(directory / "b.db")]
    found = comparison([study.history for study in studies])
    assert found.budget == 9
    assert found.costs[-1] == pytest.approx(min(study.cost for study in found.studies))
    for study, losses in zip(studies, found.losses, strict=True):
        assert losses[-1] == study.best_loss  # both have spent the same
        known = [loss for loss in losses if loss is not None]
        assert known == sorted(known, reverse=True)


def test_the_data_has_everything_that_is_shown(directory: Path) -> None:
    data = json.loads(call("compare", f"{directory / 'a.db'}::one", directory / "b.db", "--json").output)
    first, second = data["studies"]
    assert (first["study"], second["failed"] > 0, len(second["config"])) == ("one", True, 12)
    assert len(data["costs"]) == len(first["losses"])


def test_studies_without_a_common_budget_or_result_are_still_shown(tmp_path: Path) -> None:
    for name, budgets in (("a", [1]), ("b", [5])):
        with bohb.journal.SqlJournal(tmp_path / "s.db", name) as journal:
            optimizer = bohb.BOHB(SPACE, budgets=budgets, seed=0, journal=journal)
            if name == "a":
                optimizer.tell(optimizer.ask(), 0.5)
    shown = call("compare", tmp_path / "s.db").output
    assert "The largest budgets differ (1, 5)" in shown
    assert "after so many" not in shown


def test_a_single_or_unknown_study_is_refused(directory: Path) -> None:
    assert "at least two" in str(call("compare", directory / "b.db").output)
    assert "there is no study 'x'" in str(call("compare", directory / "b.db", f"{directory / 'a.db'}::x").output)
