"""Each hyperparameter against the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.configurations import Slice, slices
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.panels import Floats, Panel, jitter, most_important, panels
from bohb.plots.theme import MOST_POINTS, ORANGE, budget_colours, label, no_losses, thinned


def draw_slice(
    history: History, dark: bool = False, budget: float | None = None, parameters: list[str] | None = None
) -> Figure:
    """Draw a panel per hyperparameter: its value against the loss."""
    if not history.outcomes:
        return no_losses(history, dark)
    tables = slices(history, budget)
    chosen = parameters or most_important(history, [table.axis.name for table in tables])
    unknown = [name for name in chosen if name not in {table.axis.name for table in tables}]
    if unknown:
        raise InvalidArgument(f"parameters={chosen!r}: {unknown[0]!r} is not a hyperparameter that varies")
    tables = [table for table in tables if table.axis.name in chosen]
    axis = LossAxis([outcome.ranking_loss for outcome in history.outcomes.values()])
    colours = budget_colours(sorted({float(b) for table in tables for b in np.unique(table.budgets)}))
    most = max(200, MOST_POINTS // max(1, len(tables)))
    named: set[str] = set()
    drawn = [
        Panel(label(table.axis.name, 28), table.axis, _slice_traces(table, colours, most, axis, named))
        for table in tables
    ]
    return panels(drawn, dark, losses=axis)


def _slice_traces(table: Slice, colours: dict[float, str], most: int, axis: LossAxis, named: set[str]) -> list[Any]:
    """The trials of one panel: a trace per budget, one for outliers and one for failed trials."""
    finite, outlier = np.isfinite(table.losses), axis.outside(table.losses)
    best = np.argsort(table.losses, kind="stable")[:50].astype(np.intp)
    kept = thinned(len(table.losses), most, best)
    x = table.places + jitter(table.numbers, table.axis)
    traces = []
    for rank, (budget, colour) in enumerate(colours.items()):
        mine = kept[finite[kept] & ~outlier[kept] & (table.budgets[kept] == budget)]
        traces.append(_marks(table, x, table.losses, mine, f"budget {budget:g}", colour, min(4 + rank, 8)))
    triangles = axis.triangles(x, table.losses, table.numbers.tolist())
    crosses = _marks(table, x, np.full(len(x), axis.top), kept[~finite[kept]], "failed (no loss)", ORANGE, 6)
    crosses.marker.symbol = "x-thin"
    crosses.marker.line = {"width": 1.5, "color": ORANGE}
    crosses.hovertemplate = "trial %{customdata}<br>failed<extra></extra>"
    shown = [trace for trace in (*traces, crosses, triangles) if trace is not None and len(trace.x)]
    for trace in shown:  # each name once in the legend of all panels
        trace.showlegend = trace.name not in named
        named.add(trace.name)
    return shown


def _marks(table: Slice, x: Floats, y: Floats, mine: Any, name: str, colour: str, size: float) -> Any:
    return go.Scatter(
        x=x[mine].astype(np.float32),
        y=y[mine],
        customdata=table.numbers[mine].astype(np.int32),
        mode="markers",
        name=name,
        legendgroup=name,
        marker={"color": colour, "size": size, "opacity": 0.75},
        hovertemplate=f"trial %{{customdata}}<br>loss %{{y:.6g}}<br>{name}<extra></extra>",
    )
