"""Batched chains and agents compute what the numpy versions do, and studies in lock-step can be interrupted."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.data import directory
from benchmarks.paper import batched
from benchmarks.paper.bnn import held_out_losses
from benchmarks.paper.figures import STEPS, command_of
from benchmarks.paper.lockstep import Row, Study, _write, compress, read, run
from benchmarks.problem import Config
from benchmarks.problems import ppo, problem_of
from benchmarks.problems.perceptron import Perceptron
from benchmarks.problems.sghmc import Network
from benchmarks.report import RESULTS

torch = pytest.importorskip("torch")

PROBLEM = "counting_ones-2-2"
needs_data = pytest.mark.skipif(not (directory() / "README.md").exists(), reason="the benchmark data is not here")


def test_the_gradient_of_a_padded_chain_is_that_of_numpy() -> None:
    from benchmarks.problems.batched_sghmc import gradient
    from benchmarks.problems.padded import Layout

    rng = np.random.default_rng(0)
    network = Network(rng, 3, (4, 5))
    network.theta[-1] = -1.0
    X, y = rng.standard_normal((20, 3)).astype(np.float32), rng.standard_normal(20).astype(np.float32)
    expected = network.gradient(X, y, 300)
    layout = Layout(6, (8, 7), extra=1)
    row, mask = torch.zeros(1, layout.length), torch.zeros(1, layout.length)
    layout.mark(mask[0], 3, (4, 5))
    mask[0, -1] = 1
    row[mask > 0] = torch.from_numpy(network.theta)
    wide = torch.nn.functional.pad(torch.from_numpy(X), (0, 3))[None]
    found = gradient(layout, row, wide, torch.from_numpy(y)[None], torch.full((1, 1), 1 / 300))
    np.testing.assert_allclose(found[mask > 0].numpy(), expected, rtol=1e-4, atol=1e-6)
    assert not found[mask == 0].any()  # the padding stays zero


def test_the_slope_of_a_policy_is_that_of_numpy() -> None:
    from benchmarks.problems.batched_ppo import log_likelihood, policy_slope
    from benchmarks.problems.padded import Layout

    rng = np.random.default_rng(1)
    settings = ppo.Settings((4, 6), 8, 1e-3, 0.9, 0.2, 0.3)
    policy = Perceptron(rng, 4, settings.units)
    states = rng.standard_normal((50, 4)).astype(np.float32)
    right = (rng.random(50) < 0.5).astype(np.float32)
    advantage, weights = (rng.standard_normal(50).astype(np.float32) for _ in range(2))
    first, second, logit = policy.forward(states)
    before = logit + rng.standard_normal(50).astype(np.float32) * 0.5  # so that some ratios are clipped
    old = log_likelihood(torch.from_numpy(before), torch.from_numpy(right))
    slope = ppo.objective_slope(logit, right, old.numpy(), advantage, settings)
    policy.backward(states, first, second, -weights * slope)
    layout = Layout(4, (8, 8))
    row, mask = torch.zeros(1, layout.length), torch.zeros(1, layout.length)
    layout.mark(mask[0], 4, settings.units)
    row[mask > 0] = torch.from_numpy(policy.theta)
    found = policy_slope(
        layout, layout.views(row), torch.from_numpy(states)[None], torch.from_numpy(right)[None], old[None],
        torch.from_numpy(advantage)[None], torch.full((1, 1), settings.clipping),
        torch.full((1, 1), settings.entropy), torch.from_numpy(weights)[None],
    )  # fmt: skip
    np.testing.assert_allclose(found[mask > 0].numpy(), policy.slope, rtol=1e-3, atol=1e-5)
    assert not found[mask == 0].any()


class Counting:
    """Computes one waiting evaluation at a time, without random numbers.

    most: breaks after this many evaluations.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._waiting: dict[Study, tuple[Config, float]] = {}
        self._left = most

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, study: Study, config: Config, budget: float) -> None:
        self._waiting[study] = config, budget

    def advance(self) -> Mapping[Study, Row]:
        if not self._waiting:
            return {}
        if self._left <= 0:
            raise KeyboardInterrupt
        self._left -= 1
        study = min(self._waiting, key=lambda study: study.seed)
        config, _ = self._waiting.pop(study)
        return {study: {"loss": -float(sum(config.values()))}}


