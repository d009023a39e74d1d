"""The progress of a study: the best loss over time and over spent budget, and all losses over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.evaluations import Evaluation, losses
from bohb.analysis.trajectory import Moment, Step, trajectory
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
    no_losses,
    thinned,
)

_SYMBOLS = {Origin.RANDOM: "circle-open", Origin.MODEL: "circle", Origin.GIVEN: "diamond", Origin.PROMOTED: "circle"}
Place = Callable[[Moment], float]
Floats = NDArray[np.float64]


def draw_trajectory(history: History, dark: bool = False) -> Figure:
    """Draw the incumbent and the best loss per budget over time at work, or over trials if no time was recorded."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return no_losses(history, dark)
    place: Place = _trials
    title = "finished trials"
    if table.end.seconds is not None:
        size, unit = duration_unit(table.end.seconds)
        place, title = _seconds(size), f"time at work ({unit})"
    colours = budget_colours(list(table.per_budget))
    steps = [step for steps in table.per_budget.values() for step in steps]
    axis = LossAxis([step.loss for step in steps])
    traces = [
        _steps(steps, table.end, place, axis, f"best on budget {budget:g}", colours[budget], 1.5)
        for budget, steps in table.per_budget.items()
    ]
    traces += [
        _triangles(steps, place, axis),
        _incumbents(table.incumbents, table.end, place, axis, colours, "incumbent"),
    ]
    return figure(traces, dark=dark, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"})


def draw_budget_trajectory(history: History, dark: bool = False) -> Figure:
    """Draw the incumbent over spent budget, with and without continued training."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return no_losses(history, dark)
    colours = budget_colours(list(table.per_budget))
    axis = LossAxis([step.loss for step in table.incumbents], "loss of the incumbent")
    fresh = _incumbents(table.incumbents, table.end, _fresh, axis, colours, "each trial trained from scratch")
    fresh.line.dash = "dot"
    fresh.mode = "lines"
    name = "training continued from checkpoints"
    continued = _incumbents(table.incumbents, table.end, _continued, axis, colours, name)
    title = f"budget spent (full evaluations of {history.budgets[-1]:g})"
    return figure(
        [fresh, continued, _triangles(table.incumbents, _continued, axis)],
        dark=dark,
        losses=axis,
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
    )


def draw_losses(history: History, dark: bool = False) -> Figure:
    """Draw every finished trial over time at work, or over trials if no time was recorded."""
    rows = losses(history)
    if not rows:
        return no_losses(history, dark)
    y = np.array([np.nan if row.loss is None else row.loss for row in rows])
    best = np.array(sorted(range(len(rows)), key=lambda i: (-rows[i].budget, np.nan_to_num(y[i], nan=np.inf)))[:200])
    kept = thinned(len(rows), MOST_POINTS, best).tolist()
    x, title = _times(rows)
    axis = LossAxis(y)
    outlier = axis.outside(y)
    bad = [i for i in kept if rows[i].loss is None]
    colours = budget_colours([row.budget for row in rows])
    traces: list[Any] = []
    for rank, (budget, colour) in enumerate(colours.items()):
        here = [i for i in kept if rows[i].budget == budget and rows[i].loss is not None and not outlier[i]]
        first = True
        for symbol in ("circle", "circle-open", "diamond"):
            mine = [i for i in here if _SYMBOLS[rows[i].picked] == symbol]
            if mine:
                traces.append(_points(rows, mine, x, f"budget {budget:g}", colour, rank, symbol))
                traces[-1].showlegend, first = first, False
    traces.append(axis.triangles(x, y, [row.number for row in rows]))
    if bad:
        traces.append(_failed(rows, bad, x))
    left_out = len(rows) - len(kept)
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=[f"{left_out} of {len(rows)} trials are left out, evenly spaced"] if left_out else [],
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
        yaxis={"domain": [0, 0.9 if bad else 1]},
        yaxis2={
            "domain": [0.94, 1],
            "range": [-1, 1],
            "tickvals": [0],
            "ticktext": ["failed"],
            "showgrid": False,
            "fixedrange": True,
            "visible": bool(bad),
        },
    )


def _trials(at: Moment) -> float:
    return float(at.trials)


def _seconds(size: float) -> Place:
    return lambda at: (at.seconds or 0.0) / size


def _fresh(at: Moment) -> float:
    return at.fresh


def _continued(at: Moment) -> float:
    return at.continued


def _steps(
    steps: Sequence[Step], end: Moment, place: Place, axis: LossAxis, name: str, colour: str, width: float
) -> Any:
    """A line that keeps its level until the next step and continues to the end."""
    drawn = (*steps, steps[-1])
    return go.Scatter(
        x=np.array([place(step.at) for step in steps] + [place(end)]),
        y=axis.place([step.loss for step in drawn]),
        customdata=np.array([[step.number, step.budget, step.loss] for step in drawn], dtype=float),
        mode="lines",
        name=name,
        line={"shape": "hv", "color": colour, "width": width},
        hovertemplate=(
            "trial %{customdata[0]}<br>loss %{customdata[2]:.6g}<br>budget %{customdata[1]:~g}<extra></extra>"
        ),
    )


def _incumbents(
    steps: Sequence[Step], end: Moment, place: Place, axis: LossAxis, colours: dict[float, str], name: str
) -> Any:
    trace = _steps(steps, end, place, axis, name, GREY, 3)
    trace.mode = "lines+markers"
    sizes = [9] * len(steps) + [0]
    trace.marker = {"color": [colours[step.budget] for step in (*steps, steps[-1])], "size": sizes}
    return trace


def _triangles(steps: Sequence[Step], place: Place, axis: LossAxis) -> Any:
    x, y = [place(step.at) for step in steps], [step.loss for step in steps]
    return axis.triangles(x, y, [step.number for step in steps])


def _times(rows: list[Evaluation]) -> tuple[Floats, str]:
    """Return where each trial lies on the axis of time, and the title of that axis."""
    known = [row.seconds for row in rows if row.seconds is not None]
    if len(known) < len(rows):
        return np.arange(1, len(rows) + 1, dtype=float), "finished trials"
    size, unit = duration_unit(max(known))
    return np.array(known) / size, f"time at work ({unit})"


def _points(
    rows: list[Evaluation],
    chosen: list[int],
    x: Floats,
    name: str,
    colour: str,
    rank: int,
    symbol: str,
) -> Any:
    return go.Scatter(
        x=x[chosen],
        y=np.array([rows[i].loss for i in chosen], dtype=float),
        customdata=np.array([rows[i].number for i in chosen], dtype=np.int32),
        text=[f"{rows[i].origin.value}, first {rows[i].picked.value}" for i in chosen],
        mode="markers",
        name=name,
        legendgroup=name,
        marker={
            "color": colour,
            "size": min(5 + 1.5 * rank, 11) * (1.0 if len(rows) < 1500 else 0.6),
            "symbol": symbol,
            "line": {"width": 1, "color": colour},
        },
        hovertemplate=f"trial %{{customdata}}<br>loss %{{y:.6g}}<br>{name}<br>%{{text}}<extra></extra>",
    )


def _failed(rows: list[Evaluation], chosen: list[int], x: Floats) -> Any:
    return go.Scatter(
        x=x[chosen],
        y=np.zeros(len(chosen), dtype=np.int8),
        yaxis="y2",
        customdata=np.array([[rows[i].number, rows[i].budget] for i in chosen], dtype=float),
        text=[rows[i].status.value for i in chosen],
        mode="markers",
        name="failed",
        marker={
            "symbol": "x-thin",
            "size": 8,
            "line": {"width": 2, "color": [STATUSES[rows[i].status] for i in chosen]},
        },
        hovertemplate="trial %{customdata[0]}<br>%{text}<br>budget %{customdata[1]:~g}<extra></extra>",
    )
