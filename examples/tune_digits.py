"""Tune a neural network: random search, BOHB and BEST at equal cost, a kill and a resume, one picture.

python examples/tune_digits.py [directory] [--quick]

Every study evaluates one trial at a time, and linear algebra uses one thread: the numbers are the same on every run of
the same machine. Two studies run at once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from digits_network import BUDGETS, objective, space
from threadpoolctl import threadpool_limits

import bohb
from bohb.journal import SqlJournal

Objective = Callable[[bohb.Trial], Any]
EPOCHS = BUDGETS["max_budget"]
COST = 18  # full evaluations, that is trainings of 27 epochs
METHODS: dict[str, dict[str, Any]] = {
    "random": {"budgets": [EPOCHS], "preset": "paper", "random_fraction": 1},
    "bohb": {**BUDGETS, "preset": "paper"},
    "best": {**BUDGETS, "preset": "best"},
}
LABELS = {"random": "random search", "bohb": "BOHB as published", "best": "BEST"}
COLOURS = {"random": "#8a8f98", "bohb": "#2a80c2", "best": "#d9730d"}


@dataclass(frozen=True, slots=True)
class Found:
    """What a study found; plain data, so that it can be sent from the process that ran the study.

    trials: the configuration, the budget and the loss of every trial.
    curve: after how many full evaluations the lowest loss on the largest budget changed, and to what.
    """

    best: int
    loss: float
    test_error: float
    config: dict[str, Any]
    trials: list[tuple[dict[str, Any], float, float | None]]
    curve: list[tuple[float, float]]


def tune(
    method: str, seed: int, cost: float = COST, journal: Path | None = None, objective: Objective = objective
) -> Found:
    """Run one study, or resume it if the journal has it."""
    with threadpool_limits(1):
        study = bohb.minimize(
            objective,
            space(),
            **METHODS[method],
            seed=seed,
            max_cost=cost,
            journal=journal,
            progress=False,
        )
    best = study.incumbent
    assert best is not None
    trials = [(trial.config, trial.budget, outcome.loss if outcome else None) for trial, outcome in study.trials]
    test_error = best.outcome.info["test_error"]
    return Found(best.trial.number, best.loss, test_error, best.config, trials, curve(study))


def curve(study: bohb.Study) -> list[tuple[float, float]]:
    """Return the lowest loss on the largest budget over the cost."""
    spent = 0.0
    points: list[tuple[float, float]] = []
    for trial, outcome in study.trials:
        spent += (trial.budget - (trial.previous_budget or 0)) / EPOCHS
        if outcome is not None and outcome.loss is not None and trial.budget == EPOCHS:
            points.append((spent, min([outcome.loss, *(loss for _, loss in points[-1:])])))
    return [*points, *((spent, loss) for _, loss in points[-1:])]


def compare(directory: Path, seeds: Sequence[int], cost: float) -> dict[str, list[Found]]:
    """Run every method with every seed, two studies at once, and print what each one finds."""
    print(" " * 18 + "".join(f"{f'seed {seed}':>8}" for seed in seeds) + f"{'mean':>9}   test error   trials")
    compared: dict[str, list[Found]] = {}
    with ProcessPoolExecutor(2) as pool:
        running = {
            method: [pool.submit(tune, method, seed, cost, directory / f"{method}-{seed}.db") for seed in seeds]
            for method in METHODS
        }
        for method, futures in running.items():
            print(f"{LABELS[method]:<18}", end="", flush=True)
            compared[method] = []
            for future in futures:
                compared[method].append(future.result())
                print(f"{compared[method][-1].loss:>8.4f}", end="", flush=True)
            loss = mean(found.loss for found in compared[method])
            error = mean(found.test_error for found in compared[method])
            trials = mean(len(found.trials) for found in compared[method])
            print(f"{loss:>9.4f}{error:>13.2%}{trials:>9.0f}")
    return compared


def die_in_trial_25(trial: bohb.Trial) -> dict[str, Any]:
    """Train as usual, but kill this process without warning in trial 25."""
    if trial.number == 25:
        os.kill(os.getpid(), signal.SIGKILL)
    return objective(trial)


def kill_and_resume(journal: Path, undisturbed: Found, cost: float) -> None:
    """Kill a runner in the middle of a study, resume the study, and compare it with one that was not killed."""
    runner = multiprocessing.Process(target=tune, args=("best", 1, cost, journal, die_in_trial_25))
    runner.start()
    runner.join()
    assert runner.exitcode == -signal.SIGKILL, runner.exitcode
    with SqlJournal(journal) as stored:
        kept = len(bohb.History().extend(stored.read()).outcomes)
    print(f"BEST with seed 1 again, killed in trial 25. Results on disk: {kept}.")
    resumed = tune("best", 1, cost, journal)
    same = sum(a == b for a, b in zip(resumed.trials, undisturbed.trials, strict=False))
    print(f"The same call resumes it: {len(resumed.trials)} trials, {same} of them equal to the first study's.")


def draw(compared: dict[str, list[Found]], path: Path) -> None:
    """Draw the lowest loss over the cost, a line for each study."""
    from plotly import graph_objects as go

    figure = go.Figure()
    for method, studies in compared.items():
        for number, found in enumerate(studies):
            x, y = zip(*found.curve, strict=True)
            line = {"shape": "hv", "color": COLOURS[method], "width": 2}
            figure.add_scatter(
                x=x, y=y, mode="lines", line=line, name=LABELS[method], legendgroup=method, showlegend=number == 0
            )
    figure.update_layout(
        template="simple_white",
        title="A neural network on scikit-learn's digits: three methods, a line for each seed",
        xaxis_title="cost in full evaluations (27 epochs each)",
        yaxis={"title": "lowest validation loss so far", "type": "log", "tickvals": [0.05, 0.1, 0.2, 0.5, 1, 2]},
        legend={"x": 0.98, "y": 0.98, "xanchor": "right"},
        font_size=15,
    )
    figure.write_html(path, include_plotlyjs=True, config={"responsive": True, "displaylogo": False})


def main(directory: Path, seeds: Sequence[int], cost: float) -> None:
    """Run the demo.

    cost: of each study, in full evaluations.
    """
    began = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(
        "A neural network on scikit-learn's digits: 12 hyperparameters, 5 of them\n"
        "conditional. The loss is the log loss on 800 validation images, the budget is\n"
        f"1 to 27 epochs. Each study may spend the cost of {cost:g} trainings of 27 epochs.\n"
    )
    compared = compare(directory, seeds, cost)
    print("\nKill -9 and resume")
    kill_and_resume(directory / "killed.db", compared["best"][0], cost / 3)
    method, seed, winner = min(
        ((method, seed, found) for method in METHODS for seed, found in zip(seeds, compared[method], strict=True)),
        key=lambda row: row[2].loss,
    )
    print(f"\nThe best configuration, found by {LABELS[method]} with seed {seed}")
    for name, value in winner.config.items():
        print(f"  {name:<14}{value:.4g}" if isinstance(value, float) else f"  {name:<14}{value}")
    draw(compared, directory / "demo.html")
    print(f"\nThe picture is in {directory / 'demo.html'}. All took {time.monotonic() - began:.0f} s. Look further:")
    command, journal = os.path.relpath(Path(sys.executable).parent / "bohb"), directory / f"{method}-{seed}.db"
    print(f"  {command} status {journal}\n  {command} why {winner.best} {journal}\n  {command} dashboard {journal}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=Path("demo"))
    parser.add_argument("--quick", action="store_true", help="one seed and a sixth of the cost")
    options = parser.parse_args()
    main(options.directory, [1] if options.quick else [1, 2, 3], COST / 6 if options.quick else COST)
