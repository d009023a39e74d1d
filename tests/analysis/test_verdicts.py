"""What is said about the best result: its noise, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bohb import BOHB, Outcome, Status
from bohb.analysis.verdicts import edges, known_noise, lead_within_noise, remarks
from bohb.core.confirm import continued
from bohb.core.confirm_estimate import conclusion, planned
from bohb.core.events import RepeatFinished


def study(losses: Sequence[float], preset: str = "paper", space: dict[str, object] | None = None) -> BOHB:
    optimizer = BOHB(space or {"x": (0.0, 1.0)}, budgets=[1], seed=1, preset=preset, duplicates=True)  # type: ignore[arg-type]
    for loss in losses:
        optimizer.tell(optimizer.ask(), loss)
    return optimizer


def test_nothing_is_said_while_the_noise_is_unknown() -> None:
    found = study([1.0, 1.001, 3.0]).history
    assert known_noise(found) is None
    assert lead_within_noise(found) is None


@pytest.mark.parametrize(
    ("second", "spread", "said"),
    [
        (1.2, 0.5, "the next best, trial 1, is 0.2 behind: within the noise, since single evaluations deviate"),
        (1.2, 0.001, ""),
        (1.0, 0.5, "trial 1 has the same result with another configuration"),
    ],
)
def test_the_noise_of_a_confirmation_decides(second: float, spread: float, said: str) -> None:
    history = study([1.0, second, 3.0]).history
    history.apply(planned(history, 3, 2, None))
    found = history.confirmations[0]
    for candidate in range(3):
        for repeat in range(2):
            outcome = Outcome(Status.OK, loss=1.0 + candidate + spread * repeat)
            found = continued(found, RepeatFinished(0, candidate, repeat, outcome))
    history.confirmations[0] = continued(found, conclusion(found, 1))
    line = lead_within_noise(history) or ""
    assert bool(line) == bool(said)
    assert line.startswith(said)


def test_repetitions_show_the_noise() -> None:
    history = study([1.0, 1.5, 3.0, 2.6, 1.1, 1.9, 2.0, 2.2], space={"k": ["a", "b"]}).history
    noise = known_noise(history)
    assert noise is not None
    assert noise[1] == "measured by repeated evaluations"
    assert lead_within_noise(history) is not None


def test_the_gaussian_process_estimates_the_noise() -> None:
    rows = [0.1 * ((7 * i) % 5) for i in range(14)]  # unrelated to x
    noise = known_noise(study(rows, "best").history)
    assert noise is not None
    assert noise[1] == "estimated by the model"
    assert 0.01 < noise[0] < 1


def latencies(*results: tuple[float, float, float]) -> list[str]:
    """The remarks on a study that bounds a latency: results as (budget, loss, latency), one configuration each."""
    optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1, 3, 9], seed=1, constraints={"latency": "<= 12"})
    for at, (budget, loss, latency) in enumerate(results):
        optimizer.enqueue({"x": (1 + at) / 10}, budget)
        trial = optimizer.ask()
        assert trial.budget == budget
        optimizer.tell(trial, {"loss": loss, "latency": latency})
    return remarks(optimizer.history)


def test_nothing_is_said_about_a_result_on_the_largest_budget_that_keeps_the_constraints() -> None:
    assert latencies((9, 0.5, 11.0), (9, 0.1, 20.0), (3, 0.1, 5.0)) == []


def test_it_is_said_that_no_result_on_the_largest_budget_keeps_the_constraints_and_which_is_nearest() -> None:
    assert latencies((3, 0.1, 11.0), (9, 0.2, 42.125), (9, 0.3, 34.8125)) == [
        "no result on budget 9 keeps the constraints; the nearest is trial 2 (latency 34.8125, not <= 12)"
    ]


def test_it_is_said_that_no_result_at_all_keeps_the_constraints() -> None:
    assert latencies((9, 0.2, 14.0), (9, 0.3, 13.0), (3, 0.1, 12.5)) == [
        "no result keeps the constraints; the nearest is trial 1 (latency 13, not <= 12)"
    ]


def test_it_is_said_that_the_best_result_is_not_on_the_largest_budget_and_why() -> None:
    optimizer = BOHB({"x": (0.0, 1.0)}, budgets=[1, 3], seed=1)
    assert remarks(optimizer.history) == [], "there is no best result"
    optimizer.tell(optimizer.ask(), 0.5)
    said = "the best result is not on the largest budget, 3: "
    assert remarks(optimizer.history) == [f"{said}no trial there has finished"]
    for _ in range(2):
        optimizer.enqueue({"x": 0.25 + 0.125 * len(optimizer.history.trials)}, 3)
        optimizer.tell(optimizer.ask(), ValueError("out of memory"))
    assert remarks(optimizer.history) == [f"{said}all 2 trials there failed"]
    optimizer.enqueue({"x": 0.9}, 3)
    optimizer.tell(optimizer.ask(), 0.75)
    assert remarks(optimizer.history) == []


SPACE = {
    "lr": (1e-5, 0.1, "log"), "batch": (16, 256), "penalty": (0.0, 10.0), "dropout": (0.0, 1.0), "layers": (1, 8),
    "few": (2, 4), "width": (1, 512, "log"), "act": ["a", "b"],
}  # fmt: skip
INSIDE = {"lr": 1e-3, "batch": 32, "penalty": 1.0, "dropout": 0.5, "layers": 3, "few": 3, "width": 64, "act": "a"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"batch": 16}, ["batch = 16 is the smallest allowed: widen the range?"]),
        ({"batch": 17}, []),
        ({"penalty": 10.0}, ["penalty = 10 is the largest allowed: widen the range?"]),
        ({"penalty": 9.999}, ["penalty = 9.999 is close to 10, the largest allowed: widen the range?"]),
        ({"penalty": 9.9}, []),
        ({"lr": 1.002e-5}, ["lr = 1.002e-05 is close to 1e-05, the smallest allowed: widen the range?"]),
        ({"lr": 1.1e-5}, []),
        (
            {"dropout": 0.0, "layers": 1, "width": 1, "penalty": 0.0},
            [],
        ),  # nothing lies beyond none of it, or a single one
        ({"dropout": 1.0}, []),
        ({"layers": 8}, ["layers = 8 is the largest allowed: widen the range?"]),
        ({"few": 4, "act": "b"}, []),  # by chance
        ({"lr": 0.1, "batch": 256}, ["lr = 0.1 is the largest", "batch = 256 is the largest"]),
    ],
)
def test_values_on_the_edge_of_their_range_are_named(changed: Mapping[str, Any], said: list[str]) -> None:
    history = BOHB(SPACE, budgets=[1], seed=1).history
    found = sorted(edges(history, {**INSIDE, **changed}))
    assert len(found) == len(said)
    assert all(line.startswith(start) for line, start in zip(found, sorted(said), strict=True)), found


def test_only_ordinal_numbers_have_an_edge() -> None:
    from ConfigSpace import ConfigurationSpace, OrdinalHyperparameter

    space = ConfigurationSpace()
    space.add(OrdinalHyperparameter("units", [16, 32, 64, 128, 256]), OrdinalHyperparameter("size", list("SMLXY")))
    history = BOHB(space, budgets=[1], seed=1).history
    assert edges(history, {"units": 256, "size": "Y"}) == ["units = 256 is the largest allowed: widen the range?"]
    assert edges(history, {"units": 64, "size": "S"}) == []


def test_the_edges_are_those_of_the_confirmed_winner() -> None:
    history = study([1.0, 1.2], space={"n": (1, 9)}).history
    history.apply(planned(history, 2, 2, {"n": 9}))
    found = history.confirmations[0]
    for candidate in range(3):
        for repeat in range(2):
            outcome = Outcome(Status.OK, loss=3.0 - candidate + 0.01 * repeat)
            found = continued(found, RepeatFinished(0, candidate, repeat, outcome))
    history.confirmations[0] = continued(found, conclusion(found, 1))
    assert history.confirmations[0].config == {"n": 9}, "the default wins"
    assert remarks(history) == ["n = 9 is the largest allowed: widen the range?"]
