"""Tune small, answer large: `bohb.extrapolate` beside simple rules, on real runs of two kinds.

    python -m benchmarks.extrapolate                     # about 20 minutes of CPU time; trainings are kept in --cache
    python -m benchmarks.extrapolate --seeds 2 --kinds language --out /tmp/extrapolate

*Language models*: 1 404 pretraining runs (Step Law) on a grid of learning rates and batch sizes at 12 sizes of model
and data. *Networks*: multilayer perceptrons on the data set letter, on a grid of learning rates and weight decays at
six sizes of network and data, and at one that is eight times as expensive; they are trained here.

From a grid, a tuner's 20 runs of a size are taken: six at random, then a third at random and the others near the best
three so far. The excess of a recommendation is its loss above the lowest of the target's grid, interpolated linearly
between the runs of the grid.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import RBFInterpolator

from benchmarks.data import find
from benchmarks.report import RESULTS, ROOT, finite, goal_table, opening, provenance, verdict, wrapped
from bohb.analysis.extrapolation import Extrapolation, SizedRun, extrapolated
from bohb.core.space import Array

PER_SIZE, FIRST = 20, 6  # runs of a size, and those at random that come first
EPOCHS = 15
OURS, NEAREST = "bohb.extrapolate", "the best of the nearest size"
# Width and training-set size of the networks; the last one is the target.
NETWORKS = ((16, 500), (16, 1000), (32, 1000), (32, 2000), (64, 2000), (64, 4000), (128, 16000))
RATES, DECAYS = np.geomspace(3e-4, 0.1, 9), np.geomspace(1e-6, 1.0, 7)
Config = dict[str, float]
Rule = Callable[[Sequence[SizedRun], dict[str, float]], Config]


@dataclass(frozen=True, slots=True)
class Case:
    """Runs on grids, and which sizes are known and asked for.

    width: the scale variable that width scaling follows, and the hyperparameter that it scales.
    """

    name: str
    grids: dict[tuple[float, ...], list[SizedRun]]
    known: list[tuple[float, ...]]
    targets: list[tuple[float, ...]]
    width: tuple[str, str, float]

    def coordinates(self, config: Config) -> Array:
        return np.log([config[name] for name in self.names])

    @property
    def names(self) -> list[str]:
        return list(next(iter(self.grids.values()))[0].config)


def language(column: str = "smooth loss") -> list[Case]:
    """Return the cases of the language models."""
    grids: dict[tuple[float, ...], list[SizedRun]] = {}
    with open(find("llm", "steplaw_dense_small.csv"), newline="") as file:
        for row in csv.DictReader(file):
            size = float(row["N"]), float(row["D"])
            config = {"lr": float(row["lr"]), "bs": float(row["bs"])}
            run = SizedRun(config, {"N": size[0], "D": size[1]}, float(row[column]), 6 * size[0] * size[1])
            grids.setdefault(size, []).append(run)
    small = [size for size in grids if size[0] < 3e8]
    large = [size for size in grids if size[0] > 4e8]
    few = [size for size in small if size[1] <= 2.5e10]
    width = ("N", "lr", -0.5)
    return [
        Case("language models, up to 268 M parameters and 25 G tokens", grids, few, large, width),
        Case("language models, up to 268 M parameters", grids, small, large, width),
        Case("language models, up to 14 G tokens", grids, [s for s in small if s[1] <= 1.5e10],
             [s for s in grids if s[1] > 3e10], width),
    ]  # fmt: skip


def networks(cache: Path) -> list[Case]:
    """Return the case of the networks, trained where they are not in the cache."""
    grids = {tuple(map(float, size)): list(_trained(size, cache)) for size in NETWORKS}
    known = [tuple(map(float, size)) for size in NETWORKS]
    return [Case("networks on letter", grids, known[:-1], known[-1:], ("width", "lr", -0.5))]


def _trained(size: tuple[int, int], cache: Path) -> Iterator[SizedRun]:
    from sklearn.neural_network import MLPClassifier

    data = np.load(find("raw", "letter.npz"))
    X, y = data["X"] / 15.0, data["y"]
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: size[1]], order[16000:]
    for rate in RATES:
        for decay in DECAYS:
            kept = cache / f"letter-{size[0]}-{size[1]}-{rate:.3g}-{decay:.3g}.json"
            if not kept.exists():
                model = MLPClassifier(
                    (size[0],), learning_rate_init=rate, alpha=decay * size[1] / 1000, max_iter=EPOCHS, batch_size=100,
                    n_iter_no_change=EPOCHS, random_state=0,
                )  # fmt: skip
                with warnings.catch_warnings(action="ignore"):
                    probability = model.fit(X[train], y[train]).predict_proba(X[test])
                right = probability[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
                kept.write_text(json.dumps(float(-np.log(np.maximum(right, 1e-12)).mean())))
            scale = {"width": float(size[0]), "examples": float(size[1])}
            yield SizedRun({"lr": rate, "decay": decay}, scale, json.loads(kept.read_text()), size[0] * size[1])


def tuned(rng: np.random.Generator, grid: Sequence[SizedRun], case: Case) -> list[SizedRun]:
    """Return the runs of a size that a tuner would have made."""
    left = list(range(len(grid)))
    X = np.array([case.coordinates(dict(run.config)) for run in grid])
    unit = np.ptp(X, axis=0) / 8
    chosen: list[int] = []
    while len(chosen) < PER_SIZE:
        if len(chosen) < FIRST or rng.random() < 1 / 3:
            pick = int(rng.choice(left))
        else:
            best = sorted(chosen, key=lambda i: grid[i].loss)[:3]
            at = X[rng.choice(best)] + rng.normal(size=X.shape[1]) * unit
            pick = min(left, key=lambda i: float((((X[i] - at) / unit) ** 2).sum()))
        left.remove(pick)
        chosen.append(pick)
    return [grid[i] for i in chosen]


def _sizes(runs: Sequence[SizedRun]) -> dict[tuple[float, ...], list[SizedRun]]:
    found: dict[tuple[float, ...], list[SizedRun]] = {}
    for run in runs:
        found.setdefault(tuple(run.scale.values()), []).append(run)
    return found


def _best(runs: Sequence[SizedRun]) -> SizedRun:
    return min(runs, key=lambda run: run.loss)


def nearest(runs: Sequence[SizedRun], at: dict[str, float]) -> SizedRun:
    """Return the best run of the size nearest to the target, in logarithms."""
    target = np.log(list(at.values()))
    sizes = _sizes(runs)
    return _best(sizes[min(sizes, key=lambda size: float(((np.log(size) - target) ** 2).sum()))])


def rules(case: Case) -> dict[str, Rule]:
    """Return what is compared: rules from runs and a target to a configuration."""
    variable, scaled, power = case.width

    def largest(runs: Sequence[SizedRun], _at: dict[str, float]) -> Config:
        sizes = _sizes(runs)
        return dict(_best(sizes[max(sizes, key=math.prod)]).config)

    def width_scaling(runs: Sequence[SizedRun], at: dict[str, float]) -> Config:
        best = nearest(runs, at)
        return {**best.config, scaled: best.config[scaled] * (at[variable] / best.scale[variable]) ** power}

    def minima(runs: Sequence[SizedRun], at: dict[str, float]) -> Config:
        best = [_best(each) for each in _sizes(runs).values()]
        design = np.column_stack([np.ones(len(best)), np.log([list(run.scale.values()) for run in best])])
        line = np.linalg.lstsq(design, np.array([case.coordinates(dict(run.config)) for run in best]), rcond=None)[0]
        return dict(zip(case.names, np.exp(np.array([1, *np.log(list(at.values()))]) @ line).tolist(), strict=True))

    return {
        NEAREST: lambda runs, at: dict(nearest(runs, at).config),
        "the best of the largest size": largest,
        f"the nearest size, {scaled} ∝ {variable}^{power:g}": width_scaling,
        "a power law through the minima": minima,
    }


def measured(case: Case, seeds: int) -> list[dict[str, Any]]:
    """Return a row for each seed, target and rule."""
    rows = []
    surface, lowest = {}, {}
    for target in case.targets:
        grid = case.grids[target]
        X = np.array([case.coordinates(dict(run.config)) for run in grid])
        losses = np.log([run.loss for run in grid])
        surface[target] = (RBFInterpolator(X, losses, kernel="linear", neighbors=12), X.min(axis=0), X.max(axis=0))
        lowest[target] = float(losses.min())

    def excess(target: tuple[float, ...], config: Config) -> float:
        predict, low, high = surface[target]
        return math.expm1(float(predict(np.clip(case.coordinates(config), low, high)[None])[0]) - lowest[target])

    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        runs = [run for size in case.known for run in tuned(rng, case.grids[size], case)]
        cost = sum(run.cost or 0.0 for run in runs)
        for target in case.targets:
            at = dict(case.grids[target][0].scale)
            found: Extrapolation = extrapolated(runs, at, dict.fromkeys(case.names, "log"))
            config = {name: float(value) for name, value in found.config.items()}
            true = math.exp(lowest[target]) * (1 + excess(target, config))
            low, high = found.loss_interval
            grid = case.grids[target]
            common = {"case": case.name, "seed": seed, "target": list(target)}
            share = cost / sum(run.cost or 0.0 for run in grid)
            more = {"covered": low <= true <= high, "width": (high - low) / true, "share": share}
            rows.append({**common, "rule": OURS, "excess": excess(target, config), **more})
            for name, rule in rules(case).items():
                rows.append({**common, "rule": name, "excess": excess(target, rule(runs, at))})
            n = max(1, round(cost / (grid[0].cost or 1.0)))
            searched = [grid[i] for i in rng.choice(len(grid), min(n, len(grid)), replace=False)]
            rows.append(
                {
                    **common,
                    "rule": "random search at the target, equal cost",
                    "excess": _best(searched).loss / math.exp(lowest[target]) - 1,
                }
            )
    return rows


def summary(name: str, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of a case: the excess by rule, and how often the intervals of the loss hold."""
    by_rule = {rule: [row["excess"] for row in rows if row["rule"] == rule] for rule in (row["rule"] for row in rows)}
    ours = [row for row in rows if row["rule"] == OURS]
    return {
        "case": name,
        "rules": {rule: [float(np.mean(each)), float(np.quantile(each, 0.9))] for rule, each in by_rule.items()},
        "cases": len(ours),
        **{name: float(np.mean([row[name] for row in ours])) for name in ("covered", "width", "share")},
    }


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/extrapolate.md."""
    first = body["cases"][0]
    (mean, quantile), reused = first["rules"][OURS], first["rules"][NEAREST][0]
    sentences = [
        "From 120 runs of language models with up to 268 M parameters, the recommendation for 429 M parameters is "
        f"{100 * mean:.3f} % above the best loss of the grid there, and the best of the nearest size "
        f"{100 * reused:.3f} %.",
        f"Intervals of the loss hold in {100 * first['covered']:.0f} % of the cases; they are "
        f"{100 * first['width']:.1f} % wide.",
    ]
    for case in body["cases"]:
        found, simple = case["rules"][OURS][0], case["rules"][NEAREST][0]
        if found > simple:
            sentences.append(
                f"For {case['case']} it is worse than reuse: {100 * found:.0f} % against {100 * simple:.0f} %."
            )
    goals = [
        verdict(mean <= 0.0012, "mean excess at most 0.12 %", f"{100 * mean:.3f} %"),
        verdict(quantile <= 0.0035, "90 % quantile at most 0.35 %", f"{100 * quantile:.3f} %"),
        verdict(mean <= reused / 2, "at most half of the best of the nearest size", f"{mean / reused:.2f}"),
        verdict(0.85 <= first["covered"] <= 0.97, "intervals cover 85 to 97 %", f"{100 * first['covered']:.0f} %"),
        verdict(first["width"] <= 0.03, "width of intervals at most 3 %", f"{100 * first['width']:.1f} %"),
    ]
    question = "How good is a configuration for a size that was never trained?"
    lines = opening("Tune small, answer large", question, sentences)
    lines += ["## Goals", "", *goal_table(goals), ""]
    for case in body["cases"]:
        lines += [f"## {case['case'][0].upper()}{case['case'][1:]}", ""]
        lines += ["| rule | mean excess | 90 % quantile |", "|---|---|---|"]
        lines += [f"| {rule} | {100 * m:.3f} % | {100 * q:.3f} % |" for rule, (m, q) in case["rules"].items()]
        told = (
            f"The intervals of the loss hold in {100 * case['covered']:.0f} % of {case['cases']} cases; mean width "
            f"is {100 * case['width']:.1f} %. The runs cost {100 * case['share']:.1f} % of the target's grid."
        )
        lines += ["", *wrapped(told), ""]
    source = body["source"]
    told = (
        "`python -m benchmarks.extrapolate` writes this page and explains what is run. An excess is relative to the "
        f"lowest loss of the target's grid. {len(source['seeds'])} seeds; {source['date'][:10]}; {source['cpu']}."
    )
    return "\n".join([*lines, *wrapped(told)]) + "\n"


def main() -> None:
    """Measure, and write extrapolate.json and extrapolate.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--kinds", default="language,networks", help="language, networks or both")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "extrapolate")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    cases = language() if "language" in options.kinds else []
    cases += networks(options.cache) if "networks" in options.kinds else []
    source = provenance(range(options.seeds), ("bohb", "numpy", "scipy", "scikit-learn"))
    body = finite({"source": source, "cases": [summary(case.name, measured(case, options.seeds)) for case in cases]})
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "extrapolate.json").write_text(json.dumps(body, indent=1, allow_nan=False) + "\n")
    (options.out / "extrapolate.md").write_text(page(body))
    print((options.out / "extrapolate.md").read_text())


if __name__ == "__main__":
    main()
