"""Two objectives and a constraint: the error of a network against the time it takes to classify an image.

python examples/several_objectives.py [--trials 150] [--journal several.db]

The time is measured on this machine, so the front differs a little from run to run.
"""

from __future__ import annotations

import argparse
import pickle
import time
from typing import Any

import numpy as np
from digits_network import BUDGETS, Network, digits, space
from threadpoolctl import threadpool_limits

import bohb

REPEATS = 9  # how often the time is measured
KILOBYTE = 1e3


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """Train the network, and return its error, its time per image in microseconds and its size in bytes."""
    assert trial.checkpoint_dir is not None
    data, checkpoint = digits(), trial.checkpoint_dir / "network.pickle"
    network = pickle.loads(checkpoint.read_bytes()) if checkpoint.exists() else Network(trial.config, trial.seed)
    with np.errstate(all="ignore"):  # a learning rate that is too large
        while network.epochs < trial.budget:
            network.fit_epoch(*data["train"])
        _, error = network.score(*data["valid"])
        images, _ = data["valid"]
        microseconds = 1e6 * fastest(network, images) / len(images)
    checkpoint.write_bytes(pickle.dumps(network))
    size = sum(weight.nbytes for weight in network.weights)
    return {"losses": {"error": error, "microseconds": microseconds}, "size": size}


def fastest(network: Network, X: np.ndarray[Any, Any]) -> float:
    """Return the shortest of several times, which other processes disturb least."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        network.forward(X)
        times.append(time.perf_counter() - began)
    return min(times)


def main(trials: int, journal: str | None = None) -> bohb.Study:
    with threadpool_limits(1):
        study = bohb.minimize(
            objective,
            space(),
            **BUDGETS,
            objectives=["error", "microseconds"],
            constraints={"size": "<= 40kB"},
            settings="best",
            seed=1,
            max_trials=trials,
            journal=journal,
            progress=False,
        )
    print(f"{len(study.trials)} trials; the front on budget {study.front[0].budget:g}:" if study.front else "no front")
    print("  error    time    size   layers")
    for result in study.front:
        values, layers = result.values, result.config["layers"]
        units = [result.config[f"units_{layer + 1}"] for layer in range(layers)]
        kilobytes = values["size"] / KILOBYTE
        print(f"{values['error']:>7.2%}{values['microseconds']:>6.2f}µs{kilobytes:>6.1f}kB   {units}")
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--journal")
    options = parser.parse_args()
    main(options.trials, options.journal)
