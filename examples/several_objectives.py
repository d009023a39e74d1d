"""Two objectives and a constraint: the error of a forest against the time it takes to classify an image.

python examples/several_objectives.py [--trials 150] [--journal several.db]

More trees make fewer errors and take longer. The budget is the number of images to train with. The time is measured on
this machine, so the front differs a little from run to run.
"""

from __future__ import annotations

import argparse
import pickle
import time
from typing import Any

from digits_network import digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import bohb

SPACE: dict[str, Any] = {
    "trees": (1, 300, "log"),
    "kind": ["random forest", "extra trees"],
    "max_depth": (2, 20, "log"),
    "max_features": (0.02, 1.0, "log"),
    "min_samples_leaf": (1, 20, "log"),
}
KINDS: dict[str, Any] = {"random forest": RandomForestClassifier, "extra trees": ExtraTreesClassifier}
REPEATS = 5  # how often the time is measured
KILOBYTE = 1e3


def objective(trial: bohb.Trial) -> dict[str, Any]:
    """Train a forest, and return its error, its time per image in microseconds and its size in bytes."""
    (X, y), (images, labels) = digits()["train"], digits()["valid"]
    options = dict(trial.config)
    kind, trees = KINDS[options.pop("kind")], options.pop("trees")
    forest = kind(trees, **options, random_state=trial.seed % 2**32).fit(X[: int(trial.budget)], y[: int(trial.budget)])
    error = 1 - forest.score(images, labels)
    microseconds = 1e6 * fastest(forest, images) / len(images)
    return {"losses": {"error": error, "microseconds": microseconds}, "size": len(pickle.dumps(forest))}


def fastest(forest: Any, images: Any) -> float:
    """Return the shortest of several times, which other processes disturb least."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        forest.predict(images)
        times.append(time.perf_counter() - began)
    return min(times)


def main(trials: int, journal: str | None = None) -> bohb.Study:
    study = bohb.minimize(
        objective,
        SPACE,
        budgets=[78, 233, 700],
        objectives=["error", "microseconds"],
        constraints={"size": "<= 2MB"},
        preset="best",
        seed=1,
        max_trials=trials,
        journal=journal,
        progress=False,
    )
    print(f"{len(study.trials)} trials; the front on budget {study.front[0].budget:g}:" if study.front else "no front")
    print("  error    time      size  trees")
    for result in study.front:
        values, kilobytes = result.values, result.values["size"] / KILOBYTE
        trees, kind = result.config["trees"], result.config["kind"]
        print(f"{values['error']:>7.2%}{values['microseconds']:>6.2f}µs{kilobytes:>8.1f}kB  {trees} ({kind})")
    return study


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=150)
    parser.add_argument("--journal")
    options = parser.parse_args()
    main(options.trials, options.journal)
