"""Every example runs as it stands and keeps its promise."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bohb.core.schedule.brackets import geometric_budgets, hyperband

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def output_of(name: str, directory: Path, *arguments: str) -> str:
    """Run an example as a script in some directory and return what it prints."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_gallery_names_every_example() -> None:
    shown: str = runpy.run_path(str(ROOT / "tools" / "gallery.py"))["gallery"]()
    names = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert names == set(re.findall(r"^\| \[([^]]+)\]", shown, flags=re.MULTILINE))
    assert not re.search(r"\|\s*\|$", shown, flags=re.MULTILINE), "say in the first sentence what the example shows"


@pytest.fixture(scope="module")
def by_hand() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "bohb_by_hand.py"))


def test_the_algorithm_by_hand_finds_a_minimum(tmp_path: Path) -> None:
    last = output_of("bohb_by_hand.py", tmp_path).splitlines()[-1]
    match = re.search(r"(\S+) above the minimum", last)
    assert match is not None
    assert float(match[1]) < 0.5


def test_the_algorithm_by_hand_is_decided_by_its_seed(by_hand: dict[str, Any]) -> None:
    assert by_hand["main"](1, rounds=1) == by_hand["main"](1, rounds=1)
    assert by_hand["main"](1, rounds=1) != by_hand["main"](2, rounds=1)


def test_the_algorithm_by_hand_runs_the_planned_rungs(by_hand: dict[str, Any]) -> None:
    planned = [(rung.budget, rung.size) for bracket in hyperband(geometric_budgets(1, 27)) for rung in bracket.rungs]
    rungs = by_hand["main"](3, rounds=1)["rungs"]
    assert [(rung["budget"], len(rung["origins"])) for rung in rungs] == planned


def test_the_algorithm_by_hand_uses_no_class_that_would_do_its_work() -> None:
    source = (EXAMPLES / "bohb_by_hand.py").read_text()
    modules = ("samplers", "samplers.kde", "samplers.observations", "schedule.brackets", "schedule.halving", "space")
    imported = set(re.findall(r"^(?:from|import) (bohb[\w.]*)", source, flags=re.MULTILINE))
    assert imported == {f"bohb.core.{module}" for module in modules}


def test_ask_and_tell_survives_failures_and_finds_the_bowl(tmp_path: Path) -> None:
    last = output_of("ask_and_tell.py", tmp_path).splitlines()[-1]
    match = re.match(r"loss (\S+) on budget 27: ", last)
    assert match is not None
    assert float(match[1]) < 10  # the mean over the space is 65


def test_a_continued_training_equals_one_that_was_trained_through(tmp_path: Path) -> None:
    last = output_of("continue_training.py", tmp_path).splitlines()[-1]
    match = re.match(r"(\d+) of (\d+) continued trainings equal", last)
    assert match is not None
    assert match[1] == match[2]
    assert int(match[1]) > 10
    assert list(tmp_path.iterdir()) == []


def test_a_study_on_a_cluster_runs_here_as_well(tmp_path: Path) -> None:
    assert "best      loss" in output_of("slurm_study.py", tmp_path, str(tmp_path / "jobs"), "--trials", "4")


def test_an_optuna_study_prunes_most_trials_and_finds_a_good_rate(tmp_path: Path) -> None:
    first, last = output_of("optuna_study.py", tmp_path).splitlines()[-2:]
    assert int(first.split()[0]) > 20
    match = re.match(r"lowest error (\S+) ", last)
    assert match is not None
    assert float(match[1]) < 2  # the noise has the variance 1


def test_several_objectives_end_with_a_front(tmp_path: Path) -> None:
    printed = output_of("several_objectives.py", tmp_path, "--trials", "15").splitlines()
    assert re.match(r"15 trials; the front on budget \d+:", printed[0])
    rows = [re.match(r" *(\S+)% +(\S+)µs +(\S+)kB ", line) for line in printed[2:]]
    assert rows
    errors, times, sizes = zip(*((float(row[1]), float(row[2]), float(row[3])) for row in rows if row), strict=True)
    assert len(errors) == len(rows)
    assert sorted(errors) == list(errors)
    assert sorted(times, reverse=True) == list(times)
    assert max(sizes) <= 2000


def test_the_demo_keeps_every_finished_trial_through_a_kill_and_draws_its_picture(tmp_path: Path) -> None:
    printed = output_of("tune_digits.py", tmp_path, "demo", "--quick")
    assert "Results on disk: 25." in printed  # trials 0 to 24
    match = re.search(r"resumes it: (\d+) trials, (\d+) of them equal", printed)
    assert match is not None
    assert int(match[1]) == int(match[2]) > 25
    assert max(map(len, printed.splitlines())) <= 80
    assert (tmp_path / "demo" / "demo.html").stat().st_size > 1_000_000  # it opens offline


@pytest.mark.parametrize("activation", ["relu", "tanh", "logistic"])
def test_the_gradients_of_the_demo_s_network_agree_with_finite_differences(activation: str) -> None:
    module = runpy.run_path(str(EXAMPLES / "digits_network.py"))
    config = {"layers": 2, "units_1": 9, "units_2": 8, "activation": activation, "dropout": 0.3}
    network = module["Network"](config, seed=1)
    network.weights = [weight.astype(np.float64) for weight in network.weights]
    X, y = (part[:20] for part in module["digits"]()["train"])

    def loss() -> float:
        _, p = network.forward(X.astype(np.float64), np.random.default_rng(2))
        return float(-np.log(p[np.arange(20), y]).mean())

    gradients = network.gradients(X.astype(np.float64), y, np.random.default_rng(2))
    for weight, gradient in zip(network.weights, gradients, strict=True):
        for place in ((3, 2), (-1, 4)):
            ends = []
            for step in (1e-5, -2e-5):
                weight[place] += step
                ends.append(loss())
            weight[place] += 1e-5
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-7)


def test_the_demo_installs_the_versions_that_the_tests_run_with() -> None:
    pins = {name: set((ROOT / "requirements" / f"{name}.txt").read_text().splitlines()) for name in ("demo", "dev")}
    assert {line for line in pins["demo"] if not line.startswith("#")} <= pins["dev"]
