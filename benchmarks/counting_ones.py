"""Counting ones (§5.1 and Appendix H): the regret of the incumbent against the budget that was spent.

    python -m benchmarks.counting_ones                              # 8 + 8 dimensions, 20 seeds, 512 full evaluations
    python -m benchmarks.counting_ones --seeds 4 --evaluations 128 --jobs 1 --out /tmp/counting_ones

One full evaluation is a cumulative budget of --max-budget; every evaluation counts with its whole budget. The
incumbent is the study's own: the largest budget counts first, then the lowest observed loss. Its regret is free of
noise. Finished (method, seed) pairs are kept in --cache and not run again, unless the code of the package has changed.
Equal seeds give equal random draws to all methods, so their curves are paired by seed, not independent. Writes
counting_ones_8_8.json, .csv and .png (8 and 8 being --cat and --cont).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import bohb
from benchmarks.problems import CountingOnes
from benchmarks.report import provenance, table, verdict, write

ROOT = Path(__file__).parents[1]
METHODS: dict[str, dict[str, Any]] = {
    "bohb": {},
    "hyperband": {"random_fraction": 1},
    "random": {"random_fraction": 1, "one_budget": True},
    "tpe": {"one_budget": True},
    "hpbandster-preset": {"settings": bohb.HPBANDSTER},
    "widened": {"widen_categorical": True},
}


@dataclass(frozen=True, slots=True)
class Run:
    """One run: all that its result depends on but for the code."""

    method: str
    seed: int
    cat: int
    cont: int
    min_budget: int
    max_budget: int
    evaluations: int

    @property
    def key(self) -> str:
        return json.dumps([*asdict(self).values(), code_digest()])


def optimizer_of(run: Run) -> bohb.BOHB:
    """The optimizer of a method by its name on the command line."""
    settings = dict(METHODS[run.method])
    one_budget = settings.pop("one_budget", False)
    low = run.max_budget if one_budget else run.min_budget
    problem = CountingOnes(run.cat, run.cont)
    return bohb.BOHB(problem.space, min_budget=low, max_budget=run.max_budget, seed=run.seed, **settings)


def regrets(run: Run) -> dict[int, float]:
    """The incumbent's regret after 1, 2, 4, … full evaluations."""
    problem = CountingOnes(run.cat, run.cont)
    optimizer = optimizer_of(run)
    spent, regret = 0.0, float(problem.d)
    at: dict[int, float] = {}
    ahead = powers(run.evaluations)
    while True:
        trial = optimizer.ask()
        spent += trial.budget
        while ahead and spent > ahead[0] * run.max_budget:  # this trial ends after that point
            at[ahead.pop(0)] = regret
        if not ahead:
            return at
        optimizer.tell(trial, problem.loss(trial.config, trial.budget, trial.seed))
        assert optimizer.incumbent is not None
        regret = problem.regret(optimizer.incumbent.config)


def powers(evaluations: int) -> list[int]:
    """1, 2, 4, … up to the number of full evaluations."""
    return [2**k for k in range(evaluations.bit_length()) if 2**k <= evaluations]


