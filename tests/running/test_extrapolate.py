"""`bohb.extrapolate` and `bohb extrapolate` read studies and tables."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

import bohb
from bohb.errors import InvalidArgument
from bohb.plots.model import draw_valleys
from tests.cli.running import answer, call, complaint

SPACE = {"lr": (1e-4, 1.0, "log"), "act": ["relu", "gelu"]}
SIZES = (1e5, 4e5, 1.6e6)


def loss_at(config: dict[str, Any], params: float) -> float:
    bowl = 0.03 * math.log(config["lr"] / (3 * params**-0.4)) ** 2
    return float((1.5 + 30 * params**-0.3) * math.exp(bowl + (0.02 if config["act"] == "relu" else 0.0)))


def study(params: float, journal: Path | None = None, told: bool = False) -> bohb.Study:
    def objective(trial: bohb.Trial) -> dict[str, Any]:
        found = {"loss": loss_at(trial.config, params) * (1 + 0.1 / trial.budget), "cost": params}
        return {**found, "info": {"params": params}} if told else found

    return bohb.minimize(
        objective,
        SPACE,
        min_budget=1,
        max_budget=9,
        preset="paper",
        seed=1,
        max_cost=16,
        journal=journal,
        progress=False,
    )


@pytest.fixture(scope="module")
def studies() -> list[bohb.Study]:
    return [study(params) for params in SIZES]


def rows(studies: list[bohb.Study]) -> list[dict[str, Any]]:
    return [
        {"params": params, "loss": result.loss, "cost": params, **result.config}
        for params, study in zip(SIZES, studies, strict=True)
        for result in study.history.results
        if result.budget == 9
    ]


def test_studies_tables_and_files_give_the_same_answer(studies: list[bohb.Study], tmp_path: Path) -> None:
    at = {"params": 1.6e7}
    found = bohb.extrapolate([(s, {"params": p}) for s, p in zip(studies, SIZES, strict=True)], at)
    assert 0.3 < found.config["lr"] / (3 * 1.6e7**-0.4) < 3
    assert found.config["act"] == "gelu"
    assert found.cost is not None
    table = rows(studies)
    with open(tmp_path / "runs.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows([*table, {**table[0], "loss": "nan"}, {**table[0], "loss": ""}])
    columns = {name: [row[name] for row in table] for name in table[0]}
    for source in (columns, tmp_path / "runs.csv"):
        assert bohb.extrapolate(source, at, config=["lr", "act"], cost="cost") == found
    shown = call("extrapolate", tmp_path / "runs.csv", "--at", "params=1.6e7", "--config", "lr,act").stdout
    assert "as in the best run of the nearest size" in shown


def test_journals_are_read_with_their_scale_or_with_what_trials_returned(tmp_path: Path) -> None:
    for number, params in enumerate(SIZES):
        study(params, tmp_path / f"{number}.db", told=True)
    files = [str(tmp_path / f"{number}.db") for number in range(3)]
    by_info = answer("extrapolate", *files, "--at", "params=1.6e7")
    named = [f"{file}:params={params}" for file, params in zip(files, SIZES, strict=True)]
    page = tmp_path / "valleys.html"
    assert answer("extrapolate", *named, "--at", "params=1.6e7", "--plot", page) == by_info
    assert "plotly" in page.read_text()
    assert (
        bohb.extrapolate(dict(zip(files, ({"params": p} for p in SIZES), strict=True)), {"params": 1.6e7}).to_json()
        == by_info
    )


def test_the_budget_can_be_the_scale(studies: list[bohb.Study]) -> None:
    found = bohb.extrapolate(studies[0], {"budget": 81})
    assert [size["budget"] for size in found.sizes] == [1, 3, 9]
    assert found.loss < min(found.losses)


def test_the_plot_shows_valleys_path_and_recommendation(studies: list[bohb.Study]) -> None:
    found = bohb.extrapolate([(s, {"params": p}) for s, p in zip(studies, SIZES, strict=True)], {"params": 1.6e7})
    names = [trace.name for trace in draw_valleys(found).data]
    assert names.count("optimum") == names.count("recommended") == len(found.moving) == 1
    assert sum(name.startswith("params") for name in names) == 2 * len(SIZES)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({}, "must name the scale variables of the target"),
        ({"params": -1}, "must be a positive number"),
        ({"params": float("inf")}, "must be a positive number"),
        ({"tokens": 1e9}, "the scale variable 'tokens' of trial .* is unknown; give it beside the study"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused(studies: list[bohb.Study], at: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        bohb.extrapolate(studies, at)


def test_what_is_no_table_and_no_study_is_refused_by_name(tmp_path: Path) -> None:
    table = {"params": [1, 2], "loss": [1.0, -1.0], "lr": [0.1, 0.2]}
    for runs, extra, message in (
        (table, {}, "config= must name the columns"),
        (table, {"config": ["lr", "beta"]}, "the table has no column 'beta'; its columns are params, loss, lr"),
        (table, {"config": ["lr"]}, "loss=-1.0 must be positive"),
        (3, {}, "runs=3 must be a study, the path of a journal, a table or a list of them"),
        (tmp_path / "none.csv", {"config": ["lr"]}, "none.csv cannot be read: No such file"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            bohb.extrapolate(runs, {"params": 4}, **extra)  # type: ignore[arg-type]
    assert "'params' must be a name and a number" in complaint("extrapolate", tmp_path / "a.db", "--at", "params")
