"""A family whose last rungs reverse the ranks near the optimum, in many dimensions.

A wide bowl is what small budgets show. Near a corner the loss is higher than in the bowl on small budgets, and far
lower on the largest, so promotion leads away from the optimum and only full evaluations show it. LCBench has such a
task: between the last two rungs the loss falls from 16.4 to 5.95 in the optimum's corner, and stays at 13 in the trap.
The problems serve for choosing settings, never for confirming a choice.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.problem import Config, Evaluation, Parameter

Array = NDArray[np.float64]
_LOW, _FULL = 0.3, -0.8  # what the corner adds to the loss on the smallest and on the largest budget
_WIDTH = 0.1  # squared, of the corner's region
_CENTRE = 0.5  # of the bowl


@dataclass(frozen=True, slots=True)
class Reversed:
    """A bowl and a corner in d numbers; the j-th number counts 1/j.

    With t = log(budget) / log(27), the loss is |x − ½|² + A exp(−|x − corner|² / 0.2), where A goes from 0.3 to −0.8
    with t⁴, plus Gaussian noise whose deviation is noise · (1 − t). Regrets are without noise.
    """

    d: int
    noise: float

    @property
    def name(self) -> str:
        return f"reversed-{self.d}-{self.noise:g}"

    @property
    def budgets(self) -> tuple[float, ...]:
        return (1.0, 3.0, 9.0, 27.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(Parameter(f"x_{i}", "float", 0.0, 1.0) for i in range(self.d))

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        x = self._vector(config)
        t = math.log(max(1.0, budget)) / math.log(self.budgets[-1])
        drawn = np.random.default_rng([seed, round(budget), *x.view(np.uint64).tolist()]).standard_normal()
        return Evaluation(self._loss(x, t) + self.noise * (1 - t) * float(drawn), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        return self._loss(self._vector(config), 1.0) - _minimum()

    def _vector(self, config: Config) -> Array:
        return np.array([config[f"x_{i}"] for i in range(self.d)])

    def _loss(self, x: Array, t: float) -> float:
        weights = 1 / np.arange(1, self.d + 1)
        weights /= weights.sum()
        corner = np.arange(self.d) % 2
        return _of(float(weights @ (x - _CENTRE) ** 2), float(weights @ (x - corner) ** 2), t)


def _of(from_centre: float, from_corner: float, t: float) -> float:
    """Return the loss at squared distances from the centre of the bowl and from the corner."""
    depth = _LOW + (_FULL - _LOW) * t**4
    return from_centre + depth * math.exp(-from_corner / (2 * _WIDTH))


@functools.cache
def _minimum() -> float:
    """Return the lowest loss on the largest budget, which lies between the corner and the centre."""
    return min(_of((_CENTRE - u) ** 2, u**2, 1.0) for u in np.linspace(0, _CENTRE, 100_001).tolist())
