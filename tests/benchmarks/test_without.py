"""Parts of the Gaussian process can be taken away for the ablation, and are put back."""

from __future__ import annotations

import pytest
from benchmarks.methods import connect
from benchmarks.problems import problem_of
from benchmarks.without import PARTS


@pytest.mark.parametrize("name", sorted(PARTS))
def test_a_part_is_taken_away_while_a_method_runs_and_then_put_back(name: str) -> None:
    part = PARTS[name]
    original = getattr(part.owner, part.name)
    method = connect(f"best:without={name!r}", problem_of("hartmann-3"), seed=0, full_evaluations=4)
    assert getattr(part.owner, part.name) is part.instead
    method.close()
    assert getattr(part.owner, part.name) is original
