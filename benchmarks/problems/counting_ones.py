"""Counting ones (§5.1). Needs numpy alone, so that peers can import it, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.problem import Evaluation, Parameter


@dataclass(frozen=True, slots=True)
class CountingOnes:
    """Counting ones (§5.1): as many ones as possible among binary and continuous variables.

    cat: N_cat, variables in {0, 1}, each added up exactly.
    cont: N_cont, variables in [0, 1]: each adds the mean of `budget` draws from a Bernoulli distribution of that p.
    """

    cat: int
    cont: int

    @property
    def name(self) -> str:
        return f"counting_ones-{self.cat}-{self.cont}"

    @property
    def d(self) -> int:
        """The number of variables; losses lie in [−d, 0], so it is also the range of the loss."""
        return self.cat + self.cont

    @property
    def budgets(self) -> tuple[float, ...]:
        return (9.0, 27.0, 81.0, 243.0, 729.0)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        binary = [Parameter(f"cat_{i}", "categorical", choices=(0, 1)) for i in range(self.cat)]
        return (*binary, *(Parameter(f"float_{i}", "float", 0.0, 1.0) for i in range(self.cont)))

    @property
    def space(self) -> dict[str, Any]:
        """The search space, as `bohb.Space` takes it."""
        binary = {f"cat_{i}": {"choice": [0, 1]} for i in range(self.cat)}
        return {**binary, **{f"float_{i}": (0.0, 1.0) for i in range(self.cont)}}

    def evaluate(self, config: Mapping[str, Any], budget: float, seed: int) -> Evaluation:
        """One unit of cost per draw."""
        return Evaluation(self.loss(config, budget, seed), budget)

    def loss(self, config: Mapping[str, Any], budget: float, seed: int) -> float:
        """The noisy loss; draws are independent between any two pairs of seed and budget."""
        draws = round(budget)
        if draws != budget or draws < 1:
            raise ValueError(f"budget={budget!r} must be a whole number of at least 1: it counts Bernoulli draws")
        p = [float(config[f"float_{i}"]) for i in range(self.cont)]
        ones = np.random.default_rng([seed, draws]).binomial(draws, p)
        return -float(sum(config[f"cat_{i}"] for i in range(self.cat)) + ones.sum() / draws)

    def regret(self, config: Mapping[str, Any], loss: float | None = None) -> float:  # noqa: ARG002 - it is noisy
        """How far the noise-free loss is from its minimum −d."""
        return self.d - float(sum(config.values()))


def uniform_fill(problem: CountingOnes, n: int, seed: int) -> tuple[list[dict[str, Any]], list[float]]:
    """n uniformly random configurations and their noise-free losses; the same for every package that is measured."""
    rng = np.random.default_rng(seed)
    binary = rng.integers(2, size=(n, problem.cat)).tolist()
    continuous = rng.random((n, problem.cont)).tolist()
    names = list(problem.space)
    configs = [dict(zip(names, [*c, *x], strict=True)) for c, x in zip(binary, continuous, strict=True)]
    return configs, [problem.regret(config) - problem.d for config in configs]
