"""Several objectives and constraints: the front, and the volume it dominates over the spent budget."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bohb.analysis.axes import loss_range
from bohb.analysis.objectives import Front, front, volumes
from bohb.core.history import History
from bohb.plots.axis import empty, figure, in_panel, no_losses
from bohb.plots.theme import BLUE, COLOURS, GREY, MOST_POINTS, ORANGE, PINK, Figure, go, label, left_out, marks, thinned
from bohb.units import counted, number

_MOST_PAIRS = 9
# Name, colour and symbols in two and three dimensions: the shape alone tells them apart.
_KINDS = (
    ("violates the constraints", ORANGE, "x", "x"),
    ("dominated", GREY, "circle-open", "circle-open"),
    ("on the front", BLUE, "diamond", "diamond"),
)
_WITHOUT_OBJECTIVES = ("keeps the constraints", BLUE, "circle", "circle")


def draw_front(history: History, budget: float | None = None) -> Figure:
    """Draw all results on one budget: in two or three dimensions, or as pairs if there are more values.

    budget: default: the largest one with a result that keeps the constraints.
    """
    if history.goals.single:
        return empty("This study has one objective and no constraint, so its front is its best result")
    table = front(history, budget)
    if table is None:
        return no_losses(history)
    notes = [f"{counted(len(table.numbers), 'result')} on budget {table.budget:g}"]
    parts = [f"{int(table.best.sum())} on the front"] if table.goals.several else []
    parts += [f"{int((~table.feasible).sum())} violate the constraints"] if table.goals.constraints else []
    notes.append(", ".join(parts))
    kept = thinned(len(table.numbers), MOST_POINTS // 2, np.flatnonzero(table.best))
    notes += left_out(len(kept), len(table.numbers), "results")
    custom = np.column_stack([table.numbers, table.values])
    table, n_outliers = _placed(table)
    notes += [f"{counted(n_outliers, 'outlier')} at the edge (hover for the values)"] if n_outliers else []
    if len(table.names) == 3 and table.goals.several:
        return _solid(table, custom, kept, notes)
    pairs = list(itertools.combinations(range(len(table.names)), 2))
    if not table.goals.several:
        pairs = [pair for pair in pairs if pair[0] == 0]  # the objective against each constraint
    notes += left_out(min(len(pairs), _MOST_PAIRS), len(pairs), "pairs of values")
    return _flat(table, custom, kept, pairs[:_MOST_PAIRS], notes)


def draw_hypervolume(history: History) -> Figure:
    """Draw the volume that the front dominates over the spent budget."""
    if not history.goals.several:
        return empty("This study has one objective; a front needs several")
    return draw_volumes({"": history})


def draw_volumes(histories: Mapping[str, History]) -> Figure:
    """Draw the volumes that the fronts of studies dominate, as shares of one common space.

    histories: the studies by the names in the legend.
    """
    found = volumes(*histories.values())
    if not any(found):
        return no_losses(next(iter(histories.values())))
    lines = [
        go.Scatter(
            x=np.array([volume.at.continued for volume in mine]),
            y=np.array([100 * volume.share for volume in mine]),
            customdata=np.array([volume.number for volume in mine]),
            mode="lines+markers",
            name=label(name),
            line={"shape": "hv", "color": colour, "width": 2.5},
            hovertemplate=f"{label(name)}{'<br>' if name else ''}trial %{{customdata}}<br>%{{y:.2f}} %<extra></extra>",
            showlegend=len(histories) > 1,
        )
        for (name, mine), colour in zip(zip(histories, found, strict=True), itertools.cycle(COLOURS), strict=False)
    ]
    full = max(history.budgets[-1] for history in histories.values())
    of = f" of {number(full)}" if len(histories) == 1 else ""
    return figure(
        lines,
        xaxis={"title": {"text": f"budget spent (full evaluations{of})"}, "rangemode": "tozero"},
        yaxis={"title": {"text": "dominated volume (%)"}, "range": [0, 102]},
    )


def _placed(table: Front) -> tuple[Front, int]:
    """Return the results with outliers a little beyond all other values, and how many have one."""
    drawn, outliers = table.values.copy(), np.zeros(len(table.numbers), dtype=np.bool_)
    for i, name in enumerate(table.names):
        losses = -table.values[:, i] if table.maximised(name) else table.values[:, i]
        usual = loss_range(losses)
        if usual is not None and (outside := usual.outside(losses)).any():
            pad = 0.05 * (usual.high - usual.low or abs(usual.high) or 1.0)
            placed = np.where(losses > usual.high, usual.high + pad, np.maximum(losses, usual.low - pad))
            drawn[:, i], outliers = -placed if table.maximised(name) else placed, outliers | outside
    return replace(table, values=drawn), int(outliers.sum())


def _kinds(table: Front, kept: Any) -> list[tuple[str, str, str, str, Any]]:
    """Return name, colour, symbols and rows of each kind of result."""
    rows = (kept[~table.feasible[kept]], kept[table.feasible[kept] & ~table.best[kept]], kept[table.best[kept]])
    if not table.goals.several:
        best = ("the best of them", PINK, "star", "diamond")
        kinds = (_KINDS[0], _WITHOUT_OBJECTIVES, best)
    else:
        kinds = _KINDS
    return [(*kind, mine) for kind, mine in zip(kinds, rows, strict=True) if len(mine)]


def _title(table: Front, name: str) -> str:
    better = "larger is better" if table.maximised(name) else "smaller is better"
    known = [goal for goal in table.goals.constraints if goal.name == name]
    objective = any(objective.name == name for objective in table.goals.objectives)
    words = ([better] if objective else []) + [label(str(goal), 20) for goal in known]
    return f"{label(name, 24)} ({', '.join(words)})"


def _hover(table: Front) -> str:
    return "<br>".join(f"{label(name, 24)} %{{customdata[{i}]:.6g}}" for i, name in enumerate(table.names, start=1))


def _flat(table: Front, custom: Any, kept: Any, pairs: list[tuple[int, int]], notes: list[str]) -> Figure:
    """Draw one panel per pair of values."""
    columns = 1 if len(pairs) == 1 else 2 if len(pairs) <= 4 else 3
    rows = -(-len(pairs) // columns)
    traces: list[Any] = []
    layout: dict[str, Any] = {"shapes": []}
    named: set[str] = set()
    for index, (i, j) in enumerate(pairs):
        row, column = divmod(index, columns)
        name = "" if index == 0 else str(index + 1)
        across = [column / columns + (0.1 if column else 0), (column + 1) / columns]
        up = [1 - (row + 1) / rows + (0.12 if rows > 1 else 0), 1 - row / rows]
        layout[f"xaxis{name}"] = _axis(table, i, {"domain": across, "anchor": f"y{name}"})
        layout[f"yaxis{name}"] = _axis(table, j, {"domain": up, "anchor": f"x{name}"})
        mine = [_stairs(table, i, j)] if len(table.names) == 2 and table.goals.several and table.best.any() else []
        for title, colour, symbol, _, chosen in _kinds(table, kept):
            look = {"color": colour, "symbol": symbol, "size": 10 if symbol in ("diamond", "star") else 7}
            x, y = table.values[chosen, i], table.values[chosen, j]
            mine.append(marks(x, y, custom[chosen], title, _hover(table), look))
        traces += in_panel(mine, name, named)
        layout["shapes"] += _bounds(table, (i, f"x{name}"), (j, f"y{name}"))
    return figure(traces, height=430 if rows == 1 else 320 * rows, notes=notes, showlegend=True, **layout)


def _axis(table: Front, i: int, layout: dict[str, Any]) -> dict[str, Any]:
    """Return the axis of a value; a logarithmic one if its values are powers of ten apart."""
    values = table.values[:, i]
    log = values.min() > 0 and values.max() > 50 * values.min()
    kind = {"type": "log", "nticks": 3} if log else {}
    return {"title": {"text": _title(table, table.names[i])}, "tickformat": "~g", **kind, **layout}


def _stairs(table: Front, i: int, j: int) -> Any:
    """Return the line between what the front dominates and what it does not."""
    points = table.values[table.best][:, [i, j]]
    points = points[np.argsort(points[:, 0], kind="stable")]
    if table.maximised(table.names[i]):
        points = points[::-1]  # from the best first value to the worst
    line = {"color": BLUE, "width": 1.5, "shape": "hv"}
    return go.Scatter(x=points[:, 0], y=points[:, 1], mode="lines", line=line, hoverinfo="skip")


def _bounds(table: Front, x: tuple[int, str], y: tuple[int, str]) -> Iterator[dict[str, Any]]:
    """Yield dashed lines at the bounds of constraints; x and y are the values on the axes, and the axes."""
    dashes = {"type": "line", "line": {"color": ORANGE, "width": 1.5, "dash": "dash"}, "layer": "below"}
    for goal in table.goals.constraints:
        at = {"x0": goal.bound, "x1": goal.bound, "y0": goal.bound, "y1": goal.bound}
        if goal.name == table.names[x[0]]:
            yield {**dashes, **at, "xref": x[1], "yref": f"{y[1]} domain", "y0": 0, "y1": 1}
        if goal.name == table.names[y[0]]:
            yield {**dashes, **at, "xref": f"{x[1]} domain", "yref": y[1], "x0": 0, "x1": 1}


def _solid(table: Front, custom: Any, kept: Any, notes: list[str]) -> Figure:
    """Draw three objectives in space."""
    traces = [
        go.Scatter3d(
            x=table.values[mine, 0],
            y=table.values[mine, 1],
            z=table.values[mine, 2],
            customdata=custom[mine],
            mode="markers",
            name=title,
            marker={"color": colour, "symbol": symbol, "size": 6 if symbol == "diamond" else 4},
            hovertemplate=f"trial %{{customdata[0]}}<br>{_hover(table)}<extra></extra>",
        )
        for title, colour, _, symbol, mine in _kinds(table, kept)
    ]
    arrows = {name: "↑" if table.maximised(name) else "↓" for name in table.names}  # whole titles have no room
    titles = [{"title": {"text": f"{label(name, 20)} {arrows[name]}"}, "tickformat": "~g"} for name in table.names]
    scene = dict(zip(("xaxis", "yaxis", "zaxis"), titles, strict=True))
    scene["camera"] = {"eye": {"x": 1.6, "y": 1.6, "z": 1.1}}
    return figure(traces, height=560, notes=notes, showlegend=True, scene=scene)
