"""Every example runs as it stands, and does what it says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bohb.core.schedule.brackets import geometric_budgets, hyperband

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name: str, directory: Path, *arguments: str) -> str:
    """What an example prints when it is run as a script, from wherever."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


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
    assert set(re.findall(r"^(?:from|import) (bohb[\w.]*)", source, flags=re.MULTILINE)) == {
        "bohb.core",
        *(f"bohb.core.{module}" for module in ("brackets", "halving", "kde", "observations", "space")),
    }


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
    assert "best loss" in output_of("slurm_study.py", tmp_path, str(tmp_path / "jobs"), "--trials", "4")
