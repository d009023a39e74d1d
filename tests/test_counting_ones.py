"""A small version of §5.1; benchmarks/paper/counting_ones.py has the full experiment."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.problems import CountingOnes

from bohb import BOHB


def final_regret(seed: int, evaluations: int, random_fraction: float) -> float:
    """Return the noise-free regret of the incumbent after `evaluations` full evaluations."""
    problem = CountingOnes(8, 8)
    study = BOHB(problem.space, min_budget=9, max_budget=729, seed=seed, random_fraction=random_fraction)
    spent = 0.0
    while spent < evaluations * 729:
        trial = study.ask()
        study.tell(trial, problem.loss(trial.config, trial.budget, trial.seed))
        spent += trial.budget
    assert study.incumbent is not None
    return problem.regret(study.incumbent.config)


@pytest.mark.timeout(1200)
def test_on_counting_ones_bohb_learns_and_hyperband_does_not() -> None:
    """8 + 8 dimensions, budgets 9…729, 5 seeds, 128 full evaluations: the mean regret is at most half of Hyperband's.

    With 20 seeds it is about a quarter, so five seeds are enough.
    """
    bohb = np.mean([final_regret(seed, 128, 1 / 3) for seed in range(5)])
    hyperband = np.mean([final_regret(seed, 128, 1.0) for seed in range(5)])
    assert bohb < 0.5 * hyperband
