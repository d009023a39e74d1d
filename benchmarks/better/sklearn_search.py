"""Compare BOHBSearchCV with two searches of scikit-learn at equal cost, on a neural network for digits.

    python -m benchmarks.better.sklearn_search                        # 10 seeds; 8, 16 and 32 full evaluations
    python -m benchmarks.better.sklearn_search --runs 2 --costs 8 --jobs 1 --out /tmp/sklearn_search

One full evaluation is 27 epochs on each split. RandomizedSearchCV spends them on as many configurations. For
HalvingRandomSearchCV the number of configurations is chosen so that its four rungs (1, 3, 9 and 27 epochs) cost as
much. BOHBSearchCV has the same four budgets. Two errors of the best parameters are compared: the cross-validated one
that the searches minimise, and that on a third of the data that no search has seen, of three refitted networks.
BOHBSearchCV and RandomizedSearchCV run once with the largest cost; what they would have given for a smaller one
follows from their rows. Finished runs are stored in --cache.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.fingerprint import PACKAGE, code_digest, deciding_files
from benchmarks.report import RESULTS, ROOT, goal_table, opening, provenance, table, verdict, write

EPOCHS, ETA, SPLITS = 27, 3, 2
REFITS = 3
RUNGS = 4  # 1, 3, 9 and 27 epochs
CHOICES: dict[str, list[Any]] = {
    "batch_size": [64, 128, 256],
    "hidden_layer_sizes": [(16,), (32,), (64,), (32, 32)],
    "activation": ["relu", "tanh", "logistic"],
    "solver": ["adam", "sgd"],
}
LOG = {"learning_rate_init": (1e-5, 1e-1), "alpha": (1e-7, 1.0)}
LINEAR = {"momentum": (0.0, 0.99)}
METHODS = ("BOHBSearchCV", "HalvingRandomSearchCV", "RandomizedSearchCV")
LABELS = ("CV error", "test error")


@dataclass(frozen=True, slots=True)
class Run:
    """One search: everything its result depends on, except the code."""

    method: str
    seed: int
    costs: tuple[int, ...]

    @property
    def key(self) -> str:
        return json.dumps([*asdict(self).values(), code()])


def code() -> str:
    """Return a fingerprint of the code that decides."""
    searches = sorted((PACKAGE / "integrations").glob("sklearn*.py"))
    return code_digest((Path(__file__), *deciding_files(), *searches))


def search_of(method: str, seed: int, cost: int) -> Any:
    """Return a search that may spend `cost` full evaluations."""
    from scipy.stats import loguniform, uniform
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingRandomSearchCV, RandomizedSearchCV
    from sklearn.neural_network import MLPClassifier

    from bohb.integrations.sklearn import BOHBSearchCV

    network = MLPClassifier(max_iter=EPOCHS, random_state=seed)
    common: dict[str, Any] = {"cv": SPLITS, "random_state": seed, "refit": False}
    budgets: dict[str, Any] = {"resource": "max_iter", **common}
    if method == "BOHBSearchCV":
        space = {**CHOICES, **{name: (*bounds, "log") for name, bounds in LOG.items()}, **LINEAR}
        budgets |= {"min_resources": 1, "max_resources": EPOCHS, "eta": ETA}
        return BOHBSearchCV(network, space, preset="paper", max_cost=cost, **budgets)
    distributions = {
        **CHOICES,
        **{name: loguniform(*bounds) for name, bounds in LOG.items()},
        **{name: uniform(low, high - low) for name, (low, high) in LINEAR.items()},
    }
    if method == "RandomizedSearchCV":
        return RandomizedSearchCV(network, distributions, n_iter=cost, **common)
    candidates = cost * EPOCHS // RUNGS  # each rung costs as much as the first, one epoch for each of them
    return HalvingRandomSearchCV(
        network,
        distributions,
        n_candidates=candidates,
        min_resources=1,
        max_resources=EPOCHS,
        factor=ETA,
        return_train_score=False,
        **budgets,
    )


def measure(run: Run) -> dict[int, dict[str, float]]:
    """For each cost: the error that the search saw, that on unseen data after refitting, and what was really spent."""
    from sklearn.base import clone
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    warnings.simplefilter("ignore")  # 27 epochs need not converge
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, test_size=1 / 3, random_state=run.seed, stratify=y)
    measured: dict[int, dict[str, float]] = {}
    for cost in run.costs:
        if not measured or run.method == "HalvingRandomSearchCV":
            limit = cost if run.method == "HalvingRandomSearchCV" else max(run.costs)
            search = search_of(run.method, run.seed, limit).fit(X_train, y_train)
        spent, score, params = best_within(search.cv_results_, cost)
        errors = []
        for refit in range(REFITS):
            network = clone(search.estimator).set_params(**params, random_state=1000 + refit)
            errors.append(1 - network.fit(X_train, y_train).score(X_test, y_test))
        measured[cost] = {"CV error": 1 - score, "test error": statistics.fmean(errors), "spent": spent}
    return measured


def best_within(results: dict[str, Any], cost: int) -> tuple[float, float, dict[str, Any]]:
    """What was spent within the cost, and the best row: the largest number of epochs first, then the score."""
    epochs = [int(n) for n in results["n_resources"]] if "n_resources" in results else [EPOCHS] * len(results["params"])
    spent, best = 0, (0, -math.inf, -1)
    for row, (n, score) in enumerate(zip(epochs, results["mean_test_score"], strict=True)):
        if spent + n > cost * EPOCHS:
            break
        spent += n
        if not math.isnan(score):
            best = max(best, (n, float(score), -row))
    return spent / EPOCHS, best[1], results["params"][-best[2]]


def run_all(runs: list[Run], kept: Path, jobs: int) -> dict[Run, dict[int, dict[str, float]]]:
    """The results of all runs: from the cache, or computed now and added to it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    lines = kept.read_text().splitlines() if kept.exists() else []
    stored = {entry["key"]: entry["measured"] for entry in map(json.loads, lines)}
    results = {run: {int(c): m for c, m in stored[run.key].items()} for run in runs if run.key in stored}
    keys = {run: run.key for run in runs if run not in results}
    print(f"# {len(results)} runs from {kept}, {len(keys)} to do", file=sys.stderr, flush=True)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool, kept.open("a") as file:
        futures = {pool.submit(measure, run): run for run in keys}
        for done, future in enumerate(as_completed(futures), 1):
            run = futures[future]
            results[run] = future.result()
            file.write(json.dumps({"key": keys[run], "measured": results[run]}) + "\n")
            file.flush()
            print(f"# {done}/{len(keys)} {run.method} seed {run.seed}", file=sys.stderr, flush=True)
    return results


