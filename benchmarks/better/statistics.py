"""Statistics of regrets: ratios of mean regrets, average ranks, and bootstrap intervals.

A bootstrap replicate draws problems with replacement, and then seeds with replacement for each problem and method. So
an interval covers both the choice of problems and of seeds; with a single problem it covers seeds only.
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
    replicates: the same for each bootstrap replicate.
    """

    problems: tuple[str, ...]
    methods: tuple[str, ...]
    observed: Array  # (problems, methods)
    replicates: Array  # (replicates, problems, methods)

    def column(self, method: str) -> int:
        return self.methods.index(method)


def floored(regret: Array, floor: float, scale: float) -> Array:
    """Return regrets in units of the scale, at least the floor; they can be negative if the best value is a bound."""
    return np.maximum(regret / scale, floor)


def means(
    rng: np.random.Generator, regrets: Regrets, methods: Sequence[str], replicates: int = REPLICATES
) -> Means | None:
    """Return mean regrets on the problems that all methods have runs on; None if there is no such problem."""
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
    """Return a value with the central 95 % interval of its replicates."""
    low, high = np.quantile(replicates, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(value), float(low), float(high))


def ratio(known: Means, of: str, to: str) -> Estimate:
    """Return the geometric mean over problems of the ratio of two methods' mean regrets."""
    a, b = known.column(of), known.column(to)

    def geometric_mean(values: Array) -> Array:
        return np.asarray(np.exp(np.log(values[..., a] / values[..., b]).mean(axis=-1)))

    return interval(float(geometric_mean(known.observed)), geometric_mean(known.replicates))


def ratio_of_runs(
    rng: np.random.Generator, regrets: Regrets, of: str, to: str, replicates: int = REPLICATES
) -> Estimate | None:
    """Return the geometric mean over problems and seeds of the ratio of two methods' regrets; None without runs.

    It compares typical runs with the same seed. `ratio` compares means over seeds, which a few bad runs decide.

    regrets: those of a problem are in the same order of seeds for both methods.
    """
    logs = [np.log(known[of] / known[to]) for known in regrets.values() if len(known.get(of, ())) and to in known]
    if not logs:
        return None
    drawn = rng.integers(len(logs), size=(replicates, len(logs)))
    resampled = np.empty(drawn.shape)
    for i, values in enumerate(logs):
        slots = drawn == i
        resampled[slots] = values[rng.integers(len(values), size=(slots.sum(), len(values)))].mean(axis=1)
    observed = float(np.mean([values.mean() for values in logs]))
    return interval(float(np.exp(observed)), np.exp(resampled.mean(axis=1)))


def geometric_mean(known: Means, method: str) -> Estimate:
    """Return the geometric mean over problems of a method's mean regrets."""
    column = known.column(method)
    observed, replicates = (np.exp(np.log(m[..., column]).mean(axis=-1)) for m in (known.observed, known.replicates))
    return interval(float(observed), replicates)


def wins(known: Means, of: str, over: str) -> float:
    """Return the share of problems on which a method has the lower mean regret; a tie counts one half."""
    difference = known.observed[:, known.column(over)] - known.observed[:, known.column(of)]
    return float((difference > 0).mean() + 0.5 * (difference == 0).mean())


def average_ranks(known: Means) -> dict[str, Estimate]:
    """Return the rank of each method by mean regret, averaged over problems; 1 is best, ties share ranks."""
    from scipy.stats import rankdata

    observed = rankdata(known.observed, axis=-1).mean(axis=0)  # (methods,)
    replicates = rankdata(known.replicates, axis=-1).mean(axis=1)  # (replicates, methods)
    return {m: interval(observed[j], replicates[:, j]) for j, m in enumerate(known.methods)}


def balanced(estimates: Sequence[Estimate]) -> float:
    """Return the geometric mean of several ratios, with equal weights."""
    return float(np.exp(np.mean(np.log([estimate.value for estimate in estimates]))))
