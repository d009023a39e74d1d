"""Each hyperparameter against the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.configurations import Slice, slices
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.drawing import Figure, go
from bohb.plots.panels import Floats, Panel, jitter, most_important, panels
from bohb.plots.progress import NOTHING
from bohb.plots.theme import MOST_POINTS, ORANGE, budget_colours, empty, label, loss_axis, thinned


def draw_slice(
    history: History, dark: bool = False, budget: float | None = None, parameters: list[str] | None = None
) -> Figure:
    """A panel per hyperparameter: its value against the loss."""
    if not history.outcomes:
        return empty(NOTHING, dark)
    tables = slices(history, budget)
    chosen = parameters or most_important(history, [table.axis.name for table in tables])
    unknown = [name for name in chosen if name not in {table.axis.name for table in tables}]
    if unknown:
        raise InvalidArgument(f"parameters={chosen!r}: {unknown[0]!r} is not a hyperparameter that varies")
    tables = [table for table in tables if table.axis.name in chosen]
    finite = np.concatenate([table.losses[np.isfinite(table.losses)] for table in tables] or [np.empty(0)])
    colours = budget_colours(sorted({float(b) for table in tables for b in np.unique(table.budgets)}))
    most = max(200, MOST_POINTS // max(1, len(tables)))
    named: set[str] = set()
    drawn = [
        Panel(label(table.axis.name, 28), table.axis, _slice_traces(table, colours, most, _above(finite), named))
        for table in tables
    ]
    return panels(drawn, dark, loss_axis(finite), matched=True)


def _slice_traces(table: Slice, colours: dict[float, str], most: int, top: float, named: set[str]) -> list[Any]:
    """The trials of one panel, one trace per budget and one for those that failed."""
    finite = np.isfinite(table.losses)
    best = np.argsort(table.losses, kind="stable")[:50].astype(np.intp)
    kept = thinned(len(table.losses), most, best)
    x = table.places + jitter(table.numbers, table.axis)
    traces = []
    for rank, (budget, colour) in enumerate(colours.items()):
        mine = kept[finite[kept] & (table.budgets[kept] == budget)]
        traces.append(_marks(table, x, table.losses, mine, f"budget {budget:g}", colour, min(4 + rank, 8), named))
    failed = kept[~finite[kept]]
    crosses = _marks(table, x, np.full(len(x), top), failed, "failed (no loss)", ORANGE, 6, named)
    crosses.marker.symbol = "x-thin"
    crosses.marker.line = {"width": 1.5, "color": ORANGE}
    return [trace for trace in (*traces, crosses) if trace.x is not None and len(trace.x)]


def _marks(table: Slice, x: Floats, y: Floats, mine: Any, name: str, colour: str, size: float, named: set[str]) -> Any:
    first = len(mine) > 0 and name not in named
    if first:
        named.add(name)
    return go.Scatter(
        x=x[mine].astype(np.float32),
        y=y[mine],
        customdata=table.numbers[mine].astype(np.int32),
        mode="markers",
        name=name,
        legendgroup=name,
        showlegend=first,
        marker={"color": colour, "size": size, "opacity": 0.75},
        hovertemplate=f"trial %{{customdata}}<br>loss %{{y:.6g}}<br>{name}<extra></extra>",
    )


def _above(finite: Floats) -> float:
    """A loss a little above all others, where failed trials are drawn."""
    if not len(finite):
        return 1.0
    low, high = float(finite.min()), float(finite.max())
    if low > 0 and high / low > 100:
        return float(high * (high / low) ** 0.08)
    usual = float(np.quantile(finite, 0.95))
    if len(finite) >= 20 and high - low > 10 * (usual - low) > 0:
        high = usual + 0.1 * (usual - low)
    return high + 0.08 * ((high - low) or 1.0)
