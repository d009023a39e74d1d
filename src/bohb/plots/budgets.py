"""How results on small budgets relate to large ones: rank correlation, survival, learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.analysis.correlation import Correlation, correlations
from bohb.analysis.curves import Curve, Path, curves, paths
from bohb.core.history import History
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.theme import BLUE, MOST_LINES, ORANGE, budget_colours, empty, figure, no_losses, thinned

_CURVE_POINTS = 200
_DIVERGING = [[0.0, ORANGE], [0.5, "#f2f2f2"], [1.0, BLUE]]


def draw_correlation(history: History, dark: bool = False) -> Figure:
    """Draw Spearman's ρ for each pair of budgets, with the number of configurations that have both."""
    if not history.outcomes:
        return no_losses(history, dark)
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
    """Draw the losses of each configuration from budget to budget."""
    found = [path for path in paths(history) if path.losses]
    if not found:
        return no_losses(history, dark)
    kept = [found[i] for i in thinned(len(found), 2 * MOST_LINES, _best_paths(found)).tolist()]
    axis = LossAxis([loss for path in found for loss in path.losses])
    traces = [
        _lines(axis, mine, f"reached budget {budget:g}", colour, "budget")
        for budget, colour in budget_colours([path.budgets[-1] for path in found]).items()
        if (mine := [_Line(path.budgets, path.losses, path.numbers) for path in kept if path.budgets[-1] == budget])
    ]
    traces.append(_triangles(axis, [_Line(path.budgets, path.losses, path.numbers) for path in found]))
    budgets = sorted({budget for path in found for budget in path.budgets})
    left_out = len(found) - len(kept)
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=[f"{left_out} of {len(found)} configurations are left out"] if left_out else [],
        xaxis={
            "title": {"text": "budget"},
            "type": "log" if budgets[-1] > 3 * budgets[0] else "linear",
            "tickvals": budgets,
            "ticktext": [f"{budget:g}" for budget in budgets],
        },
    )


def draw_curves(history: History, dark: bool = False) -> Figure:
    """Draw the learning curves that objectives reported."""
    found = curves(history)
    if not found:
        message = "No learning curve was reported; an objective does so with trial.report(step, loss)"
        return empty(message, dark) if history.outcomes else no_losses(history, dark)
    order = sorted(
        range(len(found)), key=lambda i: (-found[i].budget, np.inf if found[i].loss is None else found[i].loss)
    )
    kept = [found[i] for i in thinned(len(found), MOST_LINES // 2, np.array(order[:40], dtype=np.intp)).tolist()]
    axis = LossAxis([loss for curve in kept for loss in curve.losses], "reported loss")
    traces = [
        _lines(axis, mine, f"budget {budget:g}", colour, "step", points=any(len(line.x) == 1 for line in mine))
        for budget, colour in budget_colours([curve.budget for curve in found]).items()
        if (mine := [_curve(curve) for curve in kept if curve.budget == budget])
    ]
    traces.append(_triangles(axis, [_curve(curve) for curve in kept]))
    left_out = len(found) - len(kept)
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=[f"{left_out} of {len(found)} curves are left out"] if left_out else [],
        xaxis={"title": {"text": "step, as reported"}},
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


@dataclass(frozen=True, slots=True)
class _Line:
    """The points of one line, and the trial of each."""

    x: Sequence[float]
    losses: Sequence[float]
    numbers: Sequence[int]


def _curve(curve: Curve) -> _Line:
    chosen = thinned(len(curve.steps), _CURVE_POINTS).tolist()
    return _Line([curve.steps[i] for i in chosen], [curve.losses[i] for i in chosen], [curve.number] * len(chosen))


def _lines(axis: LossAxis, lines: list[_Line], name: str, colour: str, unit: str, points: bool = True) -> Any:
    """Several lines as one trace, with a gap after each."""
    losses = _gapped(line.losses for line in lines)
    return go.Scatter(
        x=_gapped(line.x for line in lines),
        y=axis.place(losses).astype(np.float32),
        customdata=np.column_stack([_gapped(line.numbers for line in lines), losses]),
        mode="lines+markers" if points else "lines",
        name=name,
        opacity=0.75,
        line={"color": colour, "width": 1.2},
        marker={"size": 4, "color": colour},
        hovertemplate=(
            f"trial %{{customdata[0]}}<br>{unit} %{{x:~g}}<br>loss %{{customdata[1]:.6g}}<br>{name}<extra></extra>"
        ),
    )


def _triangles(axis: LossAxis, lines: list[_Line]) -> Any:
    points = [point for line in lines for point in zip(line.x, line.losses, line.numbers, strict=True)]
    return axis.triangles(*(list(column) for column in zip(*points, strict=True))) if points else None


def _gapped(rows: Iterable[Sequence[float]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return all rows one after the other, with a gap after each."""
    return np.array([value for row in rows for value in (*row, np.nan)])
