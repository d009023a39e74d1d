"""The measurement of priors and earlier studies."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.better.priors import CASES, Changed, Group, execute, page, space_with_prior
from benchmarks.problem import uniform
from benchmarks.problems import problem_of

import bohb


def test_a_prior_is_highest_at_its_centre() -> None:
    problem = problem_of("counting_ones-2-2")
    at = uniform(np.random.default_rng(0), problem.parameters)
    space = bohb.Space(space_with_prior(problem, at))
    elsewhere = space.draw(np.random.default_rng(1), 200)
    assert (space.log_prior(space.encode(at)[None]) >= space.log_prior(elsewhere)).all()


def test_the_opposite_problem_prefers_the_worst() -> None:
    problem = problem_of("hartmann-6")
    config = uniform(np.random.default_rng(0), problem.parameters)
    opposite, moved = Changed(problem, sign=-1.0), Changed(problem, moved=0.05)
    known = problem.evaluate(config, 81.0, 0).loss
    assert known is not None
    assert opposite.evaluate(config, 81.0, 0).loss == -known
    there = moved.evaluate({name: x - 0.05 for name, x in config.items()}, 81.0, 0).loss
    assert there == pytest.approx(known)


def test_every_case_is_compared_with_nothing_known() -> None:
    groups = [Group("hartmann-6", case, (0, 1), 1.0) for case in ("none", "good", "same")]
    lines = page({group: execute(group) for group in groups}, ["hartmann-6"], dict.fromkeys(("command", "cpu", "date")))
    shown = [title for title in CASES.values() if any(line.startswith(f"| {title} |") for line in lines)]
    assert shown == [CASES["good"], CASES["same"]]
