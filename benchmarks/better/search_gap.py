"""How much of log EI the search of BEST leaves: its proposals against those of a strong optimiser.

    python -m benchmarks.better.search_gap    # ten minutes

The states are those of the recorded studies in tests/replays, and of runs of BEST on tuning problems. The reference
tries thousands of candidates, follows the best and those apart from them with scipy's L-BFGS, and sweeps the values of
every other hyperparameter, until nothing improves.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from tests.replays import stored
from threadpoolctl import threadpool_limits

import bohb
from benchmarks.better.protocol import LENGTH
from benchmarks.command import words
from benchmarks.methods import space_of
from benchmarks.problems import lowest_budget, problem_of
from bohb.core.events import Event, TrialStarted
from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.samplers.proposal import Proposal, Situation
from bohb.core.samplers.search import mutations, scorer
from bohb.core.space import Array, Space

RECORDED = (
    "best",
    "best-parallel",
    "best-conditional",
    "best-failures",
    "best-priors",
    "best-warm-start",
    "best-raised",
)
PROBLEMS = (
    "hartmann-3", "lcbench-167149", "lcbench-189354", "lcbench-3945", "rbv2_ranger-11", "iaml_super-1067",
    "taskset-imdb_patch128_LSTM128_avg_bs64", "counting_ones-4-4", "smooth-levy-0.1-0.1", "smooth-branin-0.1-0.1",
    "smooth-rosenbrock-0.05-0.05", "smooth-styblinski_tang-0.05-0.05", "reversed-60-0.02",
)  # fmt: skip
LARGE = 0.5  # a gap that counts as large
LEAST = -9.0  # log EI below which nothing is left to gain, so that such states are left out
STARTS, CANDIDATES, SWEEPS = 20, 3000, 5  # of the reference
_STEP = 1e-5  # of its differences


@dataclass(frozen=True, slots=True)
class State:
    """A moment at which the process proposed."""

    name: str
    situation: Situation
    sampler: GaussianSampler
    seed: int

    def gap(self) -> tuple[float, float] | None:
        """Return what the proposal leaves of log EI, and its CPU time in milliseconds; None if nothing is to gain."""
        surrogate = self.sampler.surrogate(self.situation.history)
        if surrogate is None:
            return None
        start = time.process_time()
        found = self.sampler.propose(np.random.default_rng(self.seed), self.situation)
        taken = 1e3 * (time.process_time() - start)
        if not isinstance(found, Proposal):
            return None
        score, space = scorer(surrogate, self.situation), self.situation.space
        reached = float(score(space.encode(found.config)[None, :])[0])
        is_new = self.sampler.is_new(self.situation)
        best = max(
            (s for x, s in reference(space, score, surrogate.parents) if allowed(space, is_new, x)), default=reached
        )
        return (max(best - reached, 0.0), taken) if best > LEAST else None


def allowed(space: Space, is_new: Any, x: Array) -> bool:
    """Tell whether a vector may be proposed."""
    try:
        return bool(is_new(space.decode(x)))
    except ValueError:
        return False


def reference(space: Space, score: Any, parents: Array) -> Iterator[tuple[Array, float]]:
    """Yield the best vectors that can be found, and their scores."""
    rng = np.random.default_rng(0)
    X = np.vstack([space.draw(rng, CANDIDATES), mutations(rng, space, parents, CANDIDATES)])
    values = score(X)
    for i in _apart(X, values):
        yield _climbed(space, score, X[i], float(values[i]))


def _apart(X: Array, values: Array) -> Sequence[int]:
    """Return the best candidates, each with other choices or a tenth of the range away from better ones."""
    kept: list[int] = []
    for i in np.argsort(-values).tolist():
        if all(np.nanmax(np.abs(np.nan_to_num(X[i]) - np.nan_to_num(X[k]))) > 0.1 for k in kept):
            kept.append(i)
        if len(kept) == STARTS:
            break
    return kept


def _climbed(space: Space, score: Any, x: Array, value: float) -> tuple[Array, float]:
    for _ in range(SWEEPS):
        before = value
        x, value = _swept(space, score, *_followed(space, score, x, value))
        if value < before + 1e-4:
            break
    return x, value


def _followed(space: Space, score: Any, x: Array, value: float) -> tuple[Array, float]:
    """Follow the gradient in the numbers that are not on a grid."""
    free = np.flatnonzero((space.choices == 0) & ~np.isnan(x) & ~_on_grid(space))
    if not len(free):
        return x, value

    def negative(u: Array) -> tuple[float, Array]:
        low, high = np.clip(u - _STEP, 0, 1), np.clip(u + _STEP, 0, 1)
        X = np.tile(x, (2 * len(u) + 1, 1))
        X[:, free] = u
        rows = np.arange(len(u))
        X[rows, free], X[len(u) + rows, free] = low, high
        s = score(X)
        return -float(s[-1]), -(s[len(u) : -1] - s[: len(u)]) / (high - low)

    found = minimize(negative, x[free], jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(free))
    moved = x.copy()
    moved[free] = found.x
    moved = space.snap(moved[None, :])
    reached = float(score(moved)[0])
    return (moved[0], reached) if reached > value else (x, value)


def _swept(space: Space, score: Any, x: Array, value: float) -> tuple[Array, float]:
    """Try every choice, and 100 values of every number, one hyperparameter after the other."""
    for j in range(space.d):
        values = np.arange(space.choices[j]) if space.choices[j] else np.linspace(0, 1, 101)
        X = np.tile(np.where(np.isnan(x), 0.5, x), (len(values), 1))
        X[:, j] = values
        X = space.snap(X)
        s = score(X)
        i = int(s.argmax())
        if s[i] > value:
            x, value = X[i], float(s[i])
    return x, value


def _on_grid(space: Space) -> NDArray[np.bool_]:
    """Tell which hyperparameters are integers or ordered values."""
    U = np.full((1, space.d), 0.123456789)
    return np.asarray(np.nan_to_num(space.snap(U), nan=0.123456789)[0] != 0.123456789, dtype=np.bool_)


def states(name: str, events: Sequence[Event], every: int) -> Iterator[State]:
    """Yield every so manieth moment at which the process proposed."""
    started = ((i, event.trial) for i, event in enumerate(events) if isinstance(event, TrialStarted))
    proposed = [(i, trial.budget) for i, trial in started if trial.explains == "process"]
    for i, budget in proposed[every // 2 :: every]:
        history = History().extend(events[:i])
        yield State(name, Situation(history, budget, lambda _: True, None), GaussianSampler(history.space), i)


def run_of(problem: str) -> Sequence[Event]:
    """Return the events of a run of BEST with 60 full evaluations."""
    known, spent = problem_of(problem), 0.0
    study = bohb.BOHB(space_of(known.parameters), budgets=known.budgets, eta=3, seed=0)
    while spent < LENGTH * known.budgets[-1]:
        trial = study.ask()
        spent += trial.budget - (trial.previous_budget or 0.0)
        evaluation = known.evaluate(trial.config, max(trial.budget, lowest_budget(problem)), trial.seed)
        study.tell(trial, evaluation.loss if evaluation.ok else float("nan"))
    return study.events


def main() -> None:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--recorded", type=words, default=RECORDED)
    found.add_argument("--problems", type=words, default=PROBLEMS)
    found.add_argument("--every", type=int, default=10, help="use every so manieth proposal (default: 10)")
    args = found.parse_args()
    sources = [(stored.events_of, name) for name in args.recorded] + [(run_of, name) for name in args.problems]
    every: list[tuple[float, float]] = []
    with threadpool_limits(1, user_api="blas"):
        for events, name in sources:
            gaps = [gap for state in states(name, events(name), args.every) if (gap := state.gap()) is not None]
            every += gaps
            print(line(name, gaps), flush=True)
    print(line("all", every))


def line(name: str, gaps: Sequence[tuple[float, float]]) -> str:
    """Return one row of the table."""
    left = [gap for gap, _ in gaps]
    large = sum(gap > LARGE for gap in left) / max(1, len(left))
    taken = statistics.median([ms for _, ms in gaps] or [0.0])
    return f"| {name} | {len(left)} | {statistics.fmean(left or [0.0]):.3f} | {100 * large:.0f} % | {taken:.1f} |"


if __name__ == "__main__":
    main()
