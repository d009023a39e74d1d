"""How the study went: the best loss over time and over spent budget, and every loss over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bohb.analysis.evaluations import Evaluation, losses
from bohb.analysis.trajectory import Moment, Step, trajectory
from bohb.core.history import History
from bohb.core.trial import Origin
from bohb.plots.drawing import Figure, go
from bohb.plots.theme import (
    GREY,
    MOST_POINTS,
    STATUSES,
    budget_colours,
    duration_unit,
    empty,
    figure,
    loss_axis,
    note,
    thinned,
)

NOTHING = "No finished trial yet"
NO_LOSS = "No trial has a loss yet: all that finished have failed"
_SYMBOLS = {Origin.RANDOM: "circle-open", Origin.MODEL: "circle", Origin.GIVEN: "diamond", Origin.PROMOTED: "circle"}
Place = Callable[[Moment], float]


def draw_trajectory(history: History, dark: bool = False) -> Figure:
    """The incumbent and the best loss per budget over time at work; over trials if no time was recorded."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return empty(NOTHING if table.end is None else NO_LOSS, dark)
    place: Place = _trials
    title = "finished trials"
    if table.end.seconds is not None:
        size, unit = duration_unit(table.end.seconds)
        place, title = _seconds(size), f"time at work ({unit})"
    colours = budget_colours(list(table.per_budget))
    traces = [
        _steps(steps, table.end, place, f"best on budget {budget:g}", colours[budget], 1.5)
        for budget, steps in table.per_budget.items()
    ]
    traces.append(_incumbents(table.incumbents, table.end, place, colours, "incumbent"))
    shown = [step.loss for steps in table.per_budget.values() for step in steps]
    return figure(traces, dark=dark, xaxis={"title": {"text": title}, "rangemode": "tozero"}, yaxis=loss_axis(shown))


def draw_budget_trajectory(history: History, dark: bool = False) -> Figure:
    """The incumbent over spent budget, with and without continued training."""
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return empty(NOTHING if table.end is None else NO_LOSS, dark)
    colours = budget_colours(list(table.per_budget))
    fresh = _incumbents(table.incumbents, table.end, lambda at: at.fresh, colours, "each trial trained afresh")
    fresh.line.dash = "dot"
    fresh.mode = "lines"
    continued = _incumbents(
        table.incumbents, table.end, lambda at: at.continued, colours, "training continued from checkpoints"
    )
    shown = [step.loss for step in table.incumbents]
    title = f"budget spent (full evaluations of {history.budgets[-1]:g})"
    return figure(
        [fresh, continued],
        dark=dark,
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
        yaxis=loss_axis(shown, "loss of the incumbent"),
    )


def draw_losses(history: History, dark: bool = False) -> Figure:
    """Every finished trial over time at work; over trials if no time was recorded."""
    rows = losses(history)
    if not rows:
        return empty(NOTHING, dark)
    best = np.array(sorted(range(len(rows)), key=lambda i: (-rows[i].budget, _loss(rows[i])))[:200], dtype=np.intp)
    kept = thinned(len(rows), MOST_POINTS, best).tolist()
    x, title = _times(rows)
    good = [i for i in kept if rows[i].loss is not None]
    bad = [i for i in kept if rows[i].loss is None]
    colours = budget_colours([row.budget for row in rows])
    traces = []
    for rank, (budget, colour) in enumerate(colours.items()):
        here = [i for i in good if rows[i].budget == budget]
        first = True
        for symbol in ("circle", "circle-open", "diamond"):
            mine = [i for i in here if _SYMBOLS[rows[i].picked] == symbol]
            if mine:
                traces.append(_points(rows, mine, x, f"budget {budget:g}", colour, rank, symbol))
                traces[-1].showlegend, first = first, False
    if bad:
        traces.append(_failed(rows, bad, x))
    left_out = len(rows) - len(kept)
    notes = [note(f"{left_out} of {len(rows)} trials are left out, evenly spaced")] if left_out else []
    return figure(
        traces,
        dark=dark,
        xaxis={"title": {"text": title}, "rangemode": "tozero"},
        yaxis={**loss_axis([_loss(row) for row in rows]), "domain": [0, 0.9 if bad else 1]},
        yaxis2={
            "domain": [0.94, 1],
            "range": [-1, 1],
            "tickvals": [0],
            "ticktext": ["failed"],
            "showgrid": False,
            "fixedrange": True,
            "visible": bool(bad),
        },
        annotations=notes,
    )


def _trials(at: Moment) -> float:
    return float(at.trials)


def _seconds(size: float) -> Place:
    return lambda at: (at.seconds or 0.0) / size


def _steps(steps: Sequence[Step], end: Moment, place: Place, name: str, colour: str, width: float) -> Any:
    """A line that keeps its level until the next step, drawn on to the end."""
    x = [place(step.at) for step in steps] + [place(end)]
    y = [step.loss for step in steps] + [steps[-1].loss]
    data = np.array([[step.number, step.budget] for step in (*steps, steps[-1])], dtype=float)
    return go.Scatter(
        x=np.array(x),
        y=np.array(y),
        customdata=data,
        mode="lines",
        name=name,
        line={"shape": "hv", "color": colour, "width": width},
        hovertemplate="trial %{customdata[0]}<br>loss %{y:.6g}<br>budget %{customdata[1]:~g}<extra></extra>",
    )


def _incumbents(steps: Sequence[Step], end: Moment, place: Place, colours: dict[float, str], name: str) -> Any:
    trace = _steps(steps, end, place, name, GREY, 3)
    trace.mode = "lines+markers"
    sizes = [9] * len(steps) + [0]
    trace.marker = {"color": [colours[step.budget] for step in (*steps, steps[-1])], "size": sizes}
    return trace


def _times(rows: list[Evaluation]) -> tuple[np.ndarray[Any, np.dtype[np.float64]], str]:
    """Where each trial lies on the axis of time, and the axis's title."""
    known = [row.seconds for row in rows if row.seconds is not None]
    if len(known) < len(rows):
        return np.arange(1, len(rows) + 1, dtype=float), "finished trials"
    size, unit = duration_unit(max(known))
    return np.array(known) / size, f"time at work ({unit})"


def _points(
    rows: list[Evaluation],
    chosen: list[int],
    x: np.ndarray[Any, np.dtype[np.float64]],
    name: str,
    colour: str,
    rank: int,
    symbol: str,
) -> Any:
    return go.Scatter(
        x=x[chosen],
        y=np.array([_loss(rows[i]) for i in chosen]),
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


def _failed(rows: list[Evaluation], chosen: list[int], x: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
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


def _loss(row: Evaluation) -> float:
    return np.inf if row.loss is None else row.loss
