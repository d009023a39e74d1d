"""From simulated runs to speed-ups: the tables, claims and figures of `benchmarks.paper.parallel`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import goal_table, opening, verdict

Array = NDArray[np.float64]
Curve = tuple[tuple[float, float], ...]  # time, regret
NEARLY = 0.75  # of the number of workers
ENOUGH = 0.9  # of the runs must have got there before their mean time says anything
RESAMPLES = 2000  # of the seeds, for the 95 % interval of a ratio of means


@dataclass(frozen=True, slots=True)
class Simulated:
    """What one run leaves behind.

    curve: (time, regret) of every incumbent in turn, by the protocol of the paper's figures: a new one has a lower loss
        on a budget that is at least the same.
    full: (time, regret) of the best configuration on the largest budget, whenever it changed.
    seconds: when the last trial ended.
    utilisation: the share of the workers' time that was work, to the very end.
    while_sampling: the same until the last new configuration started, when the run begins to run dry; None if workers
        were lost, for what they had done is not recorded.
    before_model: configurations drawn before there was a model.
    lost: how often a worker was lost.
    """

    curve: Curve
    full: Curve
    seconds: float
    utilisation: float
    while_sampling: float | None
    before_model: int
    trials: int
    lost: int

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Simulated:
        """The run whose `asdict` was stored."""
        curves: dict[str, Any] = {name: tuple(map(tuple, stored[name])) for name in ("curve", "full")}
        return cls(**{**stored, **curves})

    def time_to(self, regret: float) -> float | None:
        """When the best configuration on the largest budget first had so low a regret; None if it never had.

        Smaller budgets do not count: a lucky guess among many is soon replaced by a worse configuration.
        """
        return next((time for time, reached in self.full if reached <= regret), None)


def regret_at(curve: Curve, times: Array) -> Array:
    """The regret of a curve at these times; NaN before its first point."""
    ends = np.array([time for time, _ in curve])
    values = np.array([np.nan, *(regret for _, regret in curve)])
    return values[np.searchsorted(ends, times, side="right")]


def target_after(runs: Sequence[Simulated], share: float) -> float:
    """The rule for the regret to reach: the median regret of these runs when this share of their time is over."""
    return statistics.median(float(regret_at(run.full, np.array([share * run.seconds]))[0]) for run in runs)


def mean_curve(runs: Sequence[Simulated], times: Array) -> tuple[Array, Array]:
    """Mean regret and its standard error at these times; NaN while one of the runs has no incumbent."""
    values = np.array([regret_at(run.curve, times) for run in runs])
    error = values.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(times))
    return values.mean(axis=0), error


def crossing(runs: Sequence[Simulated], regret: float) -> float | None:
    """When the mean regret first is so low: how one reads the paper's figure."""
    times = np.unique([time for run in runs for time, _ in run.curve])
    below = np.flatnonzero(mean_curve(runs, times)[0] <= regret)
    return float(times[below[0]]) if len(below) else None


def times_to(runs: Sequence[Simulated], regret: float) -> tuple[Array, int]:
    """The time of every run to a regret, and how many reached it; the others count with the end of their run."""
    reached = [run.time_to(regret) for run in runs]
    times = [run.seconds if time is None else time for run, time in zip(runs, reached, strict=True)]
    return np.array(times), sum(time is not None for time in reached)


