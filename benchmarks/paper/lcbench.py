"""The 17 LCBench surrogates: seven hyperparameters of networks on tabular data, 52 epochs, validation error.

    python -m benchmarks.paper.lcbench --runs 20 --jobs 2

Budgets are 52/27, 52/9, 52/3 and 52 epochs, rounded where the network is asked. Regrets are against the best value
that random and local search found on the surrogate: a bound, so they may be negative.
"""

from __future__ import annotations

from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment

INSTANCES = (
    "3945", "7593", "34539", "167149", "167161", "167181", "167184", "167185", "167190", "167201", "168331", "168335",
    "189354", "189862", "189865", "189866", "189908",
)  # fmt: skip
EXPERIMENT = Experiment(
    name="lcbench",
    question="Does BOHB end with a lower regret than the other methods on networks for tabular data?",
    title="The 17 LCBench surrogates",
    problems=tuple(f"lcbench-{instance}" for instance in INSTANCES),
    methods=("bohb", "hyperband", "random", "tpe", "optuna-tpe-hyperband", "smac", "dehb", "bracket-models"),
    full_evaluations=100,
    lengths=(("smac", 50),),
    runs=20,
    floor=1e-5,
)


def main() -> None:
    run_experiment(EXPERIMENT, __doc__)


if __name__ == "__main__":
    main()
