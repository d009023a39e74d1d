"""The directory of a study, whatever its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bohb import minimize
from bohb.journal.location import files_directory, plain_component
from tests.objectives import SPACE, quadratic

LONG = ["研" * 29, "研" * 200, "é" * 200, "\U0001f600" * 200, "a" * 100 + "é" * 60, "." * 200, "/" * 200]


@pytest.mark.parametrize("name", LONG, ids=[f"{name[0]!a}-{len(name)}" for name in LONG])
def test_a_long_study_name_is_a_directory_of_its_own(tmp_path: Path, name: str) -> None:
    directory = files_directory(tmp_path / "s.db", name)
    assert directory is not None
    directory.mkdir(parents=True)
    assert plain_component(name[:-1] + "x") != directory.name


def test_a_study_with_a_long_name_runs_and_resumes_with_checkpoints(tmp_path: Path) -> None:
    name = "研究" * 100
    for n in (3, 6):
        study = minimize(
            quadratic, SPACE, budgets=[1], seed=0, max_trials=n, journal=tmp_path / "s.db", study=name, progress=False
        )
        assert len(study.history.outcomes) == n
    assert len(list((tmp_path / "s.db.files").iterdir())) <= 1


@pytest.mark.parametrize(
    ("name", "plain"), [("a b", "a%20b"), ("..", "%2E%2E"), ("a+", "a%2B"), ("x" * 200, "x" * 200)]
)
def test_names_that_fit_keep_their_directory(name: str, plain: str) -> None:
    assert plain_component(name) == plain
