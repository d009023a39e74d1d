"""The ablation removes parts of the Gaussian process and restores them."""

from __future__ import annotations

import pytest
from benchmarks.better.without import PARTS, without
from benchmarks.harness import simulate
from benchmarks.methods import connect
from benchmarks.problems import problem_of


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_is_taken_away_and_put_back(name: str) -> None:
    originals = [getattr(part.owner, part.name) for part in PARTS[name]]
    with without(name):
        assert all(getattr(part.owner, part.name) is part.instead for part in PARTS[name])
    assert [getattr(part.owner, part.name) for part in PARTS[name]] == originals


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_method_decides_without_a_part(name: str) -> None:
    problem = problem_of("hartmann-3")
    method = connect(f"best:without={name!r}", problem, seed=0, full_evaluations=8)
    assert len(simulate(method, problem, seed=0, full_evaluations=8)) > 20