def values_of(results: dict[Run, dict[int, dict[str, float]]], method: str, cost: int, label: str) -> list[float]:
    """One column of a method, in the order of seeds."""
    ordered = sorted(results.items(), key=lambda item: item[0].seed)
    return [measured[cost][label] for run, measured in ordered if run.method == method]


def summary(results: dict[Run, dict[int, dict[str, float]]], costs: list[int]) -> list[dict[str, Any]]:
    """One row per method and cost; differences are paired by seed, since these share data and network."""
    rows = []
    for cost in costs:
        for method in METHODS:
            row: dict[str, Any] = {"full evaluations": cost, "search": method}
            row["spent"] = statistics.fmean(values_of(results, method, cost, "spent"))
            for label in LABELS:
                values, ours = (values_of(results, m, cost, label) for m in (method, METHODS[0]))
                behind = [theirs - own for theirs, own in zip(values, ours, strict=True)]
                row |= {label: statistics.fmean(values), f"± {label}": standard_error(values)}
                row |= {f"{label} behind": statistics.fmean(behind), f"± {label} behind": standard_error(behind)}
            rows.append(row)
    return rows


def standard_error(values: list[float]) -> float | None:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def claims(rows: list[dict[str, Any]]) -> list[str]:
    """Whether BOHBSearchCV's mean error is below the others' by more than two standard errors, at each cost."""
    lines = []
    for row in rows:
        for label in LABELS if row["search"] != METHODS[0] else ():
            behind, error = row[f"{label} behind"], row[f"± {label} behind"]
            detail = f"{behind:+.2%} ± {error or 0:.2%} at {row['full evaluations']} full evaluations"
            holds = None if error is None else behind > 2 * error
            lines.append(verdict(holds, f"{label} of BOHBSearchCV below {row['search']}", detail))
    return lines


