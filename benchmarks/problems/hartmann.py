"""Hartmann's functions with a budget: the heights of their peaks are off by up to a tenth on the smallest budgets.

The peaks are those of Dixon and Szegő (1978); lowering their heights by 0.1·(1 − z), where z is the share of the
largest budget, follows Kandasamy et al. (2017).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from benchmarks.problem import Config, Evaluation, Parameter

_HEIGHTS = np.array([1.0, 1.2, 3.0, 3.2])
_MINIMUM = {3: -3.862779787332660, 6: -3.322368011415515}
_SHARPNESS = {
    3: np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]]),
    6: np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    ),
}
_CENTRES = {
    3: 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]),
    6: 1e-4
    * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    ),
}


@dataclass(frozen=True, slots=True)
class Hartmann:
    """The function of 3 or 6 dimensions; budgets 3 to 81, one unit of cost each."""

    d: int

    @property
    def name(self) -> str:
        return f"hartmann-{self.d}"

    @property
    def budgets(self) -> tuple[float, ...]:
        return (3.0, 9.0, 27.0, 81.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(Parameter(f"x_{i}", "float", 0.0, 1.0) for i in range(self.d))

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:  # noqa: ARG002 - deterministic
        x = np.array([config[f"x_{i}"] for i in range(self.d)])
        heights = _HEIGHTS - 0.1 * (1 - budget / self.budgets[-1])
        inner = (_SHARPNESS[self.d] * (x - _CENTRES[self.d]) ** 2).sum(1)  # (4,)
        return Evaluation(-float(heights @ np.exp(-inner)), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        full = self.evaluate(config, self.budgets[-1], 0).loss
        assert full is not None
        return full - _MINIMUM[self.d]


@dataclass(frozen=True, slots=True)
class MisleadingHartmann:
    """Hartmann's function of 6 dimensions whose small budgets are biased and noisy; the largest budget is exact.

    With t = log(budget) / log(100), the heights of the peaks are lower by bias·(1 − t)², and Gaussian noise of standard
    deviation noise·(1 − t) is added.
    """

    bias: float
    noise: float

    @property
    def name(self) -> str:
        return f"misleading_hartmann-{self.bias:g}-{self.noise:g}"

    @property
    def budgets(self) -> tuple[float, ...]:
        return (4.0, 11.0, 33.0, 100.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return Hartmann(6).parameters

    def evaluate(self, config: Config, budget: float, seed: int) -> Evaluation:
        x = np.array([config[f"x_{i}"] for i in range(6)])
        missing = 1 - math.log(max(1.0, budget)) / math.log(100)
        heights = _HEIGHTS - self.bias * missing**2
        inner = (_SHARPNESS[6] * (x - _CENTRES[6]) ** 2).sum(1)
        drawn = np.random.default_rng([seed, round(budget), *x.view(np.uint64).tolist()]).standard_normal()
        return Evaluation(-float(heights @ np.exp(-inner)) + self.noise * missing * float(drawn), budget)

    def regret(self, config: Config, loss: float) -> float:  # noqa: ARG002 - the loss may be of a smaller budget
        full = self.evaluate(config, self.budgets[-1], 0).loss
        assert full is not None
        return full - _MINIMUM[6]
