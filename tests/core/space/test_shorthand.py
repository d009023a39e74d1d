"""A space given as a dict: valid forms, errors, distributions of other packages, and its description."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
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
from hypothesis import assume, given
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from bohb.core.space import Space
from bohb.core.space.scales import Numeric, bins
from bohb.core.space.shorthand import read_space
from bohb.errors import InvalidConfiguration, InvalidSpace

ROOT = Path(__file__).parents[3]
ALL: dict[str, Any] = {
    "lr": (1e-5, 1e-1, "log"),
    "units": {"int": (16, 128), "step": 16},
    "drop": {"float": [0, 0.5], "if": "layers > 1"},
    "layers": (1, 4),
    "act": {"choice": ["relu", "tanh"], "weights": [9, 1]},
    "size": {"ordinal": ["s", "m", "l"]},
    "shift": {"float": [-3, 3], "normal": [1, 0.5]},
    "shape": [[3, 3], [5, 5]],
    "data": {"constant": "mnist"},
    "forbidden": ["units > 100 and layers in [3, 4]", "act == tanh and size >= m"],
}


def lines(space: Space) -> list[str]:
    return repr(space).splitlines()


def drawn(table: dict[str, Any], toml: bool = False) -> list[dict[str, Any]]:
    space = Space(read_space(table, toml))
    stored = json.dumps(space.to_json())
    assert json.dumps(Space.from_json(json.loads(stored)).to_json()) == stored
    return [space.sample(np.random.default_rng(i)) for i in range(200)]


def test_everything_a_dict_can_say_holds_for_its_configurations() -> None:
    for c in drawn(ALL):
        assert c["units"] % 16 == 0
        assert ("drop" in c) == (c["layers"] > 1)
        assert not (c["units"] > 100 and c["layers"] >= 3)
        assert not (c["act"] == "tanh" and c["size"] != "s")
        assert c["shape"] in ((3, 3), (5, 5))
        assert c["data"] == "mnist"
    assert sum(c["act"] == "relu" for c in drawn(ALL)) > 150
    assert {c["units"] for c in drawn(ALL)} == {16, 32, 48, 64, 80, 96, 112, 128}
    assert np.std([c["shift"] for c in drawn(ALL)]) == pytest.approx(0.5, abs=0.1)


def test_a_dict_and_the_same_table_of_a_study_file_are_one_space() -> None:
    table = json.loads(json.dumps(ALL)) | {"lr": {"float": [1e-5, 1e-1], "log": True}, "layers": {"int": [1, 4]}}
    assert read_space(table, toml=True).to_serialized_dict() == read_space(ALL).to_serialized_dict()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            [1e-5, 1e-1, "log"],
            "lr=[1e-05, 0.1, 'log']: this could be a range or a choice: write (1e-05, 0.1, 'log') fo",
        ),
        ([1e-5, 1e-1, "log"], "or {'choice': [1e-05, 0.1, 'log']} to choose"),
        (
            "oops",
            "lr='oops': write (lower, upper) or (lower, upper, 'log') for a range, a list for choices, {'constant",
        ),
        (7, "{'constant': 7} for a constant"),
        (None, "{'constant': None} for a constant"),
        ({1, 2}, "write (lower, upper)"),
        (range(3), "write (lower, upper)"),
        (np.arange(3), "write (lower, upper)"),
        (
            scipy.stats.gamma(2, scale=3),
            "lr=gamma(2, scale=3): bohb cannot read this distribution; write a range (lower, upper)",
        ),
        ({"choices": [1, 2]}, "it must have exactly one of float, int, choice, ordinal, constant"),
        ({"float": [0, 1], "int": [0, 1]}, "it must have exactly one of"),
        (
            {"float": [0, 1], "weights": [1, 2]},
            "unknown key 'weights'; besides float there may be if, log, normal, step",
        ),
        ({"float": [0, 1], "log": 1}, "log must be true or false, not 1"),
        ({"float": [0, 1, 2]}, "float must have two numbers, [lower, upper]"),
        ({"int": [0.5, 1]}, "int must have two whole numbers"),
        ({"float": [0, 1], "if": "y > 1"}, "lr.if='y > 1': 'y' is not a hyperparameter of this space; it has lr, x"),
        ({"float": [0, 1], "if": 3}, "a clause must be a string"),
        ({"float": [0, 1], "normal": [0, 0]}, "normal must be [mean, standard deviation]"),
        ({"float": [0, 1], "normal": [0, math.inf]}, "normal must be [mean, standard deviation]"),
        ({"choice": ["a", "b"], "weights": [1]}, "weights must have a number for each of the choices"),
        ({"int": [0, 10], "step": 3}, "steps of 3 from 0 do not reach 10; the last value is 9"),
        ({"float": [0, 1], "step": 0.3}, "steps of 0.3 from 0 do not reach 1; the last value is 0.9"),
        ({"int": [0, 10], "step": 0.5}, "step must be a positive whole number, at most upper - lower"),
        ({"float": [0, 1], "step": 2}, "step must be a positive number, at most upper - lower"),
        ({"float": [0.1, 1.1], "step": 0.5, "log": True}, "the lower bound must be larger than half a step"),
        ((1, 5, "lg"), "a range is (lower, upper) or (lower, upper, 'log'), or in steps {'int'"),
        ((0, 10**400), "ConfigSpace cannot represent this range"),
        ([], "lr=[]: choice must be a list of at least one value"),
        ({"choice": []}, "choice must be a list of at least one value"),
        (["x", "y", "x"], "lr=['x', 'y', 'x']: it has 'x' twice; give each value once"),
        ([True, 1], "it has True and 1, which are equal; give each value once"),
        ({"choice": [2, 2.0]}, "it has 2 and 2.0, which are equal"),
    ],
)
def test_what_is_ambiguous_or_wrong_is_refused_with_what_to_write_instead(value: Any, message: str) -> None:
    with pytest.raises(InvalidSpace, match=re.escape(message)):
        Space({"lr": value, "x": (0.0, 1.0)})


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        (["x >"], "forbidden=['x >']: it ends where a value should follow"),
        (["x != 1"], "'!=' cannot be forbidden; list the other values: x in [...]"),
        ("x > 1", "it must be a list of clauses such as ["),
        (["x >= 0"], "10000 random configurations were all ruled out; loosen the clauses"),
    ],
)
def test_a_bad_forbidden_clause_is_refused(clauses: Any, message: str) -> None:
    with pytest.raises(InvalidSpace, match=re.escape(message)):
        Space({"x": (0.0, 1.0), "forbidden": clauses})


def test_conditions_in_a_circle_are_named() -> None:
    table = {"a": {"float": [0, 1], "if": "b > 0.5"}, "b": {"float": [0, 1], "if": "a > 0.5"}}
    with pytest.raises(InvalidSpace, match="the conditions of a, b depend on each other in a circle"):
        Space(table)


def test_a_long_chain_of_conditions_is_refused_instead_of_taking_hours() -> None:
    table: dict[str, Any] = {"h0": ["a", "b"]}
    for n in range(1, 30):
        table[f"h{n}"] = {"choice": ["a", "b"], "if": f"h{n - 1} == 'a'"}
    with pytest.raises(InvalidSpace, match="'h15' depends on a chain of more than 14 conditions"):
        Space(table)


def test_a_hyperparameter_may_be_called_forbidden_if_it_is_no_list() -> None:
    assert Space({"forbidden": {"choice": ["a", "b"]}}).names == ("forbidden",)


def test_a_default_that_is_forbidden_is_replaced_and_the_rest_of_it_stays() -> None:
    table = {"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0, 10), "forbidden": ["x >= 0.5", "y <= x"]}
    default = Space(table).default()
    assert default["x"] < 0.5
    assert default["y"] > default["x"]
    assert default["z"] == 5
    assert Space(table).default() == default


def test_lists_are_choices_and_tuples_are_ranges() -> None:
    space = Space({"a": [True, False], "b": [1, 2], "c": ["log", 1], "d": [0.1, 0.5], "e": [5], "f": (1, 2)})
    assert [scale.name for scale in space.dimensions] == ["a", "b", "c", "d", "f"]
    assert lines(space)[1:3] == ["b  choice    1, 2", "c  choice    'log', 1"]


DISTRIBUTIONS: list[tuple[Any, str]] = [
    (scipy.stats.loguniform(1e-5, 1e-1), "float     1e-05 to 0.1, log scale"),
    (scipy.stats.uniform(2, 3), "float     2 to 5"),
    (scipy.stats.randint(1, 10), "integer   1 to 9"),
    (scipy.stats.norm(1, 2), "float     -5.18 to 7.18, with a prior"),
    (FloatDistribution(1e-5, 1e-1, log=True), "float     1e-05 to 0.1, log scale"),
    (FloatDistribution(0, 1, step=0.25), "float     0 to 1 in steps of 0.25"),
    (IntDistribution(1, 9), "integer   1 to 9"),
    (IntDistribution(2, 8, step=2), "integer   2 to 8 in steps of 2"),
    (IntDistribution(1, 100, log=True), "integer   1 to 100, log scale"),
    (CategoricalDistribution(["a", 1]), "choice    'a', 1"),
]


@pytest.mark.parametrize(("distribution", "words"), DISTRIBUTIONS)
def test_a_distribution_of_scipy_or_optuna_is_read(distribution: Any, words: str) -> None:
    assert lines(Space({"a": distribution, "x": (0, 1)}))[0] == f"a  {words}"


def test_a_domain_of_ray_tune_is_read() -> None:
    tune = pytest.importorskip("ray.tune")
    for domain, words in (
        (tune.uniform(0, 1), "float     0 to 1"),
        (tune.loguniform(1e-4, 1), "float     0.0001 to 1, log scale"),
        (tune.quniform(0, 1, 0.25), "float     0 to 1 in steps of 0.25"),
        (tune.qloguniform(0.001, 0.1, 0.0005), "float     0.001 to 0.1 in steps of 0.0005, log scale"),
        (tune.randint(1, 10), "integer   1 to 9"),
        (tune.qrandint(2, 9, 2), "integer   2 to 8 in steps of 2"),
        (tune.lograndint(1, 101), "integer   1 to 100, log scale"),
        (tune.choice(["a", 1]), "choice    'a', 1"),
        (tune.randn(1, 2), "float     -5.18 to 7.18, with a prior"),
    ):
        assert lines(Space({"a": domain, "x": (0, 1)}))[0] == f"a  {words}"
    for unknown in (tune.sample_from(lambda _: 1), tune.qrandn(0, 1, 0.5)):
        with pytest.raises(InvalidSpace, match="bohb cannot read this distribution"):
            Space({"a": unknown, "x": (0, 1)})


def test_a_normal_distribution_is_drawn_as_scipy_draws_it() -> None:
    drawn = [
        c["a"] for c in (Space({"a": scipy.stats.norm(3, 2)}).sample(np.random.default_rng(i)) for i in range(999))
    ]
    assert scipy.stats.kstest(drawn, scipy.stats.norm(3, 2).cdf).pvalue > 0.01


STEPPED = [
    Numeric("n", 16, 512, integer=True, step=16),
    Numeric("n", 16, 512, log=True, integer=True, step=16),
    Numeric("n", -0.3, 1.2, step=0.1),
    Numeric("n", 0.001, 0.1, log=True, step=0.0005),
    Numeric("n", 0, 5, step=1),
]


@given(st.sampled_from(STEPPED), st.floats(0, 1))
def test_values_with_a_step_are_decoded_encoded_and_snapped_alike(scale: Numeric, u: float) -> None:
    assume(abs(u * bins(scale) % 1 - 0.5) < 0.49)  # not on the edge between two values
    value = scale.decode(u)
    steps = (value - scale.lower) / scale.step
    assert steps == pytest.approx(round(steps), abs=1e-6)
    assert scale.decode(scale.encode(value)) == value
    entry = {"int" if scale.integer else "float": [scale.lower, scale.upper], "step": scale.step, "log": scale.log}
    if scale.integer:
        entry["step"] = int(scale.step)
    space = Space({"n": entry})
    assert space.snap(np.array([[u]]))[0, 0] == pytest.approx(space.encode({"n": value})[0], abs=1e-11)


def test_a_space_of_steps_is_finite_and_names_what_lies_between_them() -> None:
    space = Space({"a": {"float": [0, 1], "step": 0.25}, "b": {"int": [1, 7], "step": 3}})
    assert (space.finite, space.size) == (True, 15)
    assert [config["a"] for config in space.enumerate(15)][::3] == [0, 0.25, 0.5, 0.75, 1]
    with pytest.raises(InvalidConfiguration, match=re.escape("a=0.3 must be 0.0 plus a multiple of 0.25")):
        space.encode({"a": 0.3, "b": 1})


RIGHT = (
    '"a": (1, 8), "b": (1e-5, 0.1, "log"), "c": ["x", 1], "d": {"int": [1, 9], "step": 2, "if": "a > 1"}, '
    '"e": Float("e", (0, 1)), "f": FloatDistribution(0, 1), "forbidden": ["a > 3"]'
)
WRONG = ('"oops"', '(1, 5, "lg")', '{"int": [1, 9], "stop": 2}', '("a", "b")', "7")


def test_mypy_refuses_a_space_that_cannot_be_read(tmp_path: Path) -> None:
    lines = ["from ConfigSpace import Float", "from optuna.distributions import FloatDistribution", "import bohb"]
    lines += [f"right: bohb.SpaceDict = {{{RIGHT}}}", "bohb.BOHB(right, budgets=[1])"]
    lines += [f'wrong{i}: bohb.SpaceDict = {{"x": {value}}}' for i, value in enumerate(WRONG)]
    (tmp_path / "use.py").write_text("\n".join(lines))
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "use.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache" / "use")},
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert re.findall(r"use\.py:(\d+): error", ran.stdout) == [str(6 + i) for i in range(len(WRONG))], ran.stdout


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
    assert sorted(lines(Space(cs))) == [
        "act     choice    'relu', 'tanh', weighted",
        "drop    float     0 to 0.5, with a prior, if layers > 1 and (act == 'relu' or size in ['s'])",
        "k       constant  7",
        "layers  integer   1 to 4",
        "lr      float     1e-05 to 0.1, log scale",
        "size    ordinal   's' < 'm'",
    ]
