"""What the study concludes from regrets: ratios of mean regrets, average ranks, and their intervals by bootstrap.

A replicate of the bootstrap draws problems with replacement, then for each of them, and for each method apart, seeds
with replacement. So an interval tells both of other problems and of other seeds. With one problem it tells of seeds
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# By problem and method the regret of each seed at one point, floored and in units of the problem's scale.
Regrets = Mapping[str, Mapping[str, Array]]

REPLICATES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, slots=True)
class Means:
    """Mean regrets of methods on problems, and replicates of them.

    observed: one row per problem, one column per method.
    replicates: the same for each replicate, its problems drawn anew.
    """

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    observed: Array  # (problems, methods)
    replicates: Array  # (replicates, problems, methods)

    def column(self, method: str) -> int:
        return self.methods.index(method)


def floored(regret: Array, floor: float, scale: float) -> Array:
    """Regrets in units of the scale, at least the floor; a regret may be negative where the best value is a bound."""
    return np.maximum(regret / scale, floor)


def means(
    rng: np.random.Generator, regrets: Regrets, methods: Sequence[str], replicates: int = REPLICATES
) -> Means | None:
    """Mean regrets on the problems on which all the methods have runs; None if there is no such problem."""
    problems = tuple(p for p, known in regrets.items() if all(len(known.get(m, ())) for m in methods))
    if not problems:
        return None
    observed = np.array([[regrets[p][m].mean() for m in methods] for p in problems])
    drawn = rng.integers(len(problems), size=(replicates, len(problems)))
    resampled = np.empty((replicates, len(problems), len(methods)))
    for i, problem in enumerate(problems):
        slots = drawn == i
        for j, method in enumerate(methods):
            values = regrets[problem][method]
            resampled[slots, j] = values[rng.integers(len(values), size=(slots.sum(), len(values)))].mean(axis=1)
    return Means(problems, tuple(methods), observed, resampled)


def interval(value: float, replicates: Array) -> Estimate:
    """A value with the middle 95 % of its replicates."""
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def ratio(known: Means, of: str, to: str) -> Estimate:
    """The geometric mean over problems of one method's mean regret divided by another's."""
    a, b = known.column(of), known.column(to)

    def geometric_mean(values: Array) -> Array:
        return np.asarray(np.exp(np.log(values[..., a] / values[..., b]).mean(axis=-1)))

    return interval(float(geometric_mean(known.observed)), geometric_mean(known.replicates))


def wins(known: Means, of: str, over: str) -> float:
    """The share of problems on which one method's mean regret is the lower one; a tie counts one half."""
    difference = known.observed[:, known.column(over)] - known.observed[:, known.column(of)]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def average_ranks(known: Means) -> dict[str, Estimate]:
    """By method its rank among all by mean regret, averaged over problems; 1 is best, ties share their ranks."""
    from scipy.stats import rankdata

    observed = rankdata(known.observed, axis=-1).mean(axis=0)  # (methods,)
    replicates = rankdata(known.replicates, axis=-1).mean(axis=1)  # (replicates, methods)
    return {m: interval(observed[j], replicates[:, j]) for j, m in enumerate(known.methods)}


def balanced(estimates: Sequence[Estimate]) -> float:
    """The geometric mean of several ratios, each counting the same however many problems it stands for."""
    return float(np.exp(np.mean(np.log([estimate.value for estimate in estimates]))))
