"""What an objective may return, and what happens with other values."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from bohb import Origin, Outcome, Status, Trial
from bohb.core.settings import PRESETS, Settings
from bohb.core.trial import jsonable, outcome_of
from bohb.errors import BohbError, InvalidArgument, InvalidResult


@pytest.mark.parametrize(
    "loss", [0.5, 1, -3, 0, np.float32(0.5), np.float64(2), np.int64(3), np.float16(1), Fraction(1, 3), 1e300]
)
def test_real_numbers_are_losses(loss: Any) -> None:
    outcome = outcome_of(loss)
    assert outcome == Outcome(Status.OK, loss=float(loss))
    assert type(outcome.loss) is float


@pytest.mark.parametrize(
    "loss", [math.nan, math.inf, -math.inf, np.float32("nan"), np.float64("-inf"), {"loss": math.nan}, 10**400]
)
def test_nan_and_infinities_are_failed_evaluations(loss: Any) -> None:
    outcome = outcome_of(loss)
    assert outcome.status is Status.DIVERGED
    assert outcome.loss is None
    assert outcome.ranking_loss == math.inf


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (None, "loss=None is of type NoneType.*without a return"),
        ("0.5", "loss='0.5' is of type str"),
        (1 + 2j, "is of type complex"),
        (True, "loss=True is of type bool"),
        (np.True_, "is of type bool"),
        (np.array([0.5]), r"is of type ndarray.*call \.item\(\)"),
        (np.array(0.5), r"call \.item\(\)"),
        ([0.5], "is of type list"),
        ((0.5, 1), "is of type tuple"),
        (Decimal("0.5"), "is of type Decimal"),
        (object(), "is of type object"),
        ({}, "has no 'loss'"),
        ({"los": 1}, "has no 'loss'.*'los'"),
        ({"loss": None}, "loss=None"),
        ({"loss": "x"}, "loss='x'"),
        ({"loss": 1, "cost": "much"}, "cost='much'"),
        ({"loss": 1, "cost": -1}, "cost=-1.0 must be a finite number, at least 0"),
    ],
)
def test_anything_else_is_refused_with_value_type_and_way_out(result: Any, message: str) -> None:
    with pytest.raises(InvalidResult, match=message) as caught:
        outcome_of(result)
    assert isinstance(caught.value, BohbError)


def test_a_dict_carries_info_and_cost() -> None:
    info = {"acc": np.float32(0.5), "curve": np.arange(3), 1: {"nan": math.nan}, "object": object, "set": {1}}
    outcome = outcome_of({"loss": np.float32(0.25), "info": info, "cost": np.int64(7), "extra": "kept"})
    assert (outcome.loss, outcome.cost) == (0.25, 7.0)
    text = json.dumps(outcome.info, allow_nan=False)
    assert json.loads(text) == {
        "acc": 0.5,
        "curve": [0, 1, 2],
        "1": {"nan": "nan"},
        "object": "<class 'object'>",
        "set": [1],
        "extra": "kept",
    }
    assert outcome_of({"loss": 1, "info": "text"}).info == {"info": "text"}


def test_an_exception_is_a_crash_with_its_traceback() -> None:
    def objective() -> None:
        raise ValueError("out of\nmemory")

    try:
        objective()
    except ValueError as error:
        outcome = outcome_of(error)
    assert outcome.status is Status.CRASHED
    assert outcome.error == "ValueError: out of memory"
    assert outcome.traceback is not None
    assert "in objective" in outcome.traceback


def test_an_exception_that_cannot_be_shown_is_recorded_all_the_same() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    outcome = outcome_of(Silent())
    assert outcome.error == "Silent: <Silent whose str raises RuntimeError>"


def test_an_outcome_has_a_loss_exactly_when_it_is_ok() -> None:
    assert outcome_of(Outcome(Status.LOST)).status is Status.LOST
    for status, loss in [(Status.OK, None), (Status.OK, math.nan), (Status.CRASHED, 1.0)]:
        with pytest.raises(InvalidArgument, match="a loss must be finite"):
            Outcome(status, loss=loss)


def test_deep_and_huge_info_is_cut() -> None:
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    assert len(json.dumps(jsonable(deep))) < 1000
    assert len(jsonable(object())) <= 200
    assert len(jsonable(np.zeros(100_000))) <= 200


def test_the_defaults_are_the_papers() -> None:
    assert Settings().random_fraction == pytest.approx(1 / 3)
    assert (Settings().good_fraction, Settings().num_samples, Settings().min_points) == (0.15, 64, None)
    assert (Settings().bandwidth_factor, Settings().min_bandwidth) == (3, 1e-3)
    assert Settings.from_json(json.loads(json.dumps(PRESETS["hpbandster"].to_json()))) == PRESETS["hpbandster"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("random_fraction", -0.1),
        ("random_fraction", 1.1),
        ("random_fraction", "x"),
        ("random_fraction", math.nan),
        ("good_fraction", 0),
        ("good_fraction", 1),
        ("num_samples", 0),
        ("num_samples", 1.5),
        ("min_points", 0),
        ("min_points", True),
        ("bandwidth_factor", 0),
        ("min_bandwidth", 0),
        ("bracket_sizes", "huge"),
        ("start_order", "random"),
        ("overlap", 1),
    ],
)
def test_bad_settings_are_refused_by_name_and_value(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}={value!r} must"):
        Settings(**{name: value})


def test_unknown_settings_are_refused_by_name() -> None:
    for change in (Settings.from_json, Settings().changed):
        with pytest.raises(InvalidArgument, match="unknown settings \\['rho'\\]"):
            change({"rho": 0.5})


@pytest.mark.parametrize("step", [math.nan, math.inf, 10**400, "1", True])
def test_a_point_of_a_learning_curve_has_a_finite_step_and_may_have_a_loss_that_diverged(step: Any) -> None:
    points: list[tuple[float, float]] = []
    trial = Trial(0, {}, 1.0, 0, 0, 0, 0, Origin.RANDOM, reporter=lambda *point: points.append(point))
    trial.report(1, math.inf)
    with pytest.raises(InvalidResult, match="step="):
        trial.report(step, 0.5)
    assert points == [(1.0, math.inf)]
