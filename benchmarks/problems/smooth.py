"""Well-known smooth functions with a budget: on small budgets the optimum lies elsewhere, and losses are noisy.

The functions are those of the optimisation literature (Dixon and Szegő 1978; Surjanovic and Bingham's collection), each
on its usual range, which is mapped to [0, 1]. They serve for choosing settings, never for confirming a choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.problem import Config, Evaluation, Parameter

Array = NDArray[np.float64]

_SHEKEL_CENTRES = np.array(
    [[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2, dtype=np.float64
).T  # (10, 4)
_SHEKEL_WIDTHS = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5])


def _branin(x: Array) -> float:
    a, b = x
    return float(
        (b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10
    )


def _levy(x: Array) -> float:
    w = 1 + (x - 1) / 4
    inner = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(math.sin(math.pi * w[0]) ** 2 + inner.sum() + last)


def _rosenbrock(x: Array) -> float:
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def _ackley(x: Array) -> float:
    near = -20 * math.exp(-0.2 * math.sqrt(float((x**2).mean())))
    return near - math.exp(float(np.cos(2 * math.pi * x).mean())) + 20 + math.e


def _styblinski_tang(x: Array) -> float:
    return float((x**4 - 16 * x**2 + 5 * x).sum() / 2)


def _shekel(x: Array) -> float:
    return -float((1 / (((x - _SHEKEL_CENTRES) ** 2).sum(axis=1) + _SHEKEL_WIDTHS)).sum())


def _michalewicz(x: Array) -> float:
    i = np.arange(1, len(x) + 1)
    return -float((np.sin(x) * np.sin(i * x**2 / math.pi) ** 4).sum())


@dataclass(frozen=True, slots=True)
class Function:
    """A function of d numbers in a range, and its minimum."""

    value: Callable[[Array], float]
    low: Array
    high: Array
    minimum: float

    def __call__(self, x: Array) -> float:
        """Return the value at x in the unit cube, or a little outside it."""
        return self.value(self.low + x * (self.high - self.low))


def _on(value: Callable[[Array], float], d: int, low: float, high: float, minimum: float) -> Function:
    return Function(value, np.full(d, low), np.full(d, high), minimum)


FUNCTIONS = {
    "branin": Function(_branin, np.array([-5.0, 0.0]), np.array([10.0, 15.0]), 0.39788735772973816),
    "levy": _on(_levy, 5, -10, 10, 0.0),
    "rosenbrock": _on(_rosenbrock, 4, -2, 2, 0.0),
    "ackley": _on(_ackley, 5, -15, 30, 0.0),
    "styblinski_tang": _on(_styblinski_tang, 5, -5, 5, -39.16616570377142 * 5),
    "shekel": _on(_shekel, 4, 0, 10, -10.536443153483534),
    "michalewicz": _on(_michalewicz, 5, 0, math.pi, -4.709316981537787),
}


@dataclass(frozen=True, slots=True)
class Smooth:
    """A function whose small budgets are biased and noisy.

    With t = log(budget) / log(27), the optimum is moved by shift·(1 − t) in the unit cube, along a diagonal, and
    Gaussian noise is added, whose deviation is noise·(1 − t) + least times that of the function over the cube. Regrets
    are without noise.
    """

    function: str
    shift: float
    noise: float
    least: float = 0.0

    @property
    def name(self) -> str:
        numbers = (self.shift, self.noise, self.least) if self.least else (self.shift, self.noise)
        return "-".join(["smooth", self.function, *(f"{number:g}" for number in numbers)])

    @property
    def budgets(self) -> tuple[float, ...]:
        return (1.0, 3.0, 9.0, 27.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(Parameter(f"x_{i}", "float", 0.0, 1.0) for i in range(len(FUNCTIONS[self.function].low)))

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        x = self._vector(config)
        missing = 1 - math.log(max(1.0, budget)) / math.log(self.budgets[-1])
        direction = np.where(np.arange(len(x)) % 2, -1.0, 1.0) / math.sqrt(len(x))
        drawn = np.random.default_rng([seed, round(budget), *x.view(np.uint64).tolist()]).standard_normal()
        loss = FUNCTIONS[self.function](x + self.shift * missing * direction)
        deviation = (self.noise * missing + self.least) * _deviation(self.function)
        return Evaluation(loss + deviation * float(drawn), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        known = FUNCTIONS[self.function]
        return known(self._vector(config)) - known.minimum

    def _vector(self, config: Config) -> Array:
        return np.array([config[f"x_{i}"] for i in range(len(FUNCTIONS[self.function].low))])


@functools.cache
def _deviation(function: str) -> float:
    """Return the standard deviation of a function over the unit cube, from a fixed sample."""
    known = FUNCTIONS[function]
    sample = np.random.default_rng(0).random((2000, len(known.low)))
    return float(np.std([known(x) for x in sample]))
