"""Studies for the tests of tables and plots, driven by ask and tell."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ConfigSpace import ConfigurationSpace

from bohb import BOHB, History, Outcome, Trial
from bohb.core.trial import Status, outcome_of
from bohb.plots.registry import Plot, suitable
from tests.core import spaces

HOSTILE = "<script>alert(1)</script>"
XY: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
Results = Callable[[Trial], object]


class Watch:
    """A clock that tests set by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def play(optimizer: BOHB, n: int, result: Results, watch: Watch | None = None) -> BOHB:
    """Run n trials one after the other; with a watch each takes as many seconds as its budget and starts every 10 s."""
    for _ in range(n):
        trial = optimizer.ask()
        outcome = outcome_of(result(trial), trial.goals)
        if watch is not None:
            outcome = replace(
                outcome, started=watch.now, finished=watch.now + trial.budget, worker=f"host/{trial.number % 2}"
            )
            watch.now += 10
        optimizer.tell(trial, outcome)
    return optimizer


def tiny(times: bool = True) -> BOHB:
    """Six trials on budgets 1 and 3; η = 3 gives brackets of 3 → 1 and 2 configurations.

    Trials 0, 1, 2 on budget 1 have the losses 0.5, 0.2 and a crash; 1 is promoted and becomes trial 3 with 0.1 on
    budget 3; 4 and 5 start on budget 3 with 0.3 and 0.05.
    """
    watch = Watch()
    results: list[object] = [0.5, 0.2, ValueError("bad x = 0.25"), 0.1, 0.3, {"loss": 0.05, "cost": 2.5}]
    optimizer = BOHB(XY, budgets=[1, 3], eta=3, seed=7, max_brackets=2, clock=watch)
    return play(optimizer, 6, lambda trial: results[trial.number], watch if times else None)


def smooth(trial: Trial) -> float:
    """A loss for any space: every number and choice counts a little, larger budgets are better."""
    total = 0.0
    for index, value in enumerate(trial.config.values()):
        number = float(value) if isinstance(value, int | float) else len(str(value)) / 10
        total += math.sin(number + index) / (index + 1)
    return total + 1 / trial.budget


def mostly(trial: Trial) -> object:
    """Like `smooth`, but every seventh trial fails, each time in another way; curves are reported."""
    failures = (
        RuntimeError(f"{HOSTILE} at 0x{trial.number:x}"),
        math.nan,
        Outcome(Status.TIMEOUT, error=f"ran {trial.number} s"),
    )
    if trial.number % 7 == 3:
        return failures[trial.number % 3]
    loss = smooth(trial)
    curve = tuple((float(step), loss + 1 / step) for step in range(1, int(trial.budget) + 1))
    return Outcome(Status.OK, loss=loss, curve=curve)


@functools.cache
def played(kind: str) -> History:
    """A study to look at; nobody may change it."""
    return _KINDS[kind]().history


def _optimizer(space: ConfigurationSpace | Mapping[str, Any], **options: Any) -> tuple[BOHB, Watch]:
    watch = Watch()
    options = {"budgets": [1, 3, 9], "seed": 3, "clock": watch, **options}
    return BOHB(space, **{"preset": "paper", **options}), watch


def _timed(space: ConfigurationSpace | Mapping[str, Any], n: int, result: Results, **options: Any) -> BOHB:
    optimizer, watch = _optimizer(space, **options)
    return play(optimizer, n, result, watch)


def _hostile() -> BOHB:
    space = ConfigurationSpace({HOSTILE: (0.0, 1.0), "%{x} $y$ <b>": [HOSTILE, "%{y}", "</script>", "'\"&"]})
    watch = Watch()
    optimizer = BOHB(space, budgets=[1, 3], seed=0, clock=watch)
    for _ in range(30):
        trial = optimizer.ask()
        outcome = replace(outcome_of(mostly(trial)), started=watch.now, finished=watch.now + 1, worker=HOSTILE)
        optimizer.tell(trial, outcome)
        watch.now += 2
    return optimizer


