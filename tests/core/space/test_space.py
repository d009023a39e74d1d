"""A compiled space agrees with the ConfigSpace it came from."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from ConfigSpace import Configuration, ConfigurationSpace, EqualsCondition, Float, ForbiddenEqualsClause
from hypothesis import given
from hypothesis import strategies as st

from bohb.core.space import Space
from bohb.core.space.scales import Categorical, Numeric
from bohb.errors import ForbiddenConfiguration, InvalidConfiguration, InvalidSpace
from tests.core import spaces

SPACES = {name: Space(make()) for name, make in spaces.ALL.items()}
names = st.sampled_from(sorted(SPACES))


def vector(space: Space, uniform: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([math.floor(u * c) if c else u for u, c in zip(uniform, space.choices, strict=False)], dtype=float)


@given(names, st.lists(spaces.unit, min_size=20, max_size=20))
def test_decode_yields_only_legal_configurations_of_the_configspace(name: str, uniform: list[float]) -> None:
    space = SPACES[name]
    try:
        config = space.decode(vector(space, uniform))
    except ForbiddenConfiguration:
        return
    Configuration(space.configspace, values=config).check_valid_configuration()


@given(names, st.lists(spaces.unit, min_size=20, max_size=20))
def test_decode_after_encode_is_the_identity(name: str, uniform: list[float]) -> None:
    space = SPACES[name]
    try:
        config = space.decode(vector(space, uniform))
    except ForbiddenConfiguration:
        return
    again = space.decode(np.nan_to_num(space.encode(config), nan=0.0))
    assert again == config
    assert list(map(type, again.values())) == list(map(type, config.values()))


@given(names, st.integers(0, 2**32 - 1))
def test_encode_after_decode_is_the_snapped_vector(name: str, seed: int) -> None:
    space = SPACES[name]
    raw = vector(space, list(np.random.default_rng(seed).random(space.d)))
    snapped = space.snap(raw[None, :])[0]
    try:
        encoded = space.encode(space.decode(raw))
    except ForbiddenConfiguration:
        return
    np.testing.assert_allclose(encoded, snapped, atol=1e-11)


@pytest.mark.parametrize("name", sorted(SPACES))
def test_what_configspace_samples_can_be_encoded_and_decoded(name: str) -> None:
    space = SPACES[name]
    space.configspace.seed(3)
    for configuration in space.configspace.sample_configuration(200):
        config = dict(configuration)
        decoded = space.decode(np.nan_to_num(space.encode(config), nan=0.0))
        assert decoded.keys() == config.keys()
        for key, value in config.items():
            assert decoded[key] == (pytest.approx(value, rel=1e-9, abs=1e-10) if isinstance(value, float) else value)


def test_a_constant_costs_no_dimension_and_is_in_every_configuration() -> None:
    space = Space({"x": (0.0, 1.0), "k": {"constant": 5}, "only": ["one"]})
    assert space.d == 1
    assert space.sample(np.random.default_rng(0)).items() >= {"k": 5, "only": "one"}.items()


def test_random_configurations_follow_the_priors() -> None:
    space = SPACES["mixed"]
    rng = np.random.default_rng(0)
    draws = [space.sample(rng) for _ in range(4000)]
    normal = np.array([config["normal"] for config in draws])
    assert normal.mean() == pytest.approx(3, abs=0.1)
    assert normal.std() == pytest.approx(1, abs=0.1)
    assert np.mean([config["weighted"] == "x" for config in draws]) == pytest.approx(0.9, abs=0.03)
    assert np.mean([config["beta"] for config in draws]) == pytest.approx(0.5 + 20 * 2 / 7, abs=0.4)
    assert np.mean([math.log10(config["log"]) for config in draws]) == pytest.approx(-3.5, abs=0.1)
    assert {config["int"] for config in draws} == {1, 2, 3}
    assert np.mean([config["int"] == 1 for config in draws]) == pytest.approx(1 / 3, abs=0.03)


@pytest.mark.parametrize("name", sorted(SPACES))
def test_random_configurations_are_legal_and_decided_by_the_generator(name: str) -> None:
    space = SPACES[name]
    draws = [space.sample(np.random.default_rng([7, i])) for i in range(100)]
    for config in draws:
        Configuration(space.configspace, values=config).check_valid_configuration()
    assert draws == [space.sample(np.random.default_rng([7, i])) for i in range(100)]


def test_integers_sit_at_the_centre_of_their_bin() -> None:
    assert [Numeric("n", 1, 3, integer=True).encode(k) for k in (1, 2, 3)] == pytest.approx([1 / 6, 1 / 2, 5 / 6])


def test_values_survive_text() -> None:
    space = SPACES["mixed"]
    for i in range(50):
        config = space.sample(np.random.default_rng(i))
        assert float(f"{config['log']:.12g}") == config["log"]
        assert space.restore(json.loads(json.dumps(config))) == config


@pytest.mark.parametrize("name", sorted(SPACES))
def test_a_space_survives_json(name: str) -> None:
    space = SPACES[name]
    again = Space.from_json(json.loads(json.dumps(space.to_json())))
    assert again.names == space.names
    for i in range(30):
        assert again.sample(np.random.default_rng(i)) == space.sample(np.random.default_rng(i))


def test_a_plain_dict_is_accepted() -> None:
    space = Space(
        {
            "lr": (1e-5, 1e-1, "log"),
            "mix": (0, 1.0),
            "n": (1, 8),
            "act": ["relu", None, True],
            "k": {"constant": "fixed"},
        }
    )
    hyperparameters: dict[str, Any] = dict(space.configspace)
    lr, mix, n = (hyperparameters[name] for name in ("lr", "mix", "n"))
    assert (lr.log, type(mix).__name__, type(n).__name__) == (
        True,
        "UniformFloatHyperparameter",
        "UniformIntegerHyperparameter",
    )
    assert space.d == 4
    assert Space({"x": Float("x", (0.0, 1.0))}).d == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({}, "the space is empty"),
        (ConfigurationSpace(), "the space is empty"),
        ({"k": {"constant": 1}}, "nothing to choose"),
        ([1, 2], "must be a dict or a ConfigSpace.ConfigurationSpace, not list"),
        (None, "not NoneType"),
        ({"x": (1, 2, 3)}, r"a range is \(lower, upper\)"),
        ({"x": (False, True)}, r"\[False, True\]"),
        ({"x": (5.0, 1.0)}, r"x=\(5.0, 1.0\): the bounds must be finite numbers, the lower one below the upper one"),
        ({"x": (0.0, math.nan)}, "the bounds must be finite"),
        ({"x": ("a", "b")}, "float must have two numbers"),
        ({"x": (0.0, 1.0, "log")}, "the lower bound must be positive"),
        ({1: (0, 1)}, "must be a string"),
        ({"y": Float("x", (0.0, 1.0))}, "its own name is 'x'"),
        ({"x": [print, len]}, "which JSON cannot store"),
    ],
)
def test_a_bad_space_is_refused_with_a_reason(bad: Any, message: str) -> None:
    with pytest.raises(InvalidSpace, match=message):
        Space(bad)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"x": 0.5, "z": 1}, "'z' is not a hyperparameter"),
        ({"n": 1, "c": "a"}, "'x' is missing"),
        ({"x": 2.0, "n": 1, "c": "a"}, "x=2.0 must lie between 0.0 and 1.0"),
        ({"x": "0.5", "n": 1, "c": "a"}, "must be a finite number, not str"),
        ({"x": math.nan, "n": 1, "c": "a"}, "finite"),
        ({"x": 0.5, "n": 1.5, "c": "a"}, "n=1.5 must be a whole number"),
        ({"x": 0.5, "n": True, "c": "a"}, "not bool"),
        ({"x": 0.5, "n": 1, "c": "q"}, r"c='q' must be one of \['a', 'b'\]"),
        ({"x": 0.5, "n": 1, "c": "a", "k": 4}, r"k=4 must be one of \[3\]"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config: dict[str, Any], message: str) -> None:
    space = Space({"x": (0.0, 1.0), "n": (1, 4), "c": ["a", "b"], "k": {"constant": 3}})
    with pytest.raises(InvalidConfiguration, match=message):
        space.encode(config)


def test_an_inactive_value_and_a_missing_active_one_are_refused() -> None:
    space = SPACES["conditional"]
    svm = {"algo": "svm", "c": 1.0, "kernel": "linear", "either": "p", "flag": "on"}
    assert not np.isnan(space.encode(svm)[0])
    with pytest.raises(InvalidConfiguration, match="condition does not hold"):
        space.encode({**svm, "gamma": 0.5})
    with pytest.raises(InvalidConfiguration, match="'gamma' is missing"):
        space.encode({**svm, "kernel": "rbf"})


def test_a_forbidden_configuration_is_never_decoded_and_never_drawn() -> None:
    space = SPACES["constrained"]
    with pytest.raises(ForbiddenConfiguration, match="ruled out by"):
        space.decode(np.array([0.95, 0.05, 0.0, 0.5]))
    for i in range(300):
        config = space.sample(np.random.default_rng(i))
        assert config["a"] <= config["b"]
        assert config["c"] != "z"


def test_a_space_whose_every_configuration_is_forbidden_says_so_instead_of_hanging() -> None:
    cs = ConfigurationSpace({"a": [1, 2], "x": (0.0, 1.0)})
    space = Space(cs)
    space._forbidden = (ForbiddenEqualsClause(cs["a"], 1), ForbiddenEqualsClause(cs["a"], 2))
    with pytest.raises(InvalidSpace, match="all forbidden"):
        space.sample(np.random.default_rng(0))


def test_a_constant_can_be_a_parent() -> None:
    cs = ConfigurationSpace({"k": 1, "x": (0.0, 1.0), "y": (0.0, 1.0)})
    cs.add(EqualsCondition(cs["y"], cs["k"], 1))
    assert set(Space(cs).sample(np.random.default_rng(0))) == {"k", "x", "y"}


def test_true_and_one_are_different_choices() -> None:
    scale = Categorical("c", (True, 2), (0.5, 1.0))
    assert scale.encode(True) == 0
    with pytest.raises(InvalidConfiguration):
        scale.encode(1)


@pytest.mark.parametrize("bad", [[0.5], [0.5, 2.0], [0.5, math.nan], [-0.1, 0.5]])
def test_a_vector_outside_the_unit_cube_is_refused(bad: list[float]) -> None:
    with pytest.raises(InvalidConfiguration):
        Space({"x": (0.0, 1.0), "y": (0.0, 1.0)}).decode(bad)


def test_the_size_of_a_space_counts_its_configurations() -> None:
    space = Space({"a": (1, 3), "b": ["x", "y"], "k": ["one"]})
    assert (space.size, space.finite) == (6, True)
    assert (SPACES["mixed"].size, SPACES["mixed"].finite) == (math.inf, False)
