"""BOHB in Ray Tune, in place of TuneBOHB and HyperBandForBOHB.

    python examples/ray_tune.py

Needs Ray Tune: pip install ".[tune]"
"""

from __future__ import annotations

import tempfile
from typing import Any

from ray import tune

from bohb.integrations.ray_tune import BOHBScheduler, BOHBSearch

EPOCHS = 9


def train(config: dict[str, Any]) -> None:
    """Stand for training: the loss falls with every epoch, towards a limit that depends on the configuration."""
    for epoch in range(1, EPOCHS + 1):
        tune.report({"loss": abs(config["lr"] - 0.01) + abs(config["units"] - 64) / 64 + 1 / epoch})


def main(trials: int = 20) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space={"lr": tune.loguniform(1e-4, 1.0), "units": tune.randint(8, 257)},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=trials,
                max_concurrent_trials=2,
                search_alg=BOHBSearch(seed=1),
                scheduler=BOHBScheduler(max_t=EPOCHS),
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        results = tuner.fit()
        ends = [results[i].metrics or {} for i in range(len(results))]
        spent = sum(metrics.get("training_iteration", 0) for metrics in ends)
        best = results.get_best_result()
        assert best.metrics is not None
        print(f"{len(results)} trials, {spent} epochs instead of {len(results) * EPOCHS}")
        print(f"lowest loss {best.metrics['loss']:.3f} with {best.config}")


if __name__ == "__main__":
    main()
