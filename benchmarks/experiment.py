"""Experiments: which methods run on which problems, how long and how often; and the results of the runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.curves import Axis, Trajectory, final
from benchmarks.harness import Accounting, Protocol
from benchmarks.methods import OURS
from benchmarks.runs import CACHE, Result, Run, run_all


@dataclass(frozen=True, slots=True)
class Experiment:
    """The runs of one experiment, and how they are shown.

    name: the name of its files.
    problems, methods: their names; methods whose environment is missing are left out with a message.
    full_evaluations, max_cost: how long a run is, see `harness.simulate`.
    axis: budget spent, or simulated time.
    protocol: which configuration is the incumbent, see `harness.incumbents`.
    floor: smaller regrets are drawn at this value.
    slow, slow_runs: methods that take minutes per run, and their maximal number of runs.
    lengths: full evaluations of methods with shorter runs, whose decisions take longer and longer.
    quantity: the quantity that is shown.
    question: what the experiment answers, for its page.
    smoke: problems and methods of the version that takes seconds.
    add: whether results are put into the existing files, which keep those on other problems or with other methods.
    """

    name: str
    title: str
    problems: tuple[str, ...]
    methods: tuple[str, ...]
    full_evaluations: float
    runs: int
    axis: Axis = "spent"
    workers: int = 1
    accounting: Accounting = "whole"
    max_cost: float | None = None
    protocol: Protocol = "authors"
    floor: float = 1e-6
    slow: tuple[str, ...] = ("smac", "gp-bo", "hb-lcnet")
    slow_runs: int = 5
    lengths: tuple[tuple[str, float], ...] = ()
    quantity: str = "regret"
    question: str = "Does BOHB end with a lower regret than the other methods?"
    smoke: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    smoke_evaluations: float = 8
    add: bool = False

    def shrunk(self) -> Experiment:
        """Return the version for continuous integration: two runs of a few evaluations."""
        problems, methods = self.smoke or (self.problems[:1], tuple(m for m in self.methods if m in OURS)[:2])
        return replace(
            self,
            problems=problems,
            methods=methods,
            runs=2,
            full_evaluations=self.smoke_evaluations,
            max_cost=None,
            lengths=(),
        )

    def all_runs(self) -> list[Run]:
        """Return every run, ordered by seed."""
        lengths = dict(self.lengths)
        return [
            Run(
                problem,
                method,
                seed,
                min(self.full_evaluations, lengths.get(method, self.full_evaluations)),
                self.workers,
                self.accounting,
                self.max_cost,
            )
            for seed in range(self.runs)
            for problem in self.problems
            for method in self.methods
            if seed < self.slow_runs or method not in self.slow
        ]


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of an experiment by problem, method and seed."""

    experiment: Experiment
    results: Mapping[str, Mapping[str, Mapping[int, Result]]]

    def trajectories(self, problem: str, method: str) -> list[Trajectory]:
        """Return the incumbents of each run."""
        return [r.trajectories[self.experiment.protocol] for r in self.results[problem][method].values()]

    def finals(self, problem: str, method: str) -> dict[int, float]:
        """Return the final regret by seed."""
        runs = self.results[problem][method]
        return {seed: final(result.trajectories[self.experiment.protocol]) for seed, result in runs.items()}


def measure(experiment: Experiment, jobs: int, folder: Path = CACHE) -> Measured:
    """Perform or look up all runs of an experiment."""
    found = run_all(experiment.all_runs(), jobs, folder)
    results: dict[str, dict[str, dict[int, Result]]] = {problem: {} for problem in experiment.problems}
    for run, result in found.items():
        results[run.problem].setdefault(run.method, {})[run.seed] = result
    return Measured(experiment, results)
