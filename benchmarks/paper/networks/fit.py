"""From recorded curves to surrogates, as Appendix I describes: forests, budgets, optima, and how good the forests are.

    python -m benchmarks.paper.networks.fit --recorded DIR      # import what `train` and `timing` wrote, then fit
    python -m benchmarks.paper.networks.fit                     # fit to the curves in curves/

Writes curves/ (errors as counts of wrong rows), forests/ and docs/results/networks_surrogates.md, and prints the table
for `surrogate.TASKS`.

The largest budget is the power of 3 closest to the training time of the configuration that the forests predict to be
the best after 50 epochs; the smallest is 1/27 of it, as in the paper. If less than two thirds of the recorded
configurations finish an epoch within the smallest budget, both are multiplied by 3. The optimum is the one on the
largest budget.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, differential_evolution
from scipy.stats import spearmanr

from benchmarks.paper.networks.data import FILES
from benchmarks.paper.networks.forest import Array, Forest, grow
from benchmarks.paper.networks.space import EPOCHS, RANGES, Configs
from benchmarks.paper.networks.surrogate import HERE, Surrogate, Task, curves, features, times
from benchmarks.report import RESULTS, opening

FOLDS = 10
RATIO = 27  # of the largest budget to the smallest
MOST = 2 / 3  # smallest share of configurations that finish an epoch on the smallest budget
SEARCHES = 2  # runs of differential evolution for the optimum; the best one is used
GENERATIONS = 150  # of 600


def take_over(recorded: Path, name: str) -> None:
    """Store a recording in the repository, exact and small."""
    with np.load(recorded / f"{name}.npz") as file:
        notes = json.loads(str(file["notes"]))
        train_rows, rows = notes.pop("rows")[name]
        notes |= {"made by": "benchmarks.paper.networks.train", "training rows": train_rows, "validation rows": rows}
        wrong = np.rint(file["error"].astype(float) * rows).astype(np.uint16)
        configs = {key: file[key].astype(np.float32) for key in RANGES}
    np.savez_compressed(HERE / "curves" / name, wrong=wrong, rows=rows, notes=json.dumps(notes), **configs)


def take_over_times(recorded: Path) -> None:
    """Store the recorded times per epoch in the repository."""
    with np.load(recorded / "time.npz") as file:
        notes = json.loads(str(file["notes"])) | {"made by": "benchmarks.paper.networks.timing"}
        columns = {key: file[key].astype(np.float32) for key in file if key != "notes"}
    np.savez_compressed(HERE / "curves" / "time", notes=json.dumps(notes), **columns)


def store_forests(name: str) -> None:
    """Grow both forests of a data set and store them."""
    found = {"error": grow(0, *curves(name)), "time": grow(1, *times(name))}
    parts = {f"{part}_{key}": value for part, trees in found.items() for key, value in _fields(trees).items()}
    np.savez_compressed(HERE / "forests" / name, **parts)  # type: ignore[arg-type]


def _fields(trees: object) -> dict[str, NDArray[np.generic]]:
    return {key: getattr(trees, key) for key in type(trees).__slots__}  # type: ignore[attr-defined]


def inputs(U: Array) -> NDArray[np.float32]:
    """Return points of the unit cube (n, 6) as inputs of the forests."""
    configs: Configs = {}
    for u, (name, (low, high, log, whole)) in zip(U.T, RANGES.items(), strict=True):
        low, high = (low - 0.499, high + 0.499) if whole else (low, high)
        value = np.exp(math.log(low) + u * math.log(high / low)) if log else low + u * (high - low)
        configs[name] = np.rint(value) if whole else value
    return features(configs)


def minimum(loss: Callable[[NDArray[np.float32]], Array], searches: int) -> tuple[float, NDArray[np.float32]]:
    """Return the lowest value that `searches` runs of differential evolution find, and its inputs."""
    best: tuple[float, Array] = math.inf, np.zeros(len(RANGES))

    def of_cube(U: Array) -> Any:
        return loss(inputs(U.T))

    for seed in range(searches):
        found: Any = differential_evolution(
            of_cube, Bounds([0] * len(RANGES), [1] * len(RANGES)),
            rng=seed, popsize=100, recombination=0.9, maxiter=GENERATIONS, tol=0, polish=False,
            vectorized=True, updating="deferred",
        )  # fmt: skip
        best = min(best, (float(found.fun), found.x), key=lambda pair: pair[0])
    return best[0], inputs(best[1][None])


def task_of(name: str) -> tuple[Task, float]:
    """Return the task of a data set, and the share of recorded configurations with an epoch on the smallest budget."""
    surrogate = Surrogate(name)
    _, best = minimum(lambda X: surrogate.many(X)[1][:, -1], 1)
    each, _ = surrogate.many(best)
    recorded, _ = surrogate.many(curves(name)[0])
    seconds = 3.0 ** round(math.log(EPOCHS * each[0], 3))
    while (recorded <= seconds / RATIO).mean() < MOST:
        seconds *= 3
    optimum, _ = minimum(lambda X: surrogate.losses(X, seconds), SEARCHES)
    return Task(seconds, optimum), float((recorded <= seconds / RATIO).mean())


def held_out(seed: int, X: NDArray[np.float32], Y: Array) -> Array:
    """Return the predictions of tenfold cross-validation."""
    fold = np.random.default_rng(seed).permutation(len(X)) % FOLDS
    guess = np.zeros_like(Y)
    for number in range(FOLDS):
        known = fold != number
        guess[~known] = Forest(grow(seed, X[known], Y[known]), X[known], Y[known]).many(X[~known])
    return guess


def quality(name: str) -> dict[str, float]:
    """Return root mean squared errors and rank correlations on held-out configurations."""
    X, Y = curves(name)
    guess, final = held_out(0, X, Y), Y[:, -1]
    good = final <= np.quantile(final, 0.2)
    X_time, log_time = times(name)
    guess_time = held_out(0, X_time, log_time)
    return {
        "RMSE": _rmse(guess - Y),
        "RMSE, epoch 50": _rmse(guess[:, -1] - final),
        "RMSE, best fifth": _rmse(guess[good, -1] - final[good]),
        "rank correlation": float(spearmanr(guess[:, -1], final).statistic),
        "in the best fifth": float(spearmanr(guess[good, -1], final[good]).statistic),
        "time: RMSE of ln s": _rmse(guess_time - log_time),
        "time: rank correlation": float(spearmanr(guess_time, log_time).statistic),
    }


def _rmse(error: Array) -> float:
    return float(np.sqrt(np.mean(error**2)))


def markdown(rows: dict[str, dict[str, float]]) -> str:
    """Return all numbers as a table."""
    names = list(next(iter(rows.values())))
    lines = ["| data set | " + " | ".join(names) + " |", "|" + "---|" * (len(names) + 1)]
    lines += [f"| {name} | " + " | ".join(f"{row[key]:.3g}" for key in names) + " |" for name, row in rows.items()]
    low, high = (f"{extreme(row['rank correlation'] for row in rows.values()):.2f}" for extreme in (min, max))
    close = [f"{extreme(row['in the best fifth'] for row in rows.values()):.2f}" for extreme in (min, max)]
    head = opening(
        "Surrogates of feed-forward networks",
        "How well do the surrogates predict networks that they were not fitted to?",
        [
            f"The rank correlation of predicted and recorded errors is {low} to {high}.",
            f"Among the best fifth of the configurations it is {close[0]} to {close[1]}.",
        ],
    )
    head += ["Written by `python -m benchmarks.paper.networks.fit`. Errors and rank correlations are on held-out"]
    head += [f"configurations, {FOLDS}-fold; times in seconds of one core per epoch.", ""]
    return "\n".join([*head, *lines]) + "\n"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recorded", type=Path, help="a directory with recordings to import first")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args(words)
    if args.recorded is not None:
        take_over_times(args.recorded)
    rows = {}
    for name in sorted(FILES):
        if args.recorded is not None:
            take_over(args.recorded, name)
        store_forests(name)
        task, share = task_of(name)
        print(f'    "{name}": Task({task.seconds!r}, {task.optimum!r}),', flush=True)
        recorded = float(curves(name)[1].min())
        more = {"smallest budget": task.seconds / RATIO, "with an epoch": share, "lowest recorded error": recorded}
        rows[name] = asdict(task) | more | quality(name)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "networks_surrogates.md").write_text(markdown(rows))


if __name__ == "__main__":
    main()
