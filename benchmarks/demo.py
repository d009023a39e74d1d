"""The demo's problem over many seeds, beside Optuna: how often is each method better than random search?

    python -m benchmarks.demo
    python -m benchmarks.demo --figure      # only write the page and the picture again, from the stored numbers

Every method may spend 18 full evaluations of 27 epochs. Random search, BOHB and BEST are run exactly as in
examples/tune_digits.py. Optuna is run as it comes: TPE on the largest budget, and TPE with its Hyperband pruner, which
is asked after every epoch. The seeds are not those that were looked at while the demo was written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import drawing, report

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "examples"))

METHODS = ("random", "optuna-tpe", "optuna-tpe-hyperband", "bohb", "best")
LABELS = {**drawing.LABELS, "bohb": "BOHB as published", "best": "BEST"}
PACKAGES = ("bohb", "ConfigSpace", "numpy", "scipy", "scikit-learn", "optuna", "threadpoolctl")
Run = dict[str, Any]


def run(method: str, seed: int, cost: float) -> Run:
    """Run one study; return the loss and the test error of its best network, and the lowest loss over the cost."""
    from tune_digits import tune

    if method.startswith("optuna"):
        loss, test_error, curve = run_optuna(seed, cost, prune=method == "optuna-tpe-hyperband")
    else:
        found = tune(method, seed, cost)
        loss, test_error, curve = found.loss, found.test_error, found.curve
    return {"method": method, "seed": seed, "loss": loss, "test_error": test_error, "curve": curve}


def run_optuna(seed: int, cost: float, prune: bool) -> tuple[float, float, list[tuple[float, float]]]:
    """Run Optuna's TPE, with or without its Hyperband pruner, until the cost is spent."""
    import optuna
    from digits_network import Network, digits
    from tune_digits import EPOCHS

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # The pruner derives a trial's bracket from the study's name: a fixed one makes runs repeatable.
    study = optuna.create_study(
        study_name=f"demo-{seed}",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.HyperbandPruner(1, EPOCHS, 3) if prune else optuna.pruners.NopPruner(),
    )
    data, spent, best, curve = digits(), 0, (float("inf"), 1.0), []
    with threadpool_limits(1), np.errstate(all="ignore"):
        while spent < cost * EPOCHS:
            trial = study.ask()
            network = Network(suggest(trial), 1_000 * seed + trial.number)
            pruned = False
            while network.epochs < EPOCHS and not pruned:
                network.fit_epoch(*data["train"])
                spent += 1
                loss, _ = network.score(*data["valid"])
                trial.report(loss, network.epochs)
                pruned = network.epochs < EPOCHS and trial.should_prune()
            if pruned:
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                continue
            study.tell(trial, loss)
            best = min(best, (loss, network.score(*data["test"])[1]))
            curve.append((spent / EPOCHS, best[0]))
    return *best, curve


def suggest(trial: Any) -> dict[str, Any]:
    """Return a configuration of the demo's space; Optuna defines a space by asking for the active hyperparameters."""
    from digits_network import ACTIVATIONS

    config = {
        "layers": trial.suggest_int("layers", 1, 3),
        "optimizer": trial.suggest_categorical("optimizer", ["sgd", "adam", "rmsprop"]),
        "activation": trial.suggest_categorical("activation", list(ACTIVATIONS)),
        "dropout": trial.suggest_float("dropout", 0, 0.9),
        "lr": trial.suggest_float("lr", 1e-7, 1, log=True),
        "weight_decay": trial.suggest_float("weight_decay", 1e-6, 10, log=True),
        "batch_size": trial.suggest_int("batch_size", 8, 64, log=True),
    }
    for layer in range(1, config["layers"] + 1):
        config[f"units_{layer}"] = trial.suggest_int(f"units_{layer}", 8, 128, log=True)
    if config["optimizer"] == "sgd":
        config["momentum"] = trial.suggest_float("momentum", 0, 0.99)
    else:
        config["beta2"] = trial.suggest_float("beta2", 0.8, 0.9999)
    if config["optimizer"] == "adam":
        config["beta1"] = trial.suggest_float("beta1", 0.5, 0.99)
    return config


