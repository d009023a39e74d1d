"""Search spaces that tests share, and hypothesis strategies for them."""

from __future__ import annotations

from typing import Any

from ConfigSpace import (
    AndConjunction,
    Beta,
    Categorical,
    ConfigurationSpace,
    Constant,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanRelation,
    ForbiddenInClause,
    GreaterThanCondition,
    InCondition,
    Integer,
    LessThanCondition,
    Normal,
    NotEqualsCondition,
    OrConjunction,
    OrdinalHyperparameter,
)
from hypothesis import strategies as st


def mixed() -> ConfigurationSpace:
    """One hyperparameter of every kind."""
    return ConfigurationSpace(
        {
            "float": (-1.5, 2.0),
            "log": Float("log", (1e-6, 1e-1), log=True),
            "int": (1, 3),
            "logint": Integer("logint", (1, 1000), log=True),
            "cat": ["a", "b", "c"],
            "bool": [True, False],
            "ordinal": OrdinalHyperparameter("ordinal", ["low", "mid", "high"]),
            "constant": Constant("constant", 7),
            "tuple": [(1, 2), (3,)],
            "normal": Float("normal", (0.0, 10.0), distribution=Normal(3, 1)),
            "beta": Integer("beta", (1, 20), distribution=Beta(2, 5)),
            "weighted": Categorical("weighted", ["x", "y"], weights=[0.9, 0.1]),
        }
    )


def conditional() -> ConfigurationSpace:
    """Nested conditions of every kind, joined by AND and OR."""
    cs = ConfigurationSpace(
        {
            "algo": ["svm", "forest", "net"],
            "c": (0.1, 10.0),
            "kernel": ["linear", "rbf"],
            "gamma": (0.0, 1.0),
            "trees": (10, 100),
            "depth": OrdinalHyperparameter("depth", ["shallow", "middle", "deep"]),
            "width": (1, 64),
            "dropout": (0.0, 0.5),
            "both": (0.0, 1.0),
            "either": ["p", "q"],
            "flag": Constant("flag", "on"),
        }
    )
    cs.add(
        [
            EqualsCondition(cs["c"], cs["algo"], "svm"),
            EqualsCondition(cs["kernel"], cs["algo"], "svm"),
            EqualsCondition(cs["gamma"], cs["kernel"], "rbf"),
            EqualsCondition(cs["trees"], cs["algo"], "forest"),
            InCondition(cs["depth"], cs["algo"], ["forest", "net"]),
            NotEqualsCondition(cs["width"], cs["algo"], "svm"),
            GreaterThanCondition(cs["dropout"], cs["width"], 32),
            AndConjunction(
                EqualsCondition(cs["both"], cs["algo"], "svm"), GreaterThanCondition(cs["both"], cs["c"], 5.0)
            ),
            OrConjunction(
                EqualsCondition(cs["either"], cs["algo"], "svm"), LessThanCondition(cs["either"], cs["width"], 10)
            ),
        ]
    )
    return cs


def constrained() -> ConfigurationSpace:
    """Forbidden clauses of several kinds."""
    cs = ConfigurationSpace({"a": (0, 9), "b": (0, 9), "c": ["x", "y", "z"], "d": (0.0, 1.0)})
    cs["a"].default_value = 0
    cs.add(
        [
            ForbiddenAndConjunction(ForbiddenEqualsClause(cs["c"], "y"), ForbiddenInClause(cs["a"], [1, 2, 3])),
            ForbiddenGreaterThanRelation(cs["a"], cs["b"]),
            ForbiddenEqualsClause(cs["c"], "z"),
        ]
    )
    return cs


ALL: dict[str, Any] = {"mixed": mixed, "conditional": conditional, "constrained": constrained}
unit = st.floats(0, 1, exclude_max=True)
