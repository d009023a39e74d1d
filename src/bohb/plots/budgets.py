"""What small budgets say about large ones: rank correlation, survival from rung to rung, learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bohb.analysis.correlation import Correlation, correlations
from bohb.analysis.curves import Curve, Path, curves, paths
from bohb.core.history import History
from bohb.plots.drawing import Figure, go
from bohb.plots.progress import NO_LOSS, NOTHING
from bohb.plots.theme import BLUE, MOST_LINES, ORANGE, budget_colours, empty, figure, loss_axis, note, thinned

_CURVE_POINTS = 200
_DIVERGING = [[0.0, ORANGE], [0.5, "#f2f2f2"], [1.0, BLUE]]


def draw_correlation(history: History, dark: bool = False) -> Figure:
    """Spearman's ρ for each pair of budgets, with the number of configurations behind it."""
    if not history.outcomes:
        return empty(NOTHING, dark)
    rows = [row for row in correlations(history) if row.n > 0]
    if not rows:
        return empty("No configuration has a loss on two budgets yet", dark)
    budgets = sorted({row.low for row in rows} | {row.high for row in rows})
    names = [f"{budget:g}" for budget in budgets]
    size = len(budgets)
    rho, text, hover = np.full((size, size), np.nan), _blank(size), _blank(size)
    for row in rows:
        i, j = budgets.index(row.high), budgets.index(row.low)
        rho[i, j] = 0.0 if row.rho is None else row.rho
        text[i][j] = f"n = {row.n}" if row.rho is None else f"{row.rho:.2f}<br>n = {row.n}"
        hover[i][j] = _sentence(row)
    heatmap = go.Heatmap(
        z=rho[1:, :-1],
        x=list(range(size - 1)),
        y=list(range(size - 1)),
        text=[line[:-1] for line in text[1:]],
        customdata=[line[:-1] for line in hover[1:]],
        texttemplate="%{text}",
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        zmin=-1,
        zmax=1,
        colorscale=_DIVERGING,
        colorbar={"title": {"text": "ρ"}, "thickness": 12},
        xgap=3,
        ygap=3,
    )
    places = list(range(size - 1))
    return figure(
        [heatmap],
        dark=dark,
        xaxis={"title": {"text": "smaller budget"}, "tickvals": places, "ticktext": names[:-1], "showgrid": False},
        yaxis={"title": {"text": "larger budget"}, "tickvals": places, "ticktext": names[1:], "showgrid": False},
    )


def draw_survival(history: History, dark: bool = False) -> Figure:
    """The losses of configurations from budget to budget."""
    found = [path for path in paths(history) if path.losses]
    if not found:
        return empty(NOTHING if not history.outcomes else NO_LOSS, dark)
    kept = [found[i] for i in thinned(len(found), 2 * MOST_LINES, _best_paths(found)).tolist()]
    colours = budget_colours([path.budgets[-1] for path in found])
    traces = []
    for budget, colour in colours.items():
        mine = [path for path in kept if path.budgets[-1] == budget]
        if mine:
            traces.append(_path_trace(mine, f"reached budget {budget:g}", colour))
    budgets = sorted({budget for path in found for budget in path.budgets})
    left_out = len(found) - len(kept)
    return figure(
        traces,
        dark=dark,
        xaxis={
            "title": {"text": "budget"},
            "type": "log" if budgets[-1] > 3 * budgets[0] else "linear",
            "tickvals": budgets,
            "ticktext": [f"{budget:g}" for budget in budgets],
        },
        yaxis=loss_axis([loss for path in found for loss in path.losses]),
        annotations=[note(f"{left_out} of {len(found)} configurations are left out")] if left_out else [],
    )


def draw_curves(history: History, dark: bool = False) -> Figure:
    """The learning curves that objectives reported."""
    found = curves(history)
    if not found:
        message = "No learning curve was reported; an objective does so with trial.report(step, loss)"
        return empty(NOTHING if not history.outcomes else message, dark)
    order = sorted(
        range(len(found)), key=lambda i: (-found[i].budget, np.inf if found[i].loss is None else found[i].loss)
    )
    kept = [found[i] for i in thinned(len(found), MOST_LINES // 2, np.array(order[:40], dtype=np.intp)).tolist()]
    colours = budget_colours([curve.budget for curve in found])
    traces = []
    for budget, colour in colours.items():
        mine = [curve for curve in kept if curve.budget == budget]
        if mine:
            traces.append(_curve_trace(mine, f"budget {budget:g}", colour))
    left_out = len(found) - len(kept)
    return figure(
        traces,
        dark=dark,
        xaxis={"title": {"text": "step, as reported"}},
        yaxis=loss_axis([loss for curve in kept for loss in curve.losses], "reported loss"),
        annotations=[note(f"{left_out} of {len(found)} curves are left out")] if left_out else [],
    )


def _blank(size: int) -> list[list[str]]:
    return [[""] * size for _ in range(size)]


def _sentence(row: Correlation) -> str:
    head = f"budgets {row.low:g} and {row.high:g}<br>{row.n} configurations on both"
    if row.rho is None:
        return f"{head}<br>too few to tell"
    interval = "" if row.interval is None else f" (95 %: {row.interval[0]:.2f} to {row.interval[1]:.2f})"
    return f"{head}<br>ρ = {row.rho:.3f}{interval}"


def _best_paths(found: list[Path]) -> np.ndarray[Any, np.dtype[np.intp]]:
    order = sorted(range(len(found)), key=lambda i: (-found[i].budgets[-1], found[i].losses[-1]))
    return np.array(order[:MOST_LINES], dtype=np.intp)


def _path_trace(mine: list[Path], name: str, colour: str) -> Any:
    return go.Scatter(
        x=_gapped(path.budgets for path in mine),
        y=_gapped(path.losses for path in mine),
        customdata=_gapped(path.numbers for path in mine),
        mode="lines+markers",
        name=name,
        opacity=0.75,
        line={"color": colour, "width": 1.2},
        marker={"size": 4, "color": colour},
        hovertemplate="trial %{customdata}<br>loss %{y:.6g}<br>budget %{x:~g}<extra></extra>",
    )


def _curve_trace(mine: list[Curve], name: str, colour: str) -> Any:
    chosen = [thinned(len(curve.steps), _CURVE_POINTS).tolist() for curve in mine]
    losses = [[_finite(curve.losses[i]) for i in some] for curve, some in zip(mine, chosen, strict=True)]
    return go.Scatter(
        x=_gapped([curve.steps[i] for i in some] for curve, some in zip(mine, chosen, strict=True)),
        y=_gapped(losses),
        customdata=_gapped([curve.number] * len(some) for curve, some in zip(mine, chosen, strict=True)),
        mode="lines" if all(len(curve.steps) > 1 for curve in mine) else "lines+markers",
        name=name,
        opacity=0.8,
        line={"color": colour, "width": 1.2},
        marker={"size": 4, "color": colour},
        hovertemplate=f"trial %{{customdata}}<br>step %{{x:~g}}<br>loss %{{y:.6g}}<br>{name}<extra></extra>",
    )


def _finite(loss: float) -> float:
    return loss if np.isfinite(loss) else np.nan


def _gapped(rows: Iterable[Sequence[float]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """All rows one after the other, with a gap after each."""
    return np.array([value for row in rows for value in (*row, np.nan)], dtype=np.float32)
