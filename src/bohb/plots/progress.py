"""The progress of a study: the best loss over time and over spent budget, and all losses over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.evaluations import Evaluation, losses
from bohb.analysis.trajectory import Moment, Step, moments, trajectory
from bohb.core.history import History
from bohb.core.trial import Origin
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.theme import (
    GREY,
    MOST_POINTS,
    STATUSES,
    budget_colours,
    duration_unit,
    figure,
    left_out,
    loss_axis,
    marks,
    no_losses,
    thinned,
    ticks,
)

_SYMBOLS = {Origin.RANDOM: "circle-open", Origin.MODEL: "circle", Origin.GIVEN: "diamond", Origin.PROMOTED: "circle"}
Place = Callable[[Moment], float]
Floats = NDArray[np.float64]


def draw_trajectory(history: History, dark: bool = False) -> Figure:
    """Draw the incumbent and the best loss per budget over run time, or over trials if no time was recorded."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return no_losses(history, dark)
    place, title = _time_axis(table.end)
    colours = budget_colours(list(table.per_budget))
    steps = [step for steps in table.per_budget.values() for step in steps]
    axis = loss_axis(history.goals, [step.loss for step in steps])
    traces = [
        step_line(steps, table.end, place, axis, f"best on budget {budget:g}", colours[budget], 1.5)
        for budget, steps in table.per_budget.items()
    ]
    traces += [
        step_outliers(steps, place, axis),
        _incumbents(table.incumbents, table.end, place, axis, colours, "incumbent"),
    ]
    return figure(traces, dark=dark, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"})


def draw_budget_trajectory(history: History, dark: bool = False) -> Figure:
    """Draw the incumbent over spent budget, with and without continued training."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return no_losses(history, dark)
    colours = budget_colours(list(table.per_budget))
    axis = loss_axis(history.goals, [step.loss for step in table.incumbents], "{} of the incumbent")
    fresh, continued = (
        _incumbents(table.incumbents, table.end, place, axis, colours, name)
        for place, name in (
            (attrgetter("fresh"), "each trial trained from scratch"),
            (attrgetter("continued"), "training continued from checkpoints"),
        )
    )
    fresh.line.dash = "dot"
    fresh.mode = "lines"
    title = f"budget spent (full evaluations of {history.budgets[-1]:g})"
    return figure(
        [fresh, continued, step_outliers(table.incumbents, attrgetter("continued"), axis)],
        dark=dark,
        losses=axis,
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
    )


def draw_losses(history: History, dark: bool = False) -> Figure:
    """Draw every finished trial over run time, or over trials if no time was recorded."""
    rows = losses(history)
    if not rows:
        return no_losses(history, dark)
    y = np.array([np.nan if row.loss is None else row.loss for row in rows])
    best = np.array(sorted(range(len(rows)), key=lambda i: (-rows[i].budget, np.nan_to_num(y[i], nan=np.inf)))[:200])
    kept = thinned(len(rows), MOST_POINTS, best).tolist()
    when = moments(history, rows)
    place, title = _time_axis(when[-1])
    x = np.array([place(at) for at in when])
    axis = loss_axis(history.goals, y)
    outlier = axis.outside(y)
    bad = [i for i in kept if rows[i].loss is None]
    traces: list[Any] = []
    for rank, (budget, colour) in enumerate(budget_colours([row.budget for row in rows]).items()):
        here = [i for i in kept if rows[i].budget == budget and rows[i].loss is not None and not outlier[i]]
        symbols = sorted({_SYMBOLS[rows[i].picked] for i in here})
        for symbol in symbols:
            mine = [i for i in here if _SYMBOLS[rows[i].picked] == symbol]
            traces.append(_points(rows, mine, x, axis, f"budget {budget:g}", colour, rank, symbol))
            traces[-1].showlegend = symbol == symbols[0]
    traces.append(axis.triangles(x, y, [row.number for row in rows]))
    if bad:
        traces.append(_failed(rows, bad, x))
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=left_out(len(kept), len(rows), "trials"),
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
        yaxis={"domain": [0, 0.9 if bad else 1]},
        yaxis2=ticks(["failed"], domain=[0.94, 1], range=[-1, 1], showgrid=False, fixedrange=True, visible=bool(bad)),
    )


def _time_axis(end: Moment) -> tuple[Place, str]:
    """Return where a moment lies on the horizontal axis, and the title of that axis."""
    if end.seconds is None:
        return attrgetter("trials"), "finished trials"
    size, unit = duration_unit(end.seconds)
    return lambda at: (at.seconds or 0.0) / size, f"run time ({unit})"


def step_line(
    steps: Sequence[Step], end: Moment, place: Place, axis: LossAxis, name: str, colour: str, width: float
) -> Any:
    """Return a line that keeps its level until the next step and continues to the end."""
    drawn = (*steps, steps[-1])
    return go.Scatter(
        x=np.array([place(step.at) for step in steps] + [place(end)]),
        y=axis.place([step.loss for step in drawn]),
        customdata=np.column_stack(
            [[(step.number, step.budget) for step in drawn], axis.values([step.loss for step in drawn])]
        ),
        mode="lines",
        name=name,
        line={"shape": "hv", "color": colour, "width": width},
        hovertemplate=(
            f"trial %{{customdata[0]}}<br>{axis.name} %{{customdata[2]:.6g}}<br>"
            "budget %{customdata[1]:~g}<extra></extra>"
        ),
    )


def _incumbents(
    steps: Sequence[Step], end: Moment, place: Place, axis: LossAxis, colours: dict[float, str], name: str
) -> Any:
    trace = step_line(steps, end, place, axis, name, GREY, 3)
    trace.mode = "lines+markers"
    sizes = [9] * len(steps) + [0]
    trace.marker = {"color": [colours[step.budget] for step in (*steps, steps[-1])], "size": sizes}
    return trace


def step_outliers(steps: Sequence[Step], place: Place, axis: LossAxis) -> Any:
    """Return the outliers among the steps."""
    x, y = [place(step.at) for step in steps], [step.loss for step in steps]
    return axis.triangles(x, y, [step.number for step in steps])


def _points(
    rows: list[Evaluation],
    chosen: list[int],
    x: Floats,
    axis: LossAxis,
    name: str,
    colour: str,
    rank: int,
    symbol: str,
) -> Any:
    """Return the trials of one budget and one symbol."""
    size = min(5 + 1.5 * rank, 11) * (1.0 if len(rows) < 1500 else 0.6)
    return marks(
        x[chosen],
        axis.values(np.array([rows[i].loss for i in chosen], dtype=float)),
        np.array([rows[i].number for i in chosen], dtype=np.int32),
        name,
        f"{axis.name} %{{y:.6g}}<br>{name}<br>%{{text}}",
        {"color": colour, "size": size, "symbol": symbol, "line": {"width": 1, "color": colour}},
        text=[f"{rows[i].origin.value}, first {rows[i].picked.value}" for i in chosen],
    )


def _failed(rows: list[Evaluation], chosen: list[int], x: Floats) -> Any:
    colours = [STATUSES[rows[i].status] for i in chosen]
    return marks(
        x[chosen],
        np.zeros(len(chosen), dtype=np.int8),
        np.array([[rows[i].number, rows[i].budget] for i in chosen], dtype=float),
        "failed",
        "%{text}<br>budget %{customdata[1]:~g}",
        {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": colours}},
        text=[rows[i].status.value for i in chosen],
        yaxis="y2",
    )
