"""The demo's problem over many seeds: the same space for Optuna, wins counted seed by seed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import ConfigSpace as CS  # noqa: N817 - the field's abbreviation
import optuna
import pytest
from benchmarks import demo


def test_optuna_searches_the_space_of_the_demo() -> None:
    from digits_network import space

    ours: Any = space()
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    seen = set()
    for _ in range(60):
        trial = study.ask()
        config = demo.suggest(trial)
        CS.Configuration(ours, values=config)  # refuses missing, inactive and illegal values
        distributions: dict[str, Any] = trial.distributions
        for name, found in distributions.items():
            seen.add(name)
            if isinstance(found, optuna.distributions.CategoricalDistribution):
                assert set(found.choices) == set(ours[name].choices)
            else:
                assert (found.low, found.high, found.log) == (ours[name].lower, ours[name].upper, ours[name].log)
    assert seen == set(ours)


def test_wins_are_counted_against_random_search_with_the_same_seed(tmp_path: Path) -> None:
    losses = {"random": (0.3, 0.1), "optuna-tpe": (0.3, 0.2), "optuna-tpe-hyperband": (0.4, 0.2)}
    losses |= {"bohb": (0.2, 0.2), "best": (0.2, 0.05)}
    runs = [
        {"method": method, "seed": seed, "loss": loss, "test_error": loss, "curve": [(1, 2 * loss), (2, loss)]}
        for method, pair in losses.items()
        for seed, loss in enumerate(pair)
    ]
    rows = {row["method"]: (row["loss wins"], row["loss ties"]) for row in demo.summary(runs)}
    assert rows == {
        "random": (0, 2),
        "optuna-tpe": (0, 1),
        "optuna-tpe-hyperband": (0, 0),
        "bohb": (1, 0),
        "best": (2, 0),
    }


def test_the_benchmark_writes_numbers_a_page_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "METHODS", ("random", "optuna-tpe"))
    monkeypatch.setattr(sys, "argv", ["demo", "--seeds", "2", "--cost", "1", "--jobs", "1", "--out", str(tmp_path)])
    demo.main()
    body = json.loads((tmp_path / "demo.json").read_text())
    assert [(run["method"], run["seed"]) for run in body["runs"]] == [
        (method, seed) for seed in (101, 102) for method in demo.METHODS
    ]
    assert all(run["curve"] for run in body["runs"])
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    assert "| Optuna TPE |" in (tmp_path / "demo.md").read_text()
