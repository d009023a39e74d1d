"""Measured data instead of surrogates: six tasks of TaskSet and three exhaustive tables.

    python -m benchmarks.paper.measured --runs 20 --jobs 2

TaskSet has 1000 measured configurations per task; a suggestion is mapped to the nearest of them. In the tables, the
budget is the number of training seeds that are averaged, 1 or 3. Three conditional surrogates of real runs (random
forests, algorithm selection, elastic nets) are included as well.
"""

from __future__ import annotations

from benchmarks.command import run_experiment
from benchmarks.experiment import Experiment

TASKS = (
    "imdb_patch128_LSTM128_avg_bs64", "imdb_patch32_GRU128_bs128", "imdb_patch32_GRU64_avg_bs128",
    "imdb_patch32_LSTM128_E128_bs128", "imdb_patch32_VRNN128_tanh_bs128", "imdb_patch32_VRNN64_relu_avg_bs128",
)  # fmt: skip
EXPERIMENT = Experiment(
    name="measured",
    question="Does BOHB end with a lower regret than Hyperband and random search on measured data and in spaces with "
    "conditions?",
    title="Measured learning curves and tables, and conditional surrogates",
    problems=(
        *(f"taskset-{task}" for task in TASKS),
        "table-segment",
        "table-protein",
        "table-nasbench201",
        "rbv2_ranger-3",
        "rbv2_ranger-6",
        "rbv2_ranger-14",
        "iaml_super-1489",
        "iaml_super-1067",
        "iaml_glmnet-1489",
    ),
    methods=("bohb", "hyperband", "random", "tpe", "smac", "dehb"),
    full_evaluations=60,
    runs=20,
    floor=1e-5,
    smoke=(("taskset-imdb_patch32_GRU128_bs128", "table-nasbench201", "iaml_super-1489"), ("bohb", "hyperband")),
)


def main() -> None:
    run_experiment(EXPERIMENT, __doc__)


if __name__ == "__main__":
    main()
