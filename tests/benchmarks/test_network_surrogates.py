"""The surrogates of feed-forward networks, the rival LC-Net, and the experiment with both."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from benchmarks.experiment import Measured
from benchmarks.harness import Point, incumbents, simulate, trajectory
from benchmarks.methods import connect
from benchmarks.paper.networks import experiment, forest, lcnet
from benchmarks.paper.networks.data import FILES
from benchmarks.paper.networks.forest import Forest, grow
from benchmarks.paper.networks.space import EPOCHS, RANGES, sample
from benchmarks.paper.networks.surrogate import FAILED, TASKS, Networks, Surrogate, curves, features
from benchmarks.problem import Config, uniform
from benchmarks.problems import problem_of
from benchmarks.runs import Result


def configs(count: int) -> list[Config]:
    rng = np.random.default_rng(0)
    return [uniform(rng, Networks.parameters) for _ in range(count)]


@pytest.fixture(scope="module")
def optdigits() -> Networks:
    problem = problem_of("networks-optdigits")
    assert isinstance(problem, Networks)
    return problem


def test_a_forest_predicts_what_scikit_learn_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = pytest.importorskip("sklearn.tree")
    monkeypatch.setattr(forest, "TREES", 3)
    rng = np.random.default_rng(0)
    X = rng.random((60, 6)).astype(np.float32)
    X[30:] = np.nextafter(X[:30], np.float32(2))  # neighbours, between which only rounding down separates
    Y = rng.random((60, 2))
    trees = grow(7, X, Y)
    expected = []
    for number, drawn in enumerate(trees.counts):
        stream = np.random.default_rng([7, number])
        stream.integers(60, size=60)
        model = tree.DecisionTreeRegressor(max_features=forest.FEATURES, random_state=int(stream.integers(2**31)))
        expected.append(model.fit(X, Y, sample_weight=drawn.astype(float)).predict(X))
    found = Forest(trees, X, Y)
    np.testing.assert_allclose(found.many(X), np.mean(expected, axis=0), rtol=1e-6)
    for x in X[:5].tolist():
        np.testing.assert_allclose(found.one(x), found.many(np.array([x], np.float32))[0], rtol=1e-12)


def test_a_forest_of_other_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn.tree")
    monkeypatch.setattr(forest, "TREES", 2)
    rng = np.random.default_rng(0)
    X, Y = rng.random((40, 6)).astype(np.float32), rng.random((40, 1))
    with pytest.raises(ValueError, match="grown on other data"):
        Forest(grow(0, X, Y), X + 1, Y)


def test_there_is_a_problem_for_every_data_set() -> None:
    assert set(TASKS) == set(FILES)
    for name, task in TASKS.items():
        with np.load(Path(experiment.__file__).parent / "curves" / f"{name}.npz") as file:
            assert file["wrong"].shape == (1000, EPOCHS)
        assert np.log(task.seconds) / np.log(3) == pytest.approx(round(np.log(task.seconds) / np.log(3)))
    assert len(problem_of("networks-letter").budgets) == 4
    with pytest.raises(ValueError, match="'iris' must be one of adult"):
        problem_of("networks-iris")


def test_a_surrogate_remembers_its_curves() -> None:
    X, recorded = curves("optdigits")
    _, errors = Surrogate("optdigits").many(X)
    assert np.corrcoef(errors[:, -1], recorded[:, -1])[0, 1] > 0.97
    assert np.abs(errors - recorded).mean() < 0.05


def test_one_row_and_many_agree() -> None:
    surrogate, found = Surrogate("optdigits"), sample(np.random.default_rng(1), 20)
    seconds, errors = surrogate.many(features(found))
    for i, row in enumerate(zip(*found.values(), strict=True)):
        one = surrogate.one(*row)
        assert one[0] == pytest.approx(seconds[i])
        assert one[1] == pytest.approx(errors[i])


def test_a_budget_buys_the_epochs_that_end_within_it(optdigits: Networks) -> None:
    (config,) = configs(1)
    seconds, errors = optdigits.curve(config, 1e9)
    assert len(errors) == EPOCHS
    assert optdigits.evaluate(config, 0.99 * seconds, 0).loss == FAILED
    assert optdigits.evaluate(config, 3.5 * seconds, 0).loss == errors[2]
    assert optdigits.evaluate(config, 1e9, 0).loss == errors[-1]
    assert optdigits.evaluate(config, 3.5 * seconds, 0).cost == 3.5 * seconds


def test_losses_of_many_are_those_of_each(optdigits: Networks) -> None:
    some = configs(40)
    X = features({name: np.array([float(config[name]) for config in some]) for name in RANGES})
    for budget in optdigits.budgets:
        one_by_one = [optdigits.evaluate(config, budget, 0).loss for config in some]
        assert Surrogate("optdigits").losses(X, budget).tolist() == pytest.approx(one_by_one)


def test_nothing_random_beats_the_stored_optimum() -> None:
    X = features(sample(np.random.default_rng(2), 2000))
    for name, task in TASKS.items():
        assert Surrogate(name).losses(X, task.seconds).min() >= task.optimum


def test_all_five_families_of_curves_rise() -> None:
    shape = torch.rand(50, 1, 9, generator=torch.Generator().manual_seed(0)) * 0.98 + 0.01
    values = lcnet.families(shape, torch.linspace(0.02, 1, 30))
    assert values.shape == (50, 30, 5)
    assert (values.diff(dim=1) >= 0).all()
    assert torch.isfinite(values).all()


def test_the_posterior_predicts_unseen_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lcnet, "STEPS", 700)
    rng = np.random.default_rng(0)
    X = lcnet.scaled(rng.random((60, 2)))
    t = rng.uniform(0.05, 1, 60).astype(np.float32)
    y = ((X[:, 0] > 0) * (1 - np.exp(-5 * t))).astype(np.float32)
    net = lcnet.Net(2)
    found = torch.from_numpy(lcnet.posterior(rng, net, X, t, y))
    assert len(found) == 8
    new = lcnet.scaled(rng.random((50, 2)))
    with torch.no_grad():
        mean = net.mean(found, torch.from_numpy(new), torch.ones(50)).mean(0).numpy()
    assert np.corrcoef(mean, new[:, 0] > 0)[0, 1] > 0.7


def test_lc_net_learns_and_then_proposes(optdigits: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lcnet, "REFIT", 60)
    monkeypatch.setattr(lcnet, "STEPS", 60)
    monkeypatch.setattr(lcnet, "BURN_IN", 30)
    runs = []
    for _ in range(2):
        method = connect("hb-lcnet", optdigits, seed=0, full_evaluations=3)
        assert isinstance(method, lcnet.HyperbandLCNet)
        runs.append(simulate(method, optdigits, seed=0, full_evaluations=6))
        assert method.fits >= 1
        assert method.drawn >= 1
    assert runs[0] == runs[1]
    assert trajectory(optdigits, incumbents(runs[0]))[-1].regret < 0.5


def test_lc_net_needs_curves() -> None:
    with pytest.raises(ValueError, match="whole learning curves, which counting_ones-4-4"):
        connect("hb-lcnet", problem_of("counting_ones-4-4"), seed=0, full_evaluations=1)


def test_speed_ups_are_ratios_of_when_a_mean_is_reached() -> None:
    def run(*points: tuple[float, float]) -> Result:
        found = [Point(x, x, regret, regret, 81.0) for x, regret in points]
        return Result({"authors": found, "largest": found}, len(found), 0, 64, 64, 0.0)

    shown = replace(experiment.EXPERIMENT, full_evaluations=64)
    ours, theirs = {0: run((1, 0.5), (8, 0.1))}, {0: run((2, 0.5), (40, 0.1)), 1: run((2, 0.5), (40, 0.1))}
    (row,) = experiment.speedups(Measured(shown, {"networks-letter": {"bohb": ours, "hyperband": theirs}}))
    assert row == {"problem": "networks-letter", "than": "hyperband", "at 4": 4.0, "at 16": 16.0, "at 64": 8.0}


def test_the_experiment_runs_in_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["networks", "--smoke", "--out", str(tmp_path), "--cache", str(tmp_path / "c")])
    experiment.main()
    body = json.loads((tmp_path / "networks.json").read_text())
    assert set(body["problems"]["networks-letter"]["methods"]) == {"bohb", "hyperband"}
    assert [row["than"] for row in body["speed-ups of BOHB"]] == ["hyperband"]
    assert "Speed-up of BOHB" in capsys.readouterr().out
    assert (tmp_path / "networks.png").exists()