def evaluations(path: Path) -> dict[Study, list[Row]]:
    return {study: [row for row in rows if "budget" in row] for study, rows in read(path).items()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="studies in lock-step are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # from Python 3.12
def test_interrupted_studies_go_on_from_their_file_to_the_same_result(tmp_path: Path) -> None:
    studies = [Study(PROBLEM, "bohb", seed) for seed in (0, 1)]
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    assert run(studies, 1, Counting, whole, 600) == []
    with pytest.raises(KeyboardInterrupt):
        run(studies, 1, lambda: Counting(most=4), parts, 600)
    assert sum(map(len, evaluations(parts).values())) == 4
    with parts.open("a") as file:
        file.write('{"study": {"pro')  # cut off while it was written
    assert run(studies, 1, Counting, parts, 600) == []
    assert evaluations(parts) == evaluations(whole)
    assert min(map(len, evaluations(whole).values())) > 5


def row(config: float, budget: float, loss: float | None) -> dict[str, Any]:
    return {"config": {"x": config}, "budget": budget, "loss": loss}


def test_a_result_ends_with_its_length_and_failures_before_a_success_count_as_the_worst() -> None:
    problem = problem_of("cartpole")
    rows = [row(0, 9.0, None), row(1, 9.0, 7.0), row(2, 9.0, None), row(3, 9.0, 5.0), row(4, 9.0, 1.0)]
    result = batched.result_of(problem, rows, 4)
    assert (result.evaluations, result.failures, result.spent) == (4, 2, 4.0)
    points = result.trajectories["largest"]
    assert [(point.spent, point.loss) for point in points] == [(1.0, 9.0), (2.0, 7.0), (4.0, 5.0)]
    assert batched.result_of(problem, rows, 5).trajectories["largest"][-1].loss == 1.0


def test_stored_studies_are_cut_to_the_shortest_of_them(tmp_path: Path) -> None:
    path = tmp_path / "cartpole.jsonl"
    with path.open("w") as file:
        for seed, losses in ((0, (30.0, 20.0, 10.0)), (1, (50.0, 40.0))):
            for loss in losses:
                _write(file, Study("cartpole", "bohb", seed), row(loss, 9.0, loss))
            _write(file, Study("cartpole", "bohb", seed), {"cpu_seconds": 1.0})
    measured = batched.measured_from(path, batched.EXPERIMENTS["cartpole"], None)
    assert measured.experiment == replace(
        batched.EXPERIMENTS["cartpole"], methods=("bohb",), runs=2, full_evaluations=2.0
    )
    assert measured.finals("cartpole", "bohb") == {0: 20.0, 1: 40.0}


def test_a_compressed_file_is_read_as_the_plain_one_without_what_nobody_reads(tmp_path: Path) -> None:
    plain, small = tmp_path / "cartpole.jsonl", tmp_path / "cartpole.jsonl.xz"
    with plain.open("w") as file:
        for loss in (30.0, 0.1 + 0.2):
            for seed in (1, 0):
                _write(file, Study("cartpole", "bohb", seed), {**row(loss / 3, 9.0, loss), "episodes": [loss]})
    compress(plain, small, without="episodes")
    found = read(small)
    assert found == {
        study: [{key: value for key, value in row.items() if key != "episodes"} for row in rows]
        for study, rows in read(plain).items()
    }
    assert [study.seed for study in found] == [0, 1]


@pytest.mark.parametrize("name", [pytest.param("bnn", marks=needs_data), "cartpole"])
def test_the_kept_evaluations_give_the_numbers_of_the_page(name: str) -> None:
    path = batched.kept(name)
    measured = batched.measured_from(path, batched.EXPERIMENTS[name], None)
    page = json.loads((RESULTS / f"{name}.json").read_text())
    assert page["full_evaluations"] == measured.experiment.full_evaluations
    for problem, methods in measured.results.items():
        for method in methods:
            found = {str(seed): loss for seed, loss in measured.finals(problem, method).items()}
            assert page["problems"][problem]["methods"][method]["final"] == found
    if name == "bnn":
        assert page["test"] == held_out_losses(measured, batched.test_losses(path))


def test_make_figures_writes_the_pages_of_batched_runs_from_their_evaluations(tmp_path: Path) -> None:
    for edition in ("evening", "hour", "smoke"):
        args = argparse.Namespace(edition=edition, jobs=2, out=tmp_path)
        commands = [command_of(step, args) for step in STEPS if step.name in batched.EXPERIMENTS]
        start = ["-m", "benchmarks.paper.batched", "report"]
        assert commands == [[*start, name, "--pages", str(tmp_path)] for name in batched.EXPERIMENTS]
