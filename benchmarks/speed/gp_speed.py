"""Measure one proposal of the Gaussian process and one fit of its hyperparameters, by number of results.

    python -m benchmarks.speed.gp_speed    # a minute or two, on an idle machine

The figures are CPU times: medians of --repeats calls, with one BLAS thread. The results are those of a study on budgets
1 to 27 with random configurations. A proposal follows new results, so it includes conditioning the process on them; it
is timed without running trials and with 15 of them. A fit starts from the prior, which takes longest. Results are read
before the clock starts: a study reads each of them once, when it arrives or when the study is resumed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report import goal_table, opening, provenance, table, verdict, write

if TYPE_CHECKING:
    from bohb import BOHB

DIMENSIONS, SIZES, RUNNING = (7, 28), (100, 300, 1000, 3000, 10_000), 15
PROMISED, UP_TO = {"proposal ms": 8.0, "fit ms": 100.0}, 1000  # for so many results


def cpu(call: Callable[[], object]) -> float:
    """Return the CPU time of a call in milliseconds; the call must not return None."""
    start = time.process_time()
    if call() is None:
        raise RuntimeError("the process made no proposal")
    return 1e3 * (time.process_time() - start)


def loss(config: dict[str, Any], budget: float) -> float:
    """Return a loss that is quadratic in the numbers and prefers some choices; larger budgets are better."""
    values = [(v - 0.3) ** 2 if isinstance(v, float) else 0.2 * (v != "b") for v in config.values()]
    return sum(value / (1 + i) for i, value in enumerate(values)) + 1 / budget


def study(d: int, n: int, seed: int) -> BOHB:
    """Return a study with n random results; a quarter of its d hyperparameters are categorical."""
    import bohb

    space: dict[str, Any] = {f"x{i}": ["a", "b", "c"] if i % 4 == 3 else (0.0, 1.0) for i in range(d)}
    made = bohb.BOHB(space, min_budget=1, max_budget=27, seed=seed, preset="best", random_fraction=1.0)
    while len(made.history.outcomes) < n:
        trial = made.ask()
        made.tell(trial, loss(trial.config, trial.budget))
    return made


def fit_of(made: BOHB) -> Callable[[], object]:
    """Return a function that fits the hyperparameters to all results, starting from the prior."""
    from bohb.core.samplers import process as gp
    from bohb.core.samplers import targets
    from bohb.core.samplers.gaussian import FIT_POINTS, STEPS

    history = made.history
    results, embedding = targets.Results(history.space.d), gp.Embedding(history.space)
    results.catch_up(history)
    rungs = history.budgets

    def fit() -> object:
        every = targets.targets(results.table(len(results), rungs))
        found = targets.best_first(every, FIT_POINTS)
        points, start = embedding(results.vectors(found.rows)), gp.prior(history.space.d, len(rungs))[0]
        return gp.fit(start, found.data(len(rungs), points, embedding.owner), STEPS)

    return fit


def measure(d: int, n: int, repeats: int, seed: int) -> dict[str, Any]:
    """Return one row: medians in milliseconds."""
    import numpy as np

    from bohb.core.samplers.gaussian import GaussianSampler
    from bohb.core.samplers.proposal import Situation

    made = study(d, n, seed)
    sampler = GaussianSampler(made.history.space)
    situation = Situation(made.history, made.history.budgets[0], lambda _: True, None)

    def propose() -> object:
        return sampler.propose(np.random.default_rng(seed), situation)

    taken: dict[str, list[float]] = {"proposal ms": [], f"beside {RUNNING} ms": [], "fit ms": []}
    for _ in range(repeats):
        propose()  # including fits that are due
        taken["proposal ms"].append(cpu(propose))
        running = made.ask_many(RUNNING)
        taken[f"beside {RUNNING} ms"].append(cpu(propose))
        taken["fit ms"].append(cpu(fit_of(made)))
        made.tell_many([(trial, loss(trial.config, trial.budget)) for trial in running])
    return {"hyperparameters": d, "results": n, **{name: statistics.median(ms) for name, ms in taken.items()}}


def goals(rows: list[dict[str, Any]]) -> list[str]:
    """Compare the measurements with the documented limits."""
    lines = []
    for name, limit in PROMISED.items():
        worst = max(row[name] for row in rows if row["results"] <= UP_TO)
        lines.append(verdict(worst <= limit, f"{name}: at most {limit:g} with up to {UP_TO} results", f"{worst:.3g}"))
    return lines


def page(body: Mapping[str, Any]) -> str:
    """Return docs/results/gp_speed.md."""
    rows, source = body["results"], body["source"]
    many = [row for row in rows if row["results"] == max(r["results"] for r in rows)]
    texts = [f"{row['proposal ms']:.1f} ms with {row['hyperparameters']} hyperparameters" for row in many]
    worst = max(row["fit ms"] for row in rows)
    lines = opening(
        "What the Gaussian process costs",
        "How much CPU time does a proposal of the preset BEST take?",
        [
            f"After {many[0]['results']} results, a proposal takes {' and '.join(texts)}.",
            f"A fit, which is not part of every proposal, takes at most {worst:.0f} ms.",
            f"A proposal beside {RUNNING} running trials takes at most "
            f"{max(row[f'beside {RUNNING} ms'] for row in rows):.0f} ms.",
        ],
    )
    columns = list(rows[0])
    lines += [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(f"{row[name]:.4g}" for name in columns) + " |" for row in rows]
    lines += ["", "## Goals", "", *goal_table(body["goals"]), ""]
    lines += [f"Median CPU time, {source['cpu']}, {source['date']}: `{source['command']}`"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=SIZES)
    parser.add_argument("--repeats", type=int, default=15, help="calls per figure; the median is shown")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[2] / "docs" / "results")
    args = parser.parse_args()
    os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")})  # before numpy
    rows = [measure(d, n, args.repeats, args.seed) for d in DIMENSIONS for n in args.sizes]
    told, source = goals(rows), provenance([args.seed], ["bohb", "numpy", "scipy"])
    print(table(rows), *told, sep="\n")
    write(args.out, "gp_speed", source, {"results": rows, "goals": told}, rows)
    (args.out / "gp_speed.md").write_text(page({"source": source, "results": rows, "goals": told}))


if __name__ == "__main__":
    main()