def ratio_interval(rng: np.random.Generator, over: Array, under: Array) -> tuple[float, float]:
    """The 95 % bootstrap interval of mean(over) / mean(under); equal seeds are drawn together if there are as many."""
    paired = len(over) == len(under)
    drawn = rng.integers(len(over), size=(RESAMPLES, len(over)))
    drawn_under = drawn if paired else rng.integers(len(under), size=(RESAMPLES, len(under)))
    low, high = np.quantile(over[drawn].mean(axis=1) / under[drawn_under].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def speedups(by_workers: Mapping[int, Sequence[Simulated]], regret: float) -> list[dict[str, Any]]:
    """One row per number of workers; the speed-up is that over the fewest workers, usually one."""
    rng = np.random.default_rng(0)
    fewest = min(by_workers)
    base, _ = times_to(by_workers[fewest], regret)
    base_crossing = crossing(by_workers[fewest], regret)
    rows = []
    for workers, runs in sorted(by_workers.items()):
        times, reached = times_to(runs, regret)
        low, high = ratio_interval(rng, base, times)
        crossed = crossing(runs, regret)
        dry = [run.while_sampling for run in runs if run.while_sampling is not None]
        rows.append(
            {
                "workers": workers,
                "runs": len(runs),
                "reached": reached,
                "mean time": float(times.mean()),
                "± se": float(times.std(ddof=1) / np.sqrt(len(times))) if len(times) > 1 else None,
                "median time": float(np.median(times)),
                "speed-up": float(base.mean() / times.mean()),
                "95 % from": low,
                "to": high,
                "by medians": float(np.median(base) / np.median(times)),
                "by mean curve": base_crossing / crossed if base_crossing and crossed else None,
                "utilisation": statistics.fmean(dry) if dry else None,
                "with the end": statistics.fmean(run.utilisation for run in runs),
                "before model": statistics.fmean(run.before_model for run in runs),
                "trials": statistics.fmean(run.trials for run in runs),
                "lost": statistics.fmean(run.lost for run in runs),
            }
        )
    return rows


def claims(rows: Sequence[Mapping[str, Any]], problem: str) -> list[str]:
    """What the paper says of many workers, against what was measured."""
    lines = []
    for target in dict.fromkeys(row["target"] for row in rows):
        every = {row["workers"]: row for row in rows if (row["target"], row["variant"]) == (target, "plain")}
        plain = {n: row for n, row in every.items() if row["reached"] >= ENOUGH * row["runs"]}
        where = f"{problem}, regret {every[min(every)]['regret']:.3g} ({target})"
        few = {n: row for n, row in plain.items() if 1 < n <= 8 and 1 in plain}
        holds = all(row["speed-up"] >= NEARLY * n for n, row in few.items()) if few else None
        detail = ", ".join(
            f"{row['speed-up']:.2f}× with {n} ({row['by mean curve'] or math.nan:.2f}× by the mean curve)"
            for n, row in few.items()
        )
        detail = detail or "needs runs of 1 and of 2 to 8 workers that reach it"
        lines.append(verdict(holds, f"{where}: near-linear to 8 workers", detail))
        many = plain.get(32) if 1 in plain else None
        detail = "needs runs of 1 and of 32 workers that reach it"
        if many is not None:
            detail = f"{many['speed-up']:.1f}× ({many['95 % from']:.1f} to {many['to']:.1f})"
            detail += (
                f", by medians {many['by medians']:.1f}×, by the mean curve {many['by mean curve'] or math.nan:.1f}×"
            )
        lines.append(
            verdict(
                many["speed-up"] >= 15 if many else None, f"{where}: about 15× with 32 workers, as in the paper", detail
            )
        )
    busy = [row["utilisation"] for row in rows if row["utilisation"] is not None]
    detail = f"at least {min(busy):.1%}" if busy else "workers were lost"
    lines.append(
        verdict(min(busy) > 0.99 if busy else None, f"{problem}: workers are busy until shortly before the end", detail)
    )
    return lines


def page(name: str, body: Mapping[str, Any]) -> str:
    """Return the page of the experiment.

    name: of the result file; the names of its figures begin with it.
    """
    rows = body["rows"]
    problems = list(dict.fromkeys(row["problem"] for row in rows))
    columns = [name for name in rows[0] if name not in ("95 % from", "to", "± se", "median time", "trials")]
    lines = opening(
        f"Parallel workers on a simulated clock: {', '.join(problems)}",
        "How much sooner do several workers reach a regret than one (Fig. 3, App. F)?",
        _sentences(rows),
        f"{name}_speedup.png",
    )
    lines += ["## Claims", "", *goal_table(body["claims"]), "", "## Regret over time", ""]
    lines += [f"![regret over time](parallel_{problem}.png)" for problem in problems]
    lines += ["", "## Speed-ups", "", f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(row[name]) for name in columns)} |" for row in rows]
    source = body["source"]
    return "\n".join([*lines, "", f"`{source['command']}`: {source['cpu']}, {source['date']}"]) + "\n"


def _sentences(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the speed-ups to the regrets that at least nine of ten runs with one worker reach."""
    plain = [row for row in rows if row["variant"] == "plain"]
    first = min(row["workers"] for row in plain)
    often = {
        (row["problem"], row["regret"]): row["runs"]
        for row in plain
        if row["workers"] == first and row["reached"] >= 0.9 * row["runs"]
    }
    sentences = []
    for (problem, regret), runs in often.items():
        texts = [
            f"{row['speed-up']:.1f} with {row['workers']}"
            for row in plain
            if (row["problem"], row["regret"]) == (problem, regret) and row["workers"] > first
        ]
        sentences.append(
            f"To a regret of {regret:.3g} on {problem} ({runs} seeds), the speed-up is {', '.join(texts)}."
        )
    return [*sentences, "It is the mean time with one worker divided by that with several."]


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def draw_regrets(by_workers: Mapping[int, Sequence[Simulated]], title: str, targets: Sequence[float], to: Path) -> None:
    """Like the paper's Fig. 3: mean regret ± twice its standard error over wall-clock time, one line per workers."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.92, len(by_workers)))
    for colour, (workers, runs) in zip(colours, sorted(by_workers.items()), strict=True):
        first = max(run.curve[0][0] for run in runs)
        times = np.geomspace(first, max(run.seconds for run in runs), 300)
        mean, error = mean_curve(runs, times)
        axes.plot(times, mean, color=colour, label=f"{workers}")
        axes.fill_between(times, np.maximum(mean - 2 * error, mean / 10), mean + 2 * error, color=colour, alpha=0.2)
    for target in targets:
        axes.axhline(target, color="grey", linewidth=0.8, linestyle=":")
    axes.set(
        xscale="log", yscale="log", xlabel="simulated wall-clock time [s]", ylabel="mean regret ± 2 standard errors"
    )
    axes.set_title(title, fontsize=10)
    axes.legend(title="workers", ncols=2, fontsize=8)
    figure.savefig(to, dpi=150)
    plt.close(figure)


def draw_speedups(lines: Mapping[str, Sequence[Mapping[str, Any]]], title: str, to: Path) -> None:
    """Speed-up over workers with its 95 % interval, and the diagonal of a linear one."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    most = max(row["workers"] for rows in lines.values() for row in rows)
    axes.plot([1, most], [1, most], color="grey", linestyle=":", label="linear")
    for name, rows in lines.items():
        x = [row["workers"] for row in rows]
        (line,) = axes.plot(x, [row["speed-up"] for row in rows], marker="o", markersize=3, label=name)
        low, high = [row["95 % from"] for row in rows], [row["to"] for row in rows]
        axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set(xlabel="workers", ylabel="speed-up to reach the same regret")
    axes.set_title(title, fontsize=10)
    axes.legend(fontsize=8)
    figure.savefig(to, dpi=150)
    plt.close(figure)


def _pyplot() -> Any:
    """Matplotlib without a window; imported late, for the tables do not need it."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
