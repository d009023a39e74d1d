"""Cost-aware proposals: does it help to divide the expected improvement by the expected seconds?

    python -m benchmarks.costs                     # about 4 minutes of CPU time
    python -m benchmarks.costs --seeds 1 --out /tmp/costs --cache /tmp/costs

Finished studies are kept in --cache and not run again.

The package has no such setting; it is tried here. log EI is reduced by α · log s(x), where s(x) are the seconds that a
configuration is expected to take on the largest budget: those of the package's model of durations, carried over to new
configurations by a ridge regression. α falls from 1 to 0 with the time that has passed ("cost cooling": Lee et al.,
2020; Guinet et al., 2020).

Studies of the preset BEST with one worker on the simulated clock, on tasks whose seconds were recorded. Each study ends
after the same number of seconds: 30 times what random configurations take on the largest budget, on average. The regret
is that of the incumbent, on the largest budget and without noise.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import bohb
from benchmarks.methods import space_of
from benchmarks.problem import uniform
from benchmarks.problems import problem_of
from benchmarks.report import RESULTS, ROOT, finite, goal_table, opening, provenance, verdict, wrapped
from bohb.core.history import History
from bohb.core.samplers import gaussian
from bohb.core.samplers.gaussian import Surrogate
from bohb.core.samplers.search import search
from bohb.core.space import Array, Space
from bohb.core.times.durations import learnt
from bohb.core.trial import Outcome, Trial
from bohb.executors.evaluate import SimulatedExecutor

PROBLEMS = (
    "lcbench-167184",
    "lcbench-189866",
    "rbv2_ranger-16",
    "rbv2_ranger-300",
    "iaml_super-40981",
    "iaml_super-1067",
)
LENGTH = 30  # of a study, in average evaluations on the largest budget
STRENGTHS = (1.0, 0.5)  # α at the start
GAIN, WORST = 1.2, 1.05  # what is aimed at: better on average, and no family worse than that
_FEW = 12  # configurations before which costs do not count
_RIDGE = 0.3
_SMALLEST = 1e-4  # regrets below count as equal


@dataclass(frozen=True, slots=True)
class PerSecond:
    """An acquisition, reduced where evaluations take long."""

    inner: Surrogate
    log_seconds: Callable[[Array], Array]
    exponent: float

    @property
    def parents(self) -> Array:
        """Those of the inner one."""
        return self.inner.parents

    @property
    def earlier(self) -> Array:
        """Those of the inner one."""
        return self.inner.earlier

    def log_improvement(self, X: Array) -> Array:
        """Return log EI less α log s."""
        return np.asarray(self.inner.log_improvement(X) - self.exponent * self.log_seconds(X))

    def rise(self, X: Array) -> tuple[Array, Array]:
        """Return log EI less α log s, and the slopes of log EI alone."""
        score, slopes = self.inner.rise(X)
        return np.asarray(score - self.exponent * self.log_seconds(X)), slopes

    def reason(self, x: Array, score: float, more: Mapping[str, object]) -> dict[str, object]:
        """Return the numbers behind a choice."""
        return self.inner.reason(x, score, more)


def log_seconds(history: History) -> Callable[[Array], Array] | None:
    """Return a function from vectors to the logarithm of their seconds on the largest budget; None while unknown."""
    model = learnt(history)
    if model is None or len(model.known) < _FEW:
        return None
    space, top = history.space, history.budgets[-1]
    trials = [replace(history.trials[config_id], budget=top, previous_budget=None) for config_id in model.known]
    F = features(space, np.array([space.encode(trial.config) for trial in trials]))
    y = np.log([model.duration(trial).median for trial in trials])
    typical, centre = float(np.median(y)), F.mean(axis=0)
    low, high = np.quantile(y, (0.02, 0.98)) - typical
    A = np.column_stack([np.ones(len(F)), F - centre])
    w = np.linalg.solve(A.T @ A + np.diag([1e-3, *[_RIDGE] * F.shape[1]]), A.T @ (y - typical))

    def predict(X: Array) -> Array:
        return np.asarray(np.clip(w[0] + (features(space, X) - centre) @ w[1:], low, high))

    return predict


def features(space: Space, X: Array) -> Array:
    """Return what the seconds of vectors are predicted from: (n, features).

    A numeric hyperparameter gives itself, its square and whether it is inactive; a categorical one, one column per
    choice.
    """
    kinds = space.coordinates
    numeric = X[:, kinds.numeric] - 0.5
    chosen = X[:, kinds.owner] == kinds.choice
    return np.hstack([np.nan_to_num(numeric), np.nan_to_num(numeric**2), np.isnan(numeric), chosen])


@contextmanager
def cost_aware(strength: float, seconds: float) -> Iterator[None]:
    """Let proposals count costs within the context.

    strength: α at the start.
    seconds: the length of the study.
    """

    def aware(rng: np.random.Generator, surrogate: Surrogate, is_new: Any, situation: Any, rise: Any) -> Any:
        history = situation.history
        passed = max((outcome.finished or 0.0 for outcome in history.outcomes.values()), default=0.0)
        predict = log_seconds(history) if strength else None
        if predict is None:
            return search(rng, surrogate, is_new, situation, rise)
        reduced = PerSecond(surrogate, predict, strength * max(0.0, 1 - passed / seconds))
        return search(rng, reduced, is_new, situation, reduced.rise)

    original = gaussian.search  # type: ignore[attr-defined]
    gaussian.search = aware  # type: ignore[attr-defined, assignment]
    try:
        yield
    finally:
        gaussian.search = original  # type: ignore[attr-defined]


@functools.cache
def full_seconds(name: str) -> float:
    """Return the mean duration of random configurations on the largest budget."""
    problem, rng = problem_of(name), np.random.default_rng(0)
    drawn = [uniform(rng, problem.parameters) for _ in range(100)]
    return statistics.fmean(problem.evaluate(config, problem.budgets[-1], 0).cost for config in drawn)


def study(name: str, seed: int, strength: float) -> dict[str, Any]:
    """Run one study; return the regret at its end."""
    problem = problem_of(name)
    seconds = LENGTH * full_seconds(name)
    reached: dict[int, float] = {}
    cost: dict[int, float] = {}

    def objective(trial: Trial) -> float:
        evaluation = problem.evaluate(trial.config, trial.budget, trial.seed)
        before = reached.get(trial.config_id, 0.0) if trial.previous_budget else 0.0
        reached[trial.config_id] = evaluation.cost
        cost[trial.number] = max(evaluation.cost - before, 1e-3)
        return math.nan if evaluation.loss is None else evaluation.loss

    def duration(trial: Trial, _: Outcome) -> float:
        return cost[trial.number]

    executor = SimulatedExecutor(objective, 1, duration=duration, until=seconds)
    optimizer = bohb.BOHB(
        space_of(problem.parameters),
        budgets=problem.budgets,
        seed=seed,
        preset="best",
        clock=executor.clock,
        stopwatch=executor.clock,
    )
    with cost_aware(strength, seconds):
        history = bohb.run(optimizer, executor, bohb.Limits(max_seconds=seconds)).history
    best = history.incumbent
    assert best is not None
    regret = problem.regret(best.config, best.loss)
    return {"problem": name, "seed": seed, "strength": strength, "regret": regret, "trials": len(history.trials)}


def gains(rows: Sequence[Mapping[str, Any]], strength: float) -> dict[str, list[float]]:
    """Return the logarithms of the regrets without over those with, study by study, for each problem."""
    by = {(row["problem"], row["seed"], row["strength"]): max(row["regret"], _SMALLEST) for row in rows}
    found: dict[str, list[float]] = {}
    for (name, seed, alpha), regret in by.items():
        if alpha == strength and (name, seed, 0.0) in by:
            found.setdefault(name, []).append(math.log(by[name, seed, 0.0] / regret))
    return found


def ratio(logs: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of ratios and its 95 % interval, by the bootstrap over studies."""
    draws = np.random.default_rng(0).choice(logs, (2000, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(draws, (0.025, 0.975)))
    return math.exp(statistics.fmean(logs)), float(low), float(high)


def page(rows: Sequence[Mapping[str, Any]], source: Mapping[str, Any]) -> str:
    """Return docs/results/costs.md."""
    lines = opening(
        "Cost-aware proposals",
        "Does the preset BEST find better configurations in the same time if its proposals consider how long a "
        "configuration takes to train?",
        _sentences(rows),
    )
    lines += wrapped(
        "`python -m benchmarks.costs` writes this page and explains what is run. A gain is the geometric mean of the "
        "regrets without costs over those with costs, after equal seconds; above 1, counting costs helps. Intervals "
        "are 95 %, by the bootstrap over pairs of studies."
    )
    lines.append("")
    goals = []
    for strength in STRENGTHS:
        found = gains(rows, strength)
        if not found:
            continue
        lines += [f"## Improvement per seconds to the power of {strength:g}, falling to 0", ""]
        lines += ["| problem | pairs of studies | gain |", "|---|---|---|"]
        families: dict[str, list[float]] = {}
        for name, logs in found.items():
            families.setdefault(name.partition("-")[0], []).extend(logs)
            lines.append(_line(name, logs))
        lines += [_line(f"all of {family}", logs) for family, logs in families.items()]
        every = [gain for logs in found.values() for gain in logs]
        lines += [_line("all", every), ""]
        worst = min(families, key=lambda family: statistics.fmean(families[family]))
        mean, least = ratio(every)[0], math.exp(statistics.fmean(families[worst]))
        power = f"power {strength:g}"
        goals += [
            verdict(mean >= GAIN, f"{power}: at least {GAIN} times better", f"{mean:.2f} times"),
            verdict(least >= 1 / WORST, f"{power}: no family more than {WORST} times worse", f"{least:.2f} on {worst}"),
        ]
    lines += ["## Goals", "", *goal_table(goals), ""]
    lines += [f"Seeds {source['seeds']}; {source['date'][:10]}; {source['cpu']}."]
    return "\n".join(lines) + "\n"


def _sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    sentences = []
    for strength in STRENGTHS:
        if every := [gain for logs in gains(rows, strength).values() for gain in logs]:
            mean, low, high = ratio(every)
            sentences.append(
                f"Divided by the seconds to the power of {strength:g}, the expected improvement has a gain of "
                f"{mean:.2f} ({low:.2f} to {high:.2f})."
            )
    return [*sentences, "A gain below 1 means that proposals are better if they ignore the costs."]


def _line(name: str, logs: Sequence[float]) -> str:
    mean, low, high = ratio(logs)
    return f"| {name} | {len(logs)} | {mean:.2f} ({low:.2f} to {high:.2f}) |"


def main() -> None:
    """Run what was not run before, and write costs.json and costs.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "costs")
    options = parser.parse_args()
    logging.getLogger("bohb").setLevel(logging.ERROR)
    options.cache.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(options.seeds):
        for name in PROBLEMS:
            for strength in (0.0, *STRENGTHS):
                done = options.cache / f"{name}-{seed}-{strength:g}.json"
                if not done.exists():
                    done.write_text(json.dumps(study(name, seed, strength)))
                rows.append(json.loads(done.read_text()))
    source = provenance(range(options.seeds), ("bohb", "numpy", "scipy"))
    options.out.mkdir(parents=True, exist_ok=True)
    body = finite({"source": source, "studies": rows})
    (options.out / "costs.json").write_text(json.dumps(body, indent=1, allow_nan=False) + "\n")
    (options.out / "costs.md").write_text(page(rows, source))
    print((options.out / "costs.md").read_text())


if __name__ == "__main__":
    main()