def _running() -> BOHB:
    optimizer, watch = _optimizer(XY)
    play(optimizer, 5, smooth, watch)
    trials = optimizer.ask_many(3)
    optimizer.lose(trials[0], "the worker died")
    return optimizer


def _large() -> BOHB:
    watch = Watch()
    space = {"lr": (1e-5, 1e-1, "log"), "act": ["relu", "tanh"], "layers": (1, 9)}
    optimizer = BOHB(space, budgets=[1, 3, 9, 27], seed=1, random_fraction=1.0, avoid_failures=False, clock=watch)
    while len(optimizer.history.trials) < 10_000:
        trials = optimizer.ask_many(50)
        results = [
            (trial, replace(outcome_of(mostly(trial)), started=watch.now, finished=watch.now + 1, worker=f"w/{i}"))
            for i, trial in enumerate(trials)
        ]
        optimizer.tell_many(results)
        watch.now += 2
    return optimizer


def _score(trial: Trial) -> object:
    """An accuracy between 0 and 1, with its curve; every seventh trial fails."""
    if trial.number % 7 == 3:
        return RuntimeError("no luck")
    score = 0.9 - 0.5 * (trial.config["x"] - 0.3) ** 2 - 0.2 / trial.budget
    return {"score": score, "info": {"epochs": trial.budget}}


def _values(trial: Trial) -> object:
    """Values that contradict each other: x lowers one and raises the other, y costs memory."""
    x, y = trial.config["x"], trial.config["y"]
    first = x + 0.2 * (1 - y) + 0.1 / trial.budget
    return {HOSTILE: first, "loss": first, "accuracy": x**0.5, "memory": y, "info": {"latency": 10 * x}}


_KINDS: dict[str, Callable[[], BOHB]] = {
    "empty": lambda: _optimizer(XY)[0],
    "one observation": lambda: _timed(XY, 1, smooth),
    "one failure": lambda: _timed(XY, 1, lambda _: math.nan),
    "all failed": lambda: _timed(XY, 12, lambda trial: RuntimeError(f"no luck {trial.number}")),
    "constant loss": lambda: _timed(XY, 30, lambda _: 1.0),
    "one parameter": lambda: _timed({"x": (0.0, 1.0)}, 30, mostly),
    "untimed": lambda: play(_optimizer(XY, clock=lambda: None)[0], 30, mostly),
    "running": _running,
    "tiny": tiny,
    "mixed": lambda: _timed(spaces.mixed(), 80, mostly),
    "conditional": lambda: _timed(spaces.conditional(), 80, mostly),
    "constrained": lambda: _timed(spaces.constrained(), 40, mostly),
    "far apart": lambda: _timed(XY, 40, lambda trial: 10 ** (8 * trial.config["x"] - 4)),
    "outlier": lambda: _timed(XY, 40, lambda trial: 1e54 if trial.number == 5 else 2 + smooth(trial)),
    "many parameters": lambda: _timed({f"p{j}": (0.0, 1.0) for j in range(20)}, 60, mostly),
    "finite": lambda: _timed({"a": (1, 4), "b": ["u", "v"]}, 24, mostly),
    "hostile": _hostile,
    "best": lambda: _timed(spaces.conditional(), 80, mostly, preset="best"),
    "maximised": lambda: _timed(XY, 60, _score, direction="maximize"),
    "two objectives": lambda: _timed(
        XY, 60, _values, objectives=[HOSTILE, "-accuracy"], constraints={"memory": "<= 0.8"}, budgets=[1, 3]
    ),
    "three objectives": lambda: _timed(XY, 40, _values, objectives=[HOSTILE, "-accuracy", "memory"], budgets=[1, 3]),
    "one constraint": lambda: _timed(XY, 40, _values, constraints={"memory": "<= 0.5"}),
    "large": _large,
}
KINDS = tuple(_KINDS)


def ordinary_plots() -> list[Plot]:
    """The plots of a study with one objective and without a Gaussian process, in the order of pages."""
    return [plot for plots in suitable(played("mixed")).values() for plot in plots]
