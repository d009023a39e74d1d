"""A study on Slurm: every trial is a job. Without Slurm the jobs are processes of this machine.

python examples/slurm_study.py /shared/study --partition gpu --jobs 20

The directory must be visible to all machines. Run the script again to continue the study.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import submitit

import bohb


def objective(trial: bohb.Trial) -> float:
    """Stands for a training that continues from its checkpoint."""
    assert trial.checkpoint_dir is not None
    state = trial.checkpoint_dir / "state.json"
    epoch, weight = json.loads(state.read_text()) if trial.previous_budget is not None else (0, 0.0)
    while epoch < trial.budget:
        weight += trial.config["rate"] * (1 - weight)
        epoch += 1
        trial.report(epoch, (1 - weight) ** 2)
    state.write_text(json.dumps([epoch, weight]))
    return float((1 - weight) ** 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--partition", help="of Slurm")
    parser.add_argument("--jobs", type=int, default=2, help="at once")
    parser.add_argument("--trials", type=int, default=30)
    arguments = parser.parse_args()

    jobs = submitit.AutoExecutor(arguments.directory / "jobs" / "%j")
    jobs.update_parameters(timeout_min=60, name="bohb")
    if arguments.partition is not None:
        jobs.update_parameters(slurm_partition=arguments.partition)
    study = bohb.minimize(
        objective,
        {"rate": (0.001, 0.9, "log")},
        min_budget=1,
        max_budget=27,
        integer_budgets=True,
        seed=0,
        executor=jobs,
        workers=arguments.jobs,
        resources={"cpu": 1, "memory": "2GB"},
        trial_seconds=50 * 60,  # less than the job has, so that a slow trial fails instead of being repeated
        journal=arguments.directory / "study.db",
        max_trials=arguments.trials,
    )
    print(f"on {jobs.cluster}:\n{study}")


if __name__ == "__main__":
    main()
