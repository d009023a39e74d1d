"""Two hyperparameters against the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.axes import Array
from bohb.analysis.contour import Contour, contour
from bohb.analysis.ranges import loss_range
from bohb.core.history import History
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.panels import jitter, panel_axis
from bohb.plots.theme import LOSS_SCALE, MOST_POINTS, ORANGE, empty, figure, loss_axis, marks, no_losses, thinned
from bohb.units import counted


def draw_contour(
    history: History, dark: bool = False, x: str | None = None, y: str | None = None, budget: float | None = None
) -> Figure:
    """Draw the loss over two hyperparameters, by default the most important ones."""
    table = contour(history, x, y, budget)
    if table is None:
        if history.created is not None and history.space.d < 2:
            return empty("Only one hyperparameter varies; there is no second axis", dark)
        return no_losses(history, dark)
    usual = loss_range(table.losses)
    if usual is None:
        return empty("No trial with a result has both hyperparameters active", dark)
    low, high = _colour_range(table)
    axis = loss_axis(history.goals, table.losses)
    traces = [_surface(table, low, high, axis), *_contour_points(table, low, high, axis)]
    notes = [f"{counted(len(table.losses), 'trial')} on budget {table.budget:g}"]
    if table.inactive:
        notes.append(f"{counted(table.inactive, 'trial')} without one of the two hyperparameters")
    if outliers := int(usual.outside(table.losses).sum()):
        notes.append(f"{counted(outliers, 'outlier')} in the last colour")
    return figure(
        traces,
        dark=dark,
        height=480,
        xaxis=panel_axis(table.x, titled=True),
        yaxis=panel_axis(table.y, titled=True),
        notes=notes,
    )


def _colour_range(table: Contour) -> tuple[float, float]:
    """Return the losses between which colours vary, on the surface's scale; the worst tenth has the last colour."""
    values = _measure(table, table.losses[np.isfinite(table.losses)])
    low, high = float(values.min()), float(np.quantile(values, 0.9))
    return (low, high) if high > low else (low, low + 1.0)


def _surface(table: Contour, low: float, high: float, axis: LossAxis) -> Any:
    first, last = sorted((axis.sign * low, axis.sign * high))
    ticks = np.linspace(first, last, 5)
    losses = axis.sign * ticks
    shared = {
        "x": table.grid_x,
        "y": table.grid_y,
        "z": axis.sign * _measure(table, table.surface),
        "zmin": first,
        "zmax": last,
        "colorscale": LOSS_SCALE,
        "reversescale": axis.sign < 0,
        "colorbar": {
            "title": {"text": axis.name},
            "thickness": 12,
            "tickvals": ticks.tolist(),
            "ticktext": [f"{value:.3g}" for value in axis.values(10**losses if table.log else losses).tolist()],
        },
        "hoverinfo": "skip",
    }
    if table.x.discrete or table.y.discrete:
        return go.Heatmap(**shared, xgap=2 * table.x.discrete, ygap=2 * table.y.discrete)
    levels = {"start": first, "end": last, "size": (last - first) / 12}
    return go.Contour(**shared, autocontour=False, contours=levels, line={"width": 0.5}, connectgaps=False)


def _measure(table: Contour, losses: Array) -> Array:
    """Return losses on the scale of the colours."""
    return np.log10(losses) if table.log else losses


def _contour_points(table: Contour, low: float, high: float, axis: LossAxis) -> list[Any]:
    finite = np.isfinite(table.losses)
    best = np.argsort(table.losses, kind="stable")[:100].astype(np.intp)
    kept = thinned(len(finite), MOST_POINTS // 3, best)
    x = table.points[:, 0] + jitter(table.numbers, table.x)
    y = table.points[:, 1] + jitter(table.numbers, table.y, 0.7548776662)
    good, bad = kept[finite[kept]], kept[~finite[kept]]
    loss = table.losses[good]
    first, last = sorted((axis.sign * low, axis.sign * high))
    dots = {
        "size": 7,
        "color": axis.sign * _measure(table, loss),
        "cmin": first,
        "cmax": last,
        "colorscale": LOSS_SCALE,
        "reversescale": axis.sign < 0,
        "line": {"width": 1, "color": "#ffffff"},
    }
    crosses = {"symbol": "x-thin", "size": 7, "line": {"width": 1.5, "color": ORANGE}}
    rows = np.column_stack([table.numbers[good], axis.values(loss)])
    hover = f"{axis.name} %{{customdata[1]:.6g}}"
    shown = [marks(x[good], y[good], rows, "trial", hover, dots, showlegend=False)]
    if len(bad):
        numbers = table.numbers[bad].astype(np.int32)
        shown.append(marks(x[bad], y[bad], numbers, "failed", "failed", crosses, showlegend=True))
    return shown
