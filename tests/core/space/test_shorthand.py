"""A space given as a dict: valid forms, errors, and its description."""

from __future__ import annotations

import re
from typing import Any

import pytest
import scipy.stats
from ConfigSpace import (
    AndConjunction,
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    GreaterThanCondition,
    InCondition,
    Normal,
    OrConjunction,
    OrdinalHyperparameter,
)
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bohb.core.space import Space
from bohb.core.space.describe import describe
from bohb.errors import InvalidSpace


@pytest.mark.parametrize(
    ("value", "instead"),
    [
        ([1e-5, 1e-1], "write (1e-05, 0.1) for a range, or {'choice': [1e-05, 0.1]}"),
        ([1e-5, 1e-1, "log"], "write (1e-05, 0.1, 'log') for a range"),
        ([16, 32], "or {'choice': [16, 32]}"),
        (scipy.stats.loguniform(1e-5, 1e-1), "write (1e-05, 0.1, 'log') instead"),
        (scipy.stats.randint(1, 10), "write (1, 9) instead"),
        (scipy.stats.norm(), "write a range (lower, upper)"),
        (FloatDistribution(1e-5, 1e-1, log=True), "write (1e-05, 0.1, 'log') instead"),
        (IntDistribution(1, 9), "write (1, 9) instead"),
        (CategoricalDistribution(["a", "b"]), "write ['a', 'b'] instead"),
        ({"choices": [1, 2]}, "{'choice': […]}"),
    ],
)
def test_what_could_mean_a_range_is_refused_with_what_to_write_instead(value: Any, instead: str) -> None:
    with pytest.raises(InvalidSpace, match=re.escape(instead)):
        Space({"lr": value, "x": (0.0, 1.0)})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "a=[] has no choice; give at least one value"),
        ({"choice": []}, "a=[] has no choice; give at least one value"),
        (["x", "y", "x"], "a=['x', 'y', 'x'] has 'x' twice; give each value once"),
        ([True, 1], "a=[True, 1] has True and 1, which are equal; give each value once"),
        ({"choice": [2, 2.0]}, "a=[2, 2.0] has 2 and 2.0, which are equal; give each value once"),
    ],
)
def test_choices_that_are_missing_or_equal_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidSpace, match=re.escape(message)):
        Space({"a": value, "x": (0.0, 1.0)})


def test_lists_that_cannot_be_a_range_are_choices() -> None:
    space = Space({"a": [True, False], "b": [1, 2, 3], "c": ["log", 1], "d": {"choice": [16, 32]}, "e": [5]})
    assert [scale.name for scale in space.dimensions] == ["a", "b", "c", "d"]
    assert describe(space)[3] == "d  choice    16, 32"


def test_a_space_is_described_in_a_line_per_hyperparameter() -> None:
    cs = ConfigurationSpace(
        {
            "layers": (1, 4),
            "lr": Float("lr", (1e-5, 1e-1), log=True),
            "drop": Float("drop", (0, 0.5), distribution=Normal(0.2, 0.1)),
            "size": OrdinalHyperparameter("size", ["s", "m"]),
            "act": Categorical("act", ["relu", "tanh"], weights=[0.9, 0.1]),
            "k": 7,
        }
    )
    deep = GreaterThanCondition(cs["drop"], cs["layers"], 1)
    cs.add(
        AndConjunction(
            deep,
            OrConjunction(EqualsCondition(cs["drop"], cs["act"], "relu"), InCondition(cs["drop"], cs["size"], ["s"])),
        )
    )
    assert sorted(describe(Space(cs))) == [
        "act     choice    'relu', 'tanh', weighted",
        "drop    float     0 to 0.5, with a prior, if layers > 1 and (act == 'relu' or size in ['s'])",
        "k       constant  7",
        "layers  integer   1 to 4",
        "lr      float     1e-05 to 0.1, log scale",
        "size    ordinal   's' < 'm'",
    ]
