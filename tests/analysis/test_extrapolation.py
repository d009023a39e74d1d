"""The valley of the loss over sizes: what it recommends, how certain it is, and what it warns of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bohb.analysis.extrapolation import Kind, SizedRun, extrapolated
from bohb.analysis.valley import Runs, Valley, fitted
from bohb.errors import InvalidArgument

KINDS: dict[str, Kind] = {"lr": "log", "width": "log", "drop": "linear", "act": "choice"}


def optimum(params: float) -> tuple[float, float]:
    """Power laws: the best learning rate falls with the size, the best width grows."""
    return 0.3 * params**-0.4, 2.0 * params**0.25


def loss(config: dict[str, Any], params: float) -> float:
    lr, width = optimum(params)
    bowl = 0.03 * math.log(config["lr"] / lr) ** 2 + 0.05 * math.log(config["width"] / width) ** 2
    bowl += 0.1 * (config["drop"] - 0.3) ** 2 + (0.02 if config["act"] == "relu" else 0.0)
    return float((1.5 + 30 * params**-0.3) * math.exp(bowl))


def runs(sizes: tuple[float, ...], n: int, seed: int = 0, noise: float = 0.002) -> list[SizedRun]:
    rng = np.random.default_rng(seed)
    found = []
    for params in sizes:
        lr, width = optimum(params)
        for _ in range(n):
            config = {
                "lr": lr * math.exp(rng.normal(0, 1)),
                "width": width * math.exp(rng.normal(0, 1)),
                "drop": float(rng.uniform(0, 0.6)),
                "act": str(rng.choice(["relu", "gelu"])),
            }
            found.append(
                SizedRun(config, {"params": params}, loss(config, params) * math.exp(rng.normal(0, noise)), params)
            )
    return found


SMALL = (1e5, 4e5, 1.6e6)


@pytest.mark.parametrize("seed", range(5))
def test_the_recommendation_is_nearly_as_good_as_the_optimum_of_a_size_ten_times_as_large(seed: int) -> None:
    found = extrapolated(runs(SMALL, 40, seed), {"params": 1.6e7}, KINDS)
    lr, width = optimum(1.6e7)
    best = loss({"lr": lr, "width": width, "drop": 0.3, "act": "gelu"}, 1.6e7)
    moved = {**found.config, "drop": 0.3}
    assert loss(moved, 1.6e7) < 1.003 * best
    assert found.config["act"] == "gelu"
    reused = {**min(runs(SMALL, 40, seed)[80:], key=lambda run: run.loss).config, "drop": 0.3}
    assert loss(moved, 1.6e7) < loss(reused, 1.6e7)


def test_nine_of_ten_intervals_of_the_loss_and_of_the_optimum_hold() -> None:
    """Forty studies of power laws with an offset, which the model only approximates."""
    lr, width = optimum(1.6e7)
    hits = []
    for seed in range(40):
        found = extrapolated(runs(SMALL, 30, seed), {"params": 1.6e7}, KINDS)
        true = loss(found.config, 1.6e7)
        hits.append(
            [
                found.loss_interval[0] <= true <= found.loss_interval[1],
                found.config_intervals["lr"][0] <= lr <= found.config_intervals["lr"][1],
                found.config_intervals["width"][0] <= width <= found.config_intervals["width"][1],
            ]
        )
    assert (np.mean(hits, axis=0) >= 0.8).all()  # 32 of 40: with a coverage of 0.9, fewer have a probability of 0.04


def test_runs_that_diverged_change_little() -> None:
    good = runs(SMALL, 30)
    wild = [SizedRun({**run.config, "lr": 100 * run.config["lr"]}, run.scale, 40 * run.loss) for run in good[::10]]
    one, other = (extrapolated(each, {"params": 1.6e7}, KINDS) for each in (good, good + wild))
    assert other.config["lr"] == pytest.approx(one.config["lr"], rel=0.25)
    assert other.loss == pytest.approx(one.loss, rel=0.02)


def test_the_order_of_runs_does_not_matter() -> None:
    some = runs(SMALL, 20)
    one, other = (extrapolated(each, {"params": 1.6e7}, KINDS) for each in (some, some[::-1]))
    assert other.config["lr"] == pytest.approx(one.config["lr"], rel=1e-4)
    assert other.loss == pytest.approx(one.loss, rel=1e-5)


def test_only_the_named_hyperparameters_move() -> None:
    found = extrapolated(runs(SMALL, 30), {"params": 1.6e7}, KINDS, moves=["lr"])
    assert list(found.config_intervals) == list(found.moving) == ["lr"]
    largest = min((run for run in runs(SMALL, 30) if run.scale["params"] == SMALL[-1]), key=lambda run: run.loss)
    assert found.config["width"] == largest.config["width"]


def test_whole_numbers_stay_whole() -> None:
    some = [
        SizedRun({**run.config, "width": round(run.config["width"])}, run.scale, run.loss) for run in runs(SMALL, 30)
    ]
    assert isinstance(extrapolated(some, {"params": 1.6e7}, KINDS).config["width"], int)


def test_costs_are_extrapolated_as_a_power_law() -> None:
    found = extrapolated(runs(SMALL, 20), {"params": 1.6e7}, KINDS)
    assert found.cost == pytest.approx(20 * sum(SMALL))
    assert found.cost_of_search == pytest.approx(20 * 1.6e7, rel=1e-3)


def test_it_says_what_makes_an_answer_doubtful() -> None:
    two = extrapolated(runs(SMALL[:2], 30), {"params": 1.6e7}, KINDS)
    assert "params has two values only: whether the trend is a power law cannot be seen" in two.warnings
    low = [run for run in runs(SMALL, 40) if run.config["lr"] > 1.2 * optimum(run.scale["params"])[0]]
    edge = extrapolated(low, {"params": 1.6e7}, KINDS)
    assert any("the optimum of lr lies on the edge of what was tried" in text for text in edge.warnings)
    bent = [
        SizedRun(r.config, r.scale, r.loss * (1.3 if r.scale["params"] > 1e6 else 1.0))
        for r in runs((1e5, 2e5, 4e5, 8e5, 1.6e6), 20)
    ]
    assert any("contradict" in text for text in extrapolated(bent, {"params": 1.6e7}, KINDS).warnings)
    assert not extrapolated(runs(SMALL, 40), {"params": 3e6}, KINDS).warnings


@pytest.mark.parametrize(
    ("given", "kinds", "moves", "message"),
    [
        (runs(SMALL, 3), KINDS, None, "9 runs succeeded; an extrapolation needs at least 10"),
        (runs(SMALL[:1], 30), KINDS, None, "needs at least two sizes"),
        (runs(SMALL, 10), {"act": "choice"}, None, "no hyperparameter follows the size"),
        (runs(SMALL, 10), KINDS, ["act"], "moves='act' must be a hyperparameter whose value is a number"),
    ],
)
def test_what_cannot_be_extrapolated_is_refused(
    given: list[SizedRun], kinds: dict[str, Kind], moves: list[str] | None, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        extrapolated(given, {"params": 1.6e7}, kinds, moves)


def test_deviations_grow_with_the_distance_to_the_runs() -> None:
    rng = np.random.default_rng(0)
    s = np.repeat(np.log(SMALL), 30)[:, None]
    x = rng.normal(size=(90, 1)) - 0.4 * s
    none = np.zeros((90, 0))
    sized = Runs(x, np.array([True]), none, s, 1 - 0.1 * s[:, 0] + 0.05 * (x[:, 0] + 0.4 * s[:, 0]) ** 2)
    valley = fitted(sized)
    near, far = (valley.level(np.log([size]))[1] for size in (2e6, 1e9))
    assert near < far
    assert valley.factor >= Valley(sized).factor == 1.0