@cache
def code_digest() -> str:
    """A fingerprint of the code that decides: results of different code are never mixed."""
    package = Path(bohb.__file__).parent
    files = [
        package / "optimizer.py",
        *sorted((package / "core").glob("*.py")),
        Path(__file__).with_name("problems.py"),
    ]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def run_all(runs: Iterable[Run], kept: Path, jobs: int) -> dict[Run, dict[int, float]]:
    """The results of all runs: from the cache, or computed now and added to it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    stored: dict[str, dict[str, float]] = {}
    if kept.exists():
        stored = {entry["key"]: entry["regret"] for entry in map(json.loads, kept.read_text().splitlines())}
    results = {}
    missing = []
    for run in runs:
        if run.key in stored:
            results[run] = {int(full): regret for full, regret in stored[run.key].items()}
        else:
            missing.append(run)
    print(f"# {len(results)} runs from {kept}, {len(missing)} to do", file=sys.stderr, flush=True)
    keys = {run: run.key for run in missing}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool, kept.open("a") as file:
        futures = {pool.submit(regrets, run): run for run in missing}
        for done, future in enumerate(as_completed(futures), 1):
            run = futures[future]
            results[run] = future.result()
            file.write(json.dumps({"key": keys[run], **asdict(run), "regret": results[run]}) + "\n")
            file.flush()
            print(f"# {done}/{len(missing)} {run.method} seed {run.seed}", file=sys.stderr, flush=True)
    return results


def summary(
    results: dict[Run, dict[int, float]], methods: list[str]
) -> dict[str, dict[int, tuple[float, float | None]]]:
    """Mean and standard error by method and number of full evaluations."""
    means: dict[str, dict[int, tuple[float, float | None]]] = {}
    for method in methods:
        curves = [
            curve for run, curve in sorted(results.items(), key=lambda item: item[0].seed) if run.method == method
        ]
        means[method] = {}
        for full in curves[0]:
            values = [curve[full] for curve in curves]
            error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
            means[method][full] = (statistics.fmean(values), error)
    return means


def claims(means: dict[str, dict[int, tuple[float, float | None]]], d: int) -> list[str]:
    """The two claims about BOHB, and whether these runs bear them out."""
    ours, theirs = means.get("bohb", {}), means.get("hyperband", {})
    shared = [full for full in ours if full >= 32 and full in theirs]
    worse = [full for full in shared if ours[full][0] >= theirs[full][0]]
    detail = f"not at {worse}" if worse else f"at {shared}" if shared else "needs 32 full evaluations and both methods"
    lines = [verdict(not worse if shared else None, "BOHB below Hyperband from 32 full evaluations on", detail)]
    last = ours.get(512)
    detail = f"{last[0] / d:.2%} of the range" if last else "needs 512 full evaluations"
    lines.append(verdict(last[0] / d < 0.01 if last else None, "BOHB's regret below 1 % after 512", detail))
    return lines


def draw(means: dict[str, dict[int, tuple[float, float | None]]], title: str, path: Path) -> None:
    """Mean regret ± standard error, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    for method, curve in means.items():
        x = list(curve)
        mean = [m for m, _ in curve.values()]
        error = [e or 0.0 for _, e in curve.values()]
        (line,) = axes.plot(x, mean, marker="o", markersize=3, label=method)
        low = [max(m - e, m / 10) for m, e in zip(mean, error, strict=True)]
        axes.fill_between(x, low, [m + e for m, e in zip(mean, error, strict=True)], color=line.get_color(), alpha=0.2)
    axes.set(yscale="log", xlabel="full evaluations (cumulative budget / b_max)", ylabel="mean regret")
    axes.set_xscale("log", base=2)
    axes.set_title(title)
    axes.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cat", type=int, default=8)
    parser.add_argument("--cont", type=int, default=8)
    parser.add_argument("--min-budget", type=int, default=9)
    parser.add_argument("--max-budget", type=int, default=729)
    parser.add_argument("--seeds", type=int, default=20, help="how many, from 0")
    parser.add_argument("--evaluations", type=int, default=512, help="full evaluations per run")
    parser.add_argument("--jobs", type=int, default=2)
    default = ["bohb", "hyperband", "random", "hpbandster-preset"]
    parser.add_argument("--methods", type=lambda text: text.split(","), default=default, help=f"of {list(METHODS)}")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache/benchmarks/counting_ones.jsonl")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/results")
    args = parser.parse_args()
    unknown = sorted(set(args.methods) - set(METHODS))
    if unknown:
        parser.error(f"--methods {unknown} are unknown; there are {list(METHODS)}")
    return args


def main() -> None:
    args = parse()
    # The children read these before they import numpy.
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})
    runs = [
        Run(method, seed, args.cat, args.cont, args.min_budget, args.max_budget, args.evaluations)
        for seed in range(args.seeds)
        for method in args.methods
    ]
    results = run_all(runs, args.cache, args.jobs)
    means = summary(results, args.methods)
    rows = [
        {
            "full evaluations": full,
            **{
                column: value
                for m in args.methods
                for column, value in ((m, means[m][full][0]), (f"± {m}", means[m][full][1]))
            },
        }
        for full in powers(args.evaluations)
    ]
    d = args.cat + args.cont
    told = claims(means, d)
    print(table(rows), "", *told, sep="\n")
    source = provenance(range(args.seeds), ["bohb", "ConfigSpace", "numpy", "scipy"])
    name = f"counting_ones_{args.cat}_{args.cont}"
    every = [{**asdict(run), "regret": curve} for run, curve in results.items()]
    write(args.out, name, {**source, "code": code_digest()}, {"mean": means, "claims": told, "runs": every}, rows)
    title = f"Counting ones, {args.cat} + {args.cont} dimensions, {args.seeds} seeds, mean ± standard error"
    draw(means, title, args.out / f"{name}.png")


if __name__ == "__main__":
    main()
