"""Random search with the standard library alone: the smallest rival, which runs in any environment.

"uniform" evaluates on the largest budget, "uniform-halving" keeps the better half of its losses so far on each rung.
"""

from __future__ import annotations

import math
import random
from typing import Any

from benchmarks.rivals.wire import BlackBox, Climber, Config, Parameter, Rival, Task, serve


class Uniform:
    """Draws every parameter uniformly, or log-uniformly; keys count the configurations."""

    def __init__(self, task: Task) -> None:
        self._rng = random.Random(task.seed)
        self._parameters = task.parameters
        self._drawn = 0
        self._losses: dict[int, list[float]] = {}

    def suggest(self) -> tuple[int, Config]:
        self._drawn += 1
        return self._drawn, {parameter.name: draw(self._rng, parameter) for parameter in self._parameters}

    def observe(self, key: int, loss: float | None, cost: float) -> None: ...

    def goes_on(self, key: int, rung: int, loss: float | None, cost: float) -> bool:  # noqa: ARG002 - a rival's signature
        if loss is None:
            return False
        losses = self._losses.setdefault(rung, [])
        losses.append(loss)
        return loss <= sorted(losses)[(len(losses) - 1) // 2]


def draw(rng: random.Random, parameter: Parameter) -> Any:
    """One value; the ends of a whole number's range are as likely as the rest."""
    if parameter.kind == "categorical":
        return rng.choice(parameter.choices)
    half = 0.5 if parameter.kind == "int" else 0.0
    low, high = parameter.low - half, parameter.high + half
    if not parameter.log:
        return rng.uniform(low, high)
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def build(task: Task) -> Rival:
    uniform = Uniform(task)
    return BlackBox(task, uniform) if task.method == "uniform" else Climber(task, uniform)


if __name__ == "__main__":
    serve(build)
