"""How good the best of the first configurations is: independent draws against a sequence that spreads them evenly.

    python -m benchmarks.better.first_rung    # a minute or two

For each problem, the configurations are what a study of BEST draws at random first, with its scrambled Sobol sequence
and without. The best is chosen without error, so that nothing but the draws counts.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence

import numpy as np

from benchmarks.better.protocol import CHOOSING, CONFIRMING, SMOOTH, scale
from benchmarks.command import words
from benchmarks.methods import space_of
from benchmarks.problem import Problem
from benchmarks.problems import problem_of
from bohb.core.space import Array, Space
from bohb.core.streams import spread_point
from bohb.errors import ForbiddenConfiguration

SIZES = (10, 32)  # of the sets of configurations
FLOOR = 1e-3  # regrets count as at least this share of a problem's scale


def regrets(problem: Problem, space: Space, quantiles: Array) -> Array:
    """Return the regret of the best of the first configurations, for each of SIZES."""
    found = []
    for vector in space.at_quantiles(quantiles):
        try:
            found.append(problem.regret(space.decode(vector), math.nan))
        except ForbiddenConfiguration:
            found.append(math.inf)
    return np.array([min(found[:n]) for n in SIZES])


def compared(name: str, repeats: int) -> Array:
    """Return the ratio of the mean regrets, spread over independent, for each of SIZES."""
    problem = problem_of(name)
    space, n = Space(space_of(problem.parameters)), max(SIZES)
    means = []
    for spread in (True, False):
        every = []
        for seed in range(repeats):
            U = np.random.default_rng([seed, 1]).random((n, space.d))
            if spread:
                U = np.vstack([spread_point(seed, number, space.d) for number in range(n)])
            every.append(np.maximum(regrets(problem, space, U) / scale(name), FLOOR))
        means.append(np.mean(every, axis=0))
    return np.asarray(means[0] / means[1])


def row(name: str, ratios: Sequence[Array]) -> str:
    """Return one row of the table: the geometric means, and their 95 % intervals if there are several problems."""
    cells = []
    for values in zip(*np.log(ratios).tolist(), strict=True):
        centre = statistics.fmean(values)
        error = 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        interval = f" [{math.exp(centre - error):.2f}, {math.exp(centre + error):.2f}]" if len(values) > 1 else ""
        cells.append(f"{math.exp(centre):.2f}{interval}")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--problems", type=words, default=(*CHOOSING, *SMOOTH, *CONFIRMING))
    found.add_argument("--repeats", type=int, default=100)
    args = found.parse_args()
    print(f"| problem | {' | '.join(f'best of {n}' for n in SIZES)} |", flush=True)
    every = []
    for name in args.problems:
        every.append(compared(name, args.repeats))
        print(row(name, every[-1:]), flush=True)
    print(row("all", every))


if __name__ == "__main__":
    main()
