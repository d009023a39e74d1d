"""Each hyperparameter against the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.axes import Configurations, configurations
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.drawing import Figure
from bohb.plots.loss_axis import LossAxis
from bohb.plots.panels import jitter, most_important, panels
from bohb.plots.theme import MOST_POINTS, ORANGE, budget_colours, label, loss_axis, marks, no_losses, thinned


def draw_slice(
    history: History, dark: bool = False, budget: float | None = None, parameters: list[str] | None = None
) -> Figure:
    """Draw a panel per hyperparameter: its value against the loss."""
    if not history.outcomes:
        return no_losses(history, dark)
    table = configurations(history, budget)
    names = [axis.name for axis in table.axes]
    chosen = parameters or most_important(history, names)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InvalidArgument(f"parameters={chosen!r}: {unknown[0]!r} is not a hyperparameter that varies")
    losses = loss_axis(history.goals, table.losses)
    most = max(200, MOST_POINTS // max(1, len(chosen)))
    named: set[str] = set()
    drawn = [
        (label(name, 28), table.axes[j], _traces(table, j, most, losses, named))
        for j, name in enumerate(names)
        if name in chosen
    ]
    return panels(drawn, dark, losses=losses)


def _traces(table: Configurations, j: int, most: int, axis: LossAxis, named: set[str]) -> list[Any]:
    """Return the trials of one panel: a trace per budget, one for failed trials and one for outliers.

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
    for rank, (budget, colour) in enumerate(budget_colours(table.budgets.tolist()).items()):
        mine = kept[~failed[kept] & ~outlier[kept] & (budgets[kept] == budget)]
        dots = {"color": colour, "size": min(4 + rank, 8), "opacity": 0.75}
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
