"""The results of a study: the best loss over time or spent budget, all losses, and a comparison of studies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import settled_range
from bohb.analysis.trajectory import Evaluation, Moment, Step, Trajectory, losses, moments, trajectory
from bohb.core.goals import Goals, Objective
from bohb.core.history import History
from bohb.core.trial import Origin
from bohb.errors import InvalidArgument
from bohb.plots.axis import LossAxis, empty, figure, no_losses
from bohb.plots.theme import (
    BLUE,
    GREEN,
    GREY,
    MOST_POINTS,
    ORANGE,
    PINK,
    STATUSES,
    Figure,
    budget_colours,
    duration_unit,
    go,
    label,
    left_out,
    marks,
    thinned,
    ticks,
)

_SYMBOLS = {Origin.RANDOM: "circle-open", Origin.MODEL: "circle", Origin.GIVEN: "diamond", Origin.PROMOTED: "circle"}
_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#7d6bc4", "#b8860b")  # of studies that are compared
_DASHES = ("solid", "dash", "dot", "dashdot")  # when the colours are used up
_BEGINNING = 0.1  # share of a study whose losses may be outside the axis of a comparison
Place = Callable[[Moment], float]
Floats = NDArray[np.float64]


def draw_trajectory(history: History, dark: bool = False, over: str = "time") -> Figure:
    """Draw the incumbent and the best loss per budget.

    over: "time" for the run time, or for trials if no time was recorded; "cost" for the spent budget, with a second
        line of the incumbent for trials that all start from scratch.
    """
    table = trajectory(history)
    if table.end is None or not table.incumbents:
        return no_losses(history, dark)
    place, title = _across(table.end, over, f" of {history.budgets[-1]:g}")
    colours = budget_colours(list(table.per_budget))
    steps = [step for steps in table.per_budget.values() for step in steps]
    axis = LossAxis.of(history.goals, [step.loss for step in steps])
    traces = [
        step_line(steps, table.end, place, axis, f"best on budget {budget:g}", colours[budget], 1.5)
        for budget, steps in table.per_budget.items()
    ]
    x, y = [place(step.at) for step in steps], [step.loss for step in steps]
    traces.append(axis.triangles(x, y, [step.number for step in steps]))
    if over == "cost":
        scratch = attrgetter("fresh")
        traces.append(step_line(table.incumbents, table.end, scratch, axis, "incumbent, from scratch", GREY, 1.5))
        traces[-1].line.dash = "dot"
    traces.append(step_line(table.incumbents, table.end, place, axis, "incumbent", GREY, 3))
    traces[-1].mode = "lines+markers"
    dots = [colours[step.budget] for step in table.incumbents]
    traces[-1].marker = {"color": [*dots, dots[-1]], "size": [9] * len(dots) + [0]}
    return figure(traces, dark=dark, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"})


def draw_losses(history: History, dark: bool = False) -> Figure:
    """Draw every finished trial over run time, or over trials if no time was recorded."""
    rows = losses(history)
    if not rows:
        return no_losses(history, dark)
    y = np.array([np.nan if row.loss is None else row.loss for row in rows])
    best = np.array(sorted(range(len(rows)), key=lambda i: (-rows[i].budget, np.nan_to_num(y[i], nan=np.inf)))[:200])
    kept = thinned(len(rows), MOST_POINTS, best).tolist()
    when = moments(history, rows)
    place, title = _across(when[-1])
    x = np.array([place(at) for at in when])
    axis = LossAxis.of(history.goals, y)
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


def _across(end: Moment, over: str = "time", of: str = "") -> tuple[Place, str]:
    """Return where a moment lies on the horizontal axis, and the title of that axis.

    of: what a full evaluation is.
    """
    if over == "cost":
        return attrgetter("continued"), f"budget spent (full evaluations{of})"
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


def draw_comparison(histories: Mapping[str, History], dark: bool = False, over: str = "cost") -> Figure:
    """Draw the incumbents of any number of studies; the axis suits how they end, not how they begin.

    Studies that maximise have a panel of their own below those that minimise.

    histories: the studies by the names in the legend.
    over: "cost" for the spent budget in full evaluations, "time" for the run time.
    """
    if over not in ("cost", "time"):
        raise InvalidArgument(f"over={over!r} must be 'cost' or 'time'")
    tables = {name: table for name, history in histories.items() if (table := trajectory(history)).incumbents}
    if not tables:
        return empty("No study has a result yet", dark)
    ends = [table.end for table in tables.values() if table.end is not None]
    place, across = _across(replace(ends[0], seconds=max(end.seconds or 0.0 for end in ends)), over)
    goals = {name: histories[name].goals for name in tables}
    groups = [{n: t for n, t in tables.items() if goals[n].objectives[0].maximised == up} for up in (False, True)]
    title = "{} of the incumbent" if not all(groups) else "{}"  # two panels leave no room for more
    axes = [_common_axis([goals[name] for name in group], list(group.values()), title) for group in groups if group]
    styles = itertools.cycle(itertools.product(_DASHES, _COLOURS))
    traces = [
        _compared(name, table, place, axis, style, index)
        for index, (axis, group) in enumerate(zip(axes, filter(None, groups), strict=True))
        for (name, table), style in zip(group.items(), styles, strict=False)
    ]
    panels: dict[str, Any] = {"xaxis": {"title": {"text": across}, "rangemode": "tozero"}}
    if len(axes) > 1:
        panels["xaxis"]["anchor"] = "y2"
        panels |= {"yaxis": {"domain": [0.55, 1]}, "yaxis2": {**axes[1].layout(), "domain": [0, 0.45]}}
    notes = [axis.note for axis in axes[1:]]
    return figure(traces, dark=dark, losses=axes[0], notes=notes, showlegend=True, **panels)


def _common_axis(goals: list[Goals], tables: list[Trajectory], title: str) -> LossAxis:
    """Return the axis of studies that all minimise or all maximise."""
    objectives = {each.objectives[0] for each in goals}
    up = goals[0].objectives[0].maximised
    common = goals[0] if len(objectives) == 1 else Goals((Objective("score" if up else "loss", up),))
    losses = [step.loss for table in tables for step in table.incumbents]
    shown = settled_range([loss for table in tables for loss in _settled(table)], losses)
    return LossAxis.of(common, losses, title, shown=shown, outside=("early result", "early results"))


def _compared(name: str, table: Trajectory, place: Place, axis: LossAxis, style: tuple[str, str], panel: int) -> Any:
    assert table.end is not None
    dash, colour = style
    line = step_line(table.incumbents, table.end, place, axis, label(name), colour, 2.5)
    line.line.dash = dash
    line.hovertemplate = f"{label(name)}<br>{line.hovertemplate}"
    line.yaxis = "y" if panel == 0 else f"y{panel + 1}"
    return line


def _settled(table: Trajectory) -> list[float]:
    """Return the losses that a study had after its first tenth, by spent budget."""
    assert table.end is not None
    begin = _BEGINNING * table.end.continued
    later = [step.loss for step in table.incumbents if step.at.continued > begin]
    before = [step.loss for step in table.incumbents if step.at.continued <= begin][-1:]
    return before + later
