"""Clauses of a space as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bohb.core.space import Space
from bohb.core.space.clauses import parse
from bohb.errors import InvalidSpace

TABLE: dict[str, Any] = {
    "layers": (1, 4),
    "act": ["relu", "tanh"],
    "size": {"ordinal": ["s", "m", "l"]},
    "flag": [True, False, None],
}


@pytest.mark.parametrize(
    ("clause", "holds"),
    [
        ("layers > 1", lambda c: c["layers"] > 1),
        ("layers >= 2 and act == relu", lambda c: c["layers"] >= 2 and c["act"] == "relu"),
        ("act != 'relu' or layers in [1, 4]", lambda c: c["act"] != "relu" or c["layers"] in (1, 4)),
        (
            "(act == tanh or layers < 2) and size <= m",
            lambda c: (c["act"] == "tanh" or c["layers"] < 2) and c["size"] in "sm",
        ),
        (
            "act == tanh or layers < 2 and size > s",
            lambda c: c["act"] == "tanh" or (c["layers"] < 2 and c["size"] in "ml"),
        ),
        ("flag == true", lambda c: c["flag"] is True),
        ("flag in [False, None]", lambda c: not c["flag"]),
    ],
)
def test_a_condition_means_what_it_says(clause: str, holds: Any) -> None:
    space = Space({**TABLE, "child": {"float": [0, 1], "if": clause}})
    drawn = [space.sample(np.random.default_rng(i)) for i in range(200)]
    assert [("child" in c) for c in drawn] == [bool(holds(c)) for c in drawn]
    assert 0 < sum("child" in c for c in drawn) < 200


def test_a_forbidden_clause_rules_out_what_it_says() -> None:
    clauses = ["lo > hi", "act in [relu, tanh] and hi >= 0.5"]
    space = Space({"lo": (0.0, 1.0), "hi": (0.0, 1.0), "act": ["relu", "tanh", "elu"], "forbidden": clauses})
    drawn = [space.sample(np.random.default_rng(i)) for i in range(200)]
    assert all(c["lo"] <= c["hi"] for c in drawn)
    assert all(c["act"] == "elu" or c["hi"] < 0.5 for c in drawn)


@pytest.mark.parametrize(
    "text", ["", "a", "a >", "> 1", "a > 1 b", "a in 1", "a in [1", "(a > 1", "a > 1)", "a = 1", "a > 'x", "a ** 2 > 1"]
)
def test_a_clause_that_is_none_is_refused(text: str) -> None:
    def nothing(*parts: object) -> None: ...

    with pytest.raises(InvalidSpace):
        parse(text, nothing, nothing, nothing)


def test_a_clause_is_never_run_as_code(tmp_path: Path) -> None:
    hostile = f"__import__('os').system('touch {tmp_path}/x') > 1"
    with pytest.raises(InvalidSpace):
        Space({"a": (0.0, 1.0), "b": {"float": [0, 1], "if": hostile}})
    assert list(tmp_path.iterdir()) == []
