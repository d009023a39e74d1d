"""Proximal policy optimisation on the cart and pole (§5.4 and Appendix K): episodes until the agent has converged.

    python -m benchmarks.paper.cartpole --runs 5 --jobs 2
    python -m benchmarks.paper.cartpole --methods bohb,hyperband --evaluations 16

Every evaluation trains agents. Finished ones are kept under .cache/benchmarks/evaluations, with the episodes of each
trial and the CPU seconds. The optimum is unknown, so what the tables call regret is the mean number of episodes that
the incumbent was seen to need, at most 3000. As it is very noisy, the incumbent is the best on the largest budget so
far. A run of the paper, 16 brackets, is about 46 full evaluations. Writes cartpole.json, .csv, .md and .png.
"""

from __future__ import annotations

from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment

EXPERIMENT = Experiment(
    name="cartpole",
    question="Does BOHB find an agent that learns faster than those of Hyperband and TPE (§5.4)?",
    title="PPO on the cart and pole: episodes to convergence",
    problems=("cartpole",),
    methods=("bohb", "hyperband", "random", "tpe"),
    full_evaluations=46,
    runs=10,
    protocol="largest",
    quantity="episodes to convergence",
    smoke=(("cartpole",), ("hyperband",)),
    smoke_evaluations=0.25,
)


def main() -> None:
    run_experiment(EXPERIMENT, __doc__)


if __name__ == "__main__":
    main()