def draw(rows: list[dict[str, Any]], title: str, path: Path) -> None:
    """Draw mean errors ± standard error over the cost: cross-validated, and on unseen data."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for axes, label in zip(panels, LABELS, strict=True):
        for number, method in enumerate(METHODS):
            mine = [row for row in rows if row["search"] == method]
            x = [row["full evaluations"] * 1.04 ** (number - 1) for row in mine]  # side by side
            y, error = [100 * row[label] for row in mine], [100 * (row[f"± {label}"] or 0) for row in mine]
            axes.errorbar(x, y, error, marker="o", capsize=3, label=method)
        costs = sorted({row["full evaluations"] for row in rows})
        axes.set(xscale="log", ylabel=f"mean {label} in %", xlabel="cost in full evaluations")
        axes.set_xticks(costs, [str(cost) for cost in costs])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
    panels[0].legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/sklearn_search.md."""
    costs = sorted({cost for run in body["runs"] for cost in run["costs"]})
    results = {
        Run(run["method"], run["seed"], tuple(run["costs"])): {int(c): found for c, found in run["measured"].items()}
        for run in body["runs"]
    }
    rows, source = summary(results, costs), body["source"]
    heads = [head for label in LABELS for head in (label, "behind BOHBSearchCV, paired")]
    lines = opening(
        "BOHBSearchCV and two searches of scikit-learn",
        "Does `BOHBSearchCV` find better parameters than `RandomizedSearchCV` and `HalvingRandomSearchCV` at equal "
        "cost?",
        [_difference(rows, method) for method in METHODS[1:]],
        "sklearn_search.png",
    )
    lines += ["Errors of the best parameters, mean ± standard error; differences are paired by seed.", ""]
    lines += [f"| full evaluations | search | {' | '.join(heads)} |", "|---" * 6 + "|"]
    for row in rows:
        cells = [str(row["full evaluations"]), row["search"]]
        for label in LABELS:
            cells.append(f"{row[label]:.2%} ± {row[f'± {label}'] or 0:.2%}")
            paired = f"{row[f'{label} behind']:+.2%} ± {row[f'± {label} behind'] or 0:.2%}"
            cells.append("" if row["search"] == METHODS[0] else paired)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "## Goals", "", *goal_table(body["claims"]), "", "## Source", ""]
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    lines += [f"- command: `{source['command']}`", f"- versions: {versions}", f"- {source['cpu']}, {source['date']}"]
    return "\n".join(lines) + "\n"


def _difference(rows: list[dict[str, Any]], method: str) -> str:
    label = LABELS[0]
    found = [
        f"{row[f'{label} behind']:+.2%} ± {row[f'± {label} behind'] or 0:.2%} after {row['full evaluations']}"
        for row in rows
        if row["search"] == method
    ]
    return f"The cross-validated error of {method} minus that of BOHBSearchCV is {', '.join(found)} evaluations."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10, help="seeds, from 0")
    parser.add_argument("--costs", type=lambda text: sorted(map(int, text.split(","))), default=[8, 16, 32])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/benchmarks/sklearn_search.jsonl")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    # The children read these before they import numpy.
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})
    runs = [Run(method, seed, tuple(args.costs)) for seed in range(args.runs) for method in METHODS]
    results = run_all(runs, args.cache, args.jobs)
    rows = summary(results, args.costs)
    verdicts = claims(rows)
    print(table(rows), "", *verdicts, sep="\n")
    source = provenance(range(args.runs), ["bohb", "scikit-learn", "ConfigSpace", "numpy", "scipy"])
    every = [{**asdict(run), "measured": measured} for run, measured in results.items()]
    source |= {"code": code()}
    write(args.out, "sklearn_search", source, {"claims": verdicts, "runs": every}, rows)
    (args.out / "sklearn_search.md").write_text(page({"source": source, "claims": verdicts, "runs": every}))
    title = f"A network on the digits, {args.runs} seeds, mean ± standard error"
    draw(rows, title, args.out / "sklearn_search.png")


if __name__ == "__main__":
    main()
