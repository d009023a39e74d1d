"""Hyperparameters: which ones matter, and each one or two of them against the loss."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from bohb.analysis.axes import Array, Configurations, axes, configurations, loss_range, telling_budget
from bohb.analysis.importance import ENOUGH, importance
from bohb.analysis.models import Contour, contour
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.axis import LossAxis, empty, figure, jitter, most_important, no_losses, panel_axis, panels
from bohb.plots.theme import (
    BAD,
    BLUE,
    GREY,
    LOSS_SCALE,
    MOST_POINTS,
    ORANGE,
    Figure,
    budget_colours,
    go,
    label,
    left_out,
    marks,
    thinned,
    ticks,
)
from bohb.units import counted

_MOST_BARS = 30


def draw_importance(history: History, dark: bool = False, budget: float | None = None) -> Figure:
    """Draw a bar per hyperparameter, the most important on top."""
    table = importance(history, budget)
    if table is None:
        return empty(f"Too few results: importance needs at least {ENOUGH} on one budget, with different values", dark)
    rows = table.rows[:_MOST_BARS][::-1]
    places, names = np.arange(len(rows)), [axis.name for axis in axes(history.space)]
    most = 125 * max(row.share for row in table.rows)
    bars = go.Bar(
        x=np.array([100 * row.share for row in rows]),
        y=places,
        orientation="h",
        name="importance",
        customdata=[names.index(row.name) for row in rows],
        marker={"color": [BLUE if row.share > row.chance else GREY for row in rows]},
        hovertemplate="%{x:.1f} %<extra></extra>",
        showlegend=False,
    )
    by_chance = go.Scatter(
        x=np.array([min(100 * row.chance, most) for row in rows]),
        y=places,
        mode="markers",
        name="95 % of shuffled results are below",
        marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": BAD}},
        hovertemplate="chance alone: up to %{x:.1f} %<extra></extra>",
    )
    source = "random picks" if table.budget is None else f"results on budget {table.budget:g}"
    return figure(
        [bars, by_chance],
        dark=dark,
        height=max(240, 150 + 28 * len(rows)),
        xaxis={"title": {"text": "share (%)"}, "range": [0, most]},
        yaxis=ticks(
            [f"{label(row.name, 24)}  {100 * row.share:.0f} %" for row in rows],
            showgrid=False,
            range=[-0.6, len(rows) - 0.4],
        ),
        notes=[f"the best {len(table.best)} of {table.n} {source}"],
        notes_from=1,  # the names on the left leave little room on a phone
        meta={"best": table.best},  # a click on a bar selects them
    )


def draw_slice(
    history: History,
    dark: bool = False,
    budget: float | Literal["all"] | None = None,
    parameters: list[str] | None = None,
) -> Figure:
    """Draw a panel per hyperparameter: its value against the loss.

    budget: one budget, or "all". Default: the largest one with enough losses.
    parameters: the hyperparameters to show. Default: all, or the most important ones if these are too many.
    """
    if not history.outcomes:
        return no_losses(history, dark)
    budget = telling_budget(history) if budget is None else budget
    table = configurations(history, None if budget == "all" else budget)
    names = [axis.name for axis in table.axes]
    chosen = parameters or most_important(history, names)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InvalidArgument(f"parameters={chosen!r}: {unknown[0]!r} is not a hyperparameter that varies")
    losses = LossAxis(history.goals, table.losses)
    most = max(200, MOST_POINTS // max(1, len(chosen)))
    named: set[str] = set()
    colours = budget_colours([history.trials[number].budget for number in history.outcomes])
    drawn = [
        (label(name, 28), table.axes[j], _slice_traces(table, j, most, losses, colours, named))
        for j, name in enumerate(names)
        if name in chosen
    ]
    where = "all budgets" if isinstance(budget, str) or budget is None else f"budget {budget:g}"
    notes = [f"{counted(len(table.losses), 'trial')} on {where}"]
    if parameters is None:
        notes += left_out(len(chosen), len(names), "hyperparameters")
    return panels(drawn, dark, losses=losses, notes=notes)


def _slice_traces(
    table: Configurations, j: int, most: int, axis: LossAxis, colours: dict[float, str], named: set[str]
) -> list[Any]:
    """Return the trials of one panel: a trace per budget, one for failed trials and one for outliers.

    colours: of all budgets of the study, the smallest first.
    named: the names that the legend has already.
    """
    active = np.flatnonzero(~np.isnan(table.places[:, j]))
    losses, budgets, numbers = table.losses[active], table.budgets[active], table.numbers[active]
    x = table.places[active, j] + jitter(numbers, table.axes[j])
    kept = thinned(len(losses), most, np.argsort(losses, kind="stable")[:50].astype(np.intp))
    failed, outlier = ~np.isfinite(losses), axis.outside(losses)

    def drawn(mine: Any, y: Any, name: str, hover: str, marker: dict[str, Any]) -> Any:
        return marks(x[mine].astype(np.float32), y[mine], numbers[mine].astype(np.int32), name, hover, marker)

    traces = []
    for rank, (budget, colour) in enumerate(colours.items()):
        mine = kept[~failed[kept] & ~outlier[kept] & (budgets[kept] == budget)]
        dots = {"color": colour, "size": min(5 + rank, 8), "opacity": 0.75}
        hover = f"{axis.name} %{{y:.6g}}<br>budget {budget:g}"
        traces.append(drawn(mine, axis.values(losses), f"budget {budget:g}", hover, dots))
    crosses = {"symbol": "x-thin", "size": 6, "line": {"width": 1.5, "color": ORANGE}}
    traces.append(drawn(kept[failed[kept]], np.full(len(x), axis.worst), "failed", "failed", crosses))
    traces.append(axis.triangles(x, losses, numbers.tolist()))
    shown = [trace for trace in traces if trace is not None and len(trace.x)]
    for trace in shown:
        trace.showlegend = trace.name not in named
        named.add(trace.name)
    return shown


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
    axis = LossAxis(history.goals, table.losses)
    measure = np.log10 if table.log else np.asarray  # losses on the scale of the colours
    measured = axis.sign * measure(usual.clip(table.losses))
    colours = _colours(measured[np.isfinite(measured)], axis, table.log)
    traces = [_surface(table, axis.sign * measure(table.surface)), *_contour_points(table, measured, axis)]
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
        coloraxis=colours,
        notes=notes,
    )


def _colours(measured: Array, axis: LossAxis, log: bool) -> dict[str, Any]:
    """Return the scale of the colours; the worst tenth of the losses has the last one."""
    best, worst = (float(np.quantile(axis.sign * measured, q)) for q in (0, 0.9))
    first, last = sorted((axis.sign * best, axis.sign * (worst if worst > best else best + 1.0)))
    at = np.linspace(first, last, 5)
    losses = axis.sign * at
    shown = axis.values(10**losses if log else losses)
    return {
        "cmin": first,
        "cmax": last,
        "colorscale": LOSS_SCALE,
        "reversescale": axis.sign < 0,
        "colorbar": {
            "title": {"text": axis.name},
            "thickness": 12,
            "tickvals": at.tolist(),
            "ticktext": [f"{value:.3g}" for value in shown.tolist()],
        },
    }


def _surface(table: Contour, z: Array) -> Any:
    """Return the surface, coarse enough for a small file.

    It is no contour: the colour bar of plotly's contours can loop for ever if markers share its scale.
    """
    coarse = [[None if math.isnan(value) else float(f"{value:.3g}") for value in row] for row in z.tolist()]
    smooth = False if table.x.discrete or table.y.discrete else "best"
    gaps = {"xgap": 2 * table.x.discrete, "ygap": 2 * table.y.discrete, "zsmooth": smooth}
    return go.Heatmap(x=table.grid_x, y=table.grid_y, z=coarse, coloraxis="coloraxis", hoverinfo="skip", **gaps)


def _contour_points(table: Contour, measured: Array, axis: LossAxis) -> list[Any]:
    finite = np.isfinite(table.losses)
    best = np.argsort(table.losses, kind="stable")[:100].astype(np.intp)
    kept = thinned(len(finite), MOST_POINTS // 3, best)
    x = (table.points[:, 0] + jitter(table.numbers, table.x)).astype(np.float32)
    y = (table.points[:, 1] + jitter(table.numbers, table.y, 0.7548776662)).astype(np.float32)
    good, bad = kept[finite[kept]], kept[~finite[kept]]
    dots = {"size": 7, "color": measured[good], "coloraxis": "coloraxis", "line": {"width": 1, "color": "#ffffff"}}
    crosses = {"symbol": "x-thin", "size": 7, "line": {"width": 1.5, "color": ORANGE}}
    rows = np.column_stack([table.numbers[good], axis.values(table.losses[good])])
    hover = f"{axis.name} %{{customdata[1]:.6g}}"
    shown = [marks(x[good], y[good], rows, "trial", hover, dots, showlegend=False)]
    if len(bad):
        numbers = table.numbers[bad].astype(np.int32)
        shown.append(marks(x[bad], y[bad], numbers, "failed", "failed", crosses, showlegend=True))
    return shown