def summary(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return by method the means, and in how many of the seeds it is better than random search."""
    by_method = {method: {r["seed"]: r for r in runs if r["method"] == method} for method in METHODS}
    rows = []
    for method, found in by_method.items():
        row: dict[str, Any] = {"method": method, "seeds": len(found)}
        for key in ("loss", "test_error"):
            row[key] = mean(r[key] for r in found.values())
            pairs = [(r[key], by_method["random"][seed][key]) for seed, r in found.items()]
            row[f"{key} wins"] = sum(ours < theirs for ours, theirs in pairs)
            row[f"{key} ties"] = sum(ours == theirs for ours, theirs in pairs)
        rows.append(row)
    return rows


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/demo.md."""
    source = body["source"]
    rows = {row["method"]: row for row in body["summary"]}
    texts = [f"{LABELS[method]} {row['loss']:.3f}" for method, row in rows.items()]
    wins = [
        f"{LABELS[method]} in {row['loss wins']} of {row['seeds']}"
        for method, row in rows.items()
        if method != "random"
    ]
    lines = report.opening(
        f"The demo over {len(source['seeds'])} seeds",
        "Which method finds the best network on the problem of `make demo` at equal cost?",
        [f"Mean validation losses: {', '.join(texts)}.", f"Seeds that beat random search: {', '.join(wins)}."],
        "demo.png",
    )
    lines += [
        "The network, its space and its data are those of `make demo`. Every method spends "
        f"{body['cost']:g} full evaluations. Wins and ties are against random search with the same seed; a tie in test "
        "error is the same number of wrong answers on 297 images. Five choices of the ranges were tried with "
        "seeds 1 to 10, and the one with the clearest differences was kept; those seeds are not used here. "
        "`make bench-demo` measures again.",
        "",
        "| method | mean validation loss | wins | mean test error | wins | ties |",
        "|---|---|---|---|---|---|",
    ]
    for row in body["summary"]:
        loss, error = f"{row['loss']:.4f}", f"{row['test_error']:.2%}"
        wins = [f"{row[f'{key} wins']} of {row['seeds']}" for key in ("loss", "test_error")]
        ties = str(row["test_error ties"])
        if row["method"] == "random":
            wins, ties = ["", ""], ""
        lines.append(f"| {LABELS[row['method']]} | {loss} | {wins[0]} | {error} | {wins[1]} | {ties} |")
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    seeds = f"{source['seeds'][0]} to {source['seeds'][-1]}"
    lines += ["", f"Seeds {seeds}; {source['date'][:10]}; {source['cpu']}; {versions}."]
    return "\n".join(lines) + "\n"


def draw(runs: Sequence[Run], path: Path, cost: float) -> None:
    """Draw the mean of the lowest losses over the cost, from where every seed has trained a network to the end."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    x = np.linspace(1, cost, 500)
    figure, axis = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
    for method in METHODS:
        values = np.array([_at(r["curve"], x) for r in runs if r["method"] == method])  # (seeds, x)
        loss, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        colour = drawing.COLOURS[method]
        axis.plot(x, loss, color=colour, label=LABELS[method], linewidth=1.8)
        axis.fill_between(x, loss - error, loss + error, color=colour, alpha=0.15, linewidth=0)
    seeds = len({r["seed"] for r in runs})
    axis.set(yscale="log", title=f"A neural network on scikit-learn's digits: mean of {seeds} seeds ± standard error")
    axis.set(xlabel="cost in full evaluations of 27 epochs", ylabel="lowest validation loss so far")
    axis.set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
    axis.minorticks_off()
    axis.grid(alpha=0.25)
    axis.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _at(curve: Sequence[Sequence[float]], x: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    spent, loss = np.array(curve).T
    return np.array([np.nan, *loss])[np.searchsorted(spent, x * (1 + 1e-9), side="right")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=101)
    parser.add_argument("--cost", type=float, default=18, help="full evaluations each study may spend")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    parser.add_argument("--figure", action="store_true", help="only write the page and the picture again")
    options = parser.parse_args()
    stored = options.out / "demo.json"
    if not options.figure:
        seeds = range(options.first_seed, options.first_seed + options.seeds)
        with ProcessPoolExecutor(options.jobs) as pool:
            futures = [pool.submit(run, method, seed, options.cost) for seed in seeds for method in METHODS]
            runs = [future.result() for future in futures]
        source = report.provenance(list(seeds), PACKAGES)
        body = report.finite({"source": source, "cost": options.cost, "summary": summary(runs), "runs": runs})
        options.out.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(body, allow_nan=False).replace('{"method"', '\n{"method"') + "\n")
    body = json.loads(stored.read_text())
    (options.out / "demo.md").write_text(page(body))
    draw(body["runs"], options.out / "demo.png", body["cost"])
    print(page(body))


if __name__ == "__main__":
    main()
