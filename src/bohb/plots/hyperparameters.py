"""Hyperparameters: which ones matter, each one or two of them against the loss, and all as lines through axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from bohb.analysis.axes import (
    Array,
    Axis,
    Configurations,
    axes,
    configurations,
    loss_range,
    round_values,
    telling_budget,
    text,
)
from bohb.analysis.importance import ENOUGH, importance
from bohb.analysis.models import Contour, contour
from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.errors import InvalidArgument
from bohb.plots import theme
from bohb.plots.axis import LossAxis, empty, figure, jitter, most_important, no_losses, panel_axis, panels
from bohb.plots.theme import MOST_LINES, MOST_POINTS, Figure, budget_colours, go, label, left_out, marks, thinned, ticks
from bohb.units import counted

_MOST_BARS = 30
# Name, range of ranks as shares, colour, width and opacity; drawn in this order.
_GROUPS = (
    ("failed", 1.0, 2.0, theme.ORANGE, 0.8, 0.7),
    ("the rest", 0.5, 1.0, theme.GREY, 0.8, 0.5),
    ("next 40 %", 0.1, 0.5, theme.PINK, 1.0, 0.6),
    ("best 10 %", 0.0, 0.1, theme.BLUE, 2.0, 0.95),
)
_MOST_TICKS = 5  # per axis
_AXIS_WIDTH = 92  # pixels; with less the tick labels of neighbouring axes touch


def draw_importance(history: History, budget: float | None = None) -> Figure:
    """Draw a bar per hyperparameter, the most important on top."""
    table = importance(history, budget)
    if table is None:
        return empty(f"Too few results: importance needs at least {ENOUGH} on one budget, with different values")
    rows = table.rows[:_MOST_BARS][::-1]
    places, names = np.arange(len(rows)), [axis.name for axis in axes(history.space)]
    most = 125 * max(row.share for row in table.rows)
    bars = go.Bar(
        x=np.array([100 * row.share for row in rows]),
        y=places,
        orientation="h",
        name="importance",
        customdata=[names.index(row.name) for row in rows],
        marker={"color": [theme.BLUE if row.share > row.chance else theme.GREY for row in rows]},
        hovertemplate="%{x:.1f} %<extra></extra>",
        showlegend=False,
    )
    by_chance = go.Scatter(
        x=np.array([min(100 * row.chance, most) for row in rows]),
        y=places,
        mode="markers",
        name="95 % of shuffled results are below",
        marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": theme.BAD}},
        hovertemplate="chance alone: up to %{x:.1f} %<extra></extra>",
    )
    source = "random picks" if table.budget is None else f"results on budget {table.budget:g}"
    return figure(
        [bars, by_chance],
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
    history: History, budget: float | Literal["all"] | None = None, parameters: list[str] | None = None
) -> Figure:
    """Draw a panel per hyperparameter: its value against the loss.

    budget: one budget, or "all". Default: the largest one with enough losses.
    parameters: the hyperparameters to show. Default: all, or the most important ones if these are too many.
    """
    if not history.outcomes:
        return no_losses(history)
    budget = telling_budget(history) if budget is None else budget
    table = configurations(history, None if budget == "all" else budget)
    names = [axis.name for axis in table.axes]
    chosen = parameters or most_important(history, names)
    unknown = [name for name in chosen if name not in names]
    if unknown:
        raise InvalidArgument(f"parameters={chosen!r}: {unknown[0]!r} is not a hyperparameter that varies")
    losses = LossAxis(history.goals, table.losses)
    most = max(200, MOST_POINTS // max(1, len(chosen)))
    colours = budget_colours([history.trials[number].budget for number in history.outcomes])
    drawn = [
        (label(name, 28), table.axes[j], _slice_traces(table, j, most, losses, colours))
        for j, name in enumerate(names)
        if name in chosen
    ]
    where = "all budgets" if isinstance(budget, str) or budget is None else f"budget {budget:g}"
    notes = [f"{counted(len(table.losses), 'trial')} on {where}"]
    if parameters is None:
        notes += left_out(len(chosen), len(names), "hyperparameters")
    return panels(drawn, losses=losses, notes=notes)


def _slice_traces(table: Configurations, j: int, most: int, axis: LossAxis, colours: dict[float, str]) -> list[Any]:
    """Return the trials of one panel: a trace per budget, one for failed trials and one for outliers.

    colours: of all budgets of the study, the smallest first.
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
    crosses = {"symbol": "x-thin", "size": 6, "line": {"width": 1.5, "color": theme.ORANGE}}
    traces.append(drawn(kept[failed[kept]], np.full(len(x), axis.worst), "failed", "failed", crosses))
    traces.append(axis.triangles(x, losses, numbers.tolist()))
    return [trace for trace in traces if trace is not None and len(trace.x)]


def draw_contour(history: History, x: str | None = None, y: str | None = None, budget: float | None = None) -> Figure:
    """Draw the loss over two hyperparameters, by default the most important ones."""
    table = contour(history, x, y, budget)
    if table is None:
        if history.created is not None and history.space.d < 2:
            return empty("Only one hyperparameter varies; there is no second axis")
        return no_losses(history)
    usual = loss_range(table.losses)
    if usual is None:
        return empty("No trial with a result has both hyperparameters active")
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
        "colorscale": theme.LOSS_SCALE,
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
    crosses = {"symbol": "x-thin", "size": 7, "line": {"width": 1.5, "color": theme.ORANGE}}
    rows = np.column_stack([table.numbers[good], axis.values(table.losses[good])])
    hover = f"{axis.name} %{{customdata[1]:.6g}}"
    shown = [marks(x[good], y[good], rows, "trial", hover, dots, showlegend=False)]
    if len(bad):
        numbers = table.numbers[bad].astype(np.int32)
        shown.append(marks(x[bad], y[bad], numbers, "failed", "failed", crosses, showlegend=True))
    return shown


def draw_parallel(history: History, budget: float | None = None) -> Figure:
    """Draw every configuration of one budget as a line through its values.

    budget: default: the largest one with enough losses.
    """
    budget = telling_budget(history) if budget is None else budget
    if budget is None:
        return no_losses(history)
    table = configurations(history, budget)
    columns = _columns(history, table)
    shown = [table.axes[j] for j in columns]
    axis = LossAxis(history.goals, table.losses)
    losses, scale = _loss_places(table.losses, axis)
    places = np.column_stack([table.places[:, columns], losses])  # (n, d + 1)
    best = np.argsort(table.losses, kind="stable")
    rank = np.empty(len(best))
    rank[best] = np.arange(len(best)) / max(1, int(np.isfinite(table.losses).sum()))
    rank[~np.isfinite(table.losses)] = 1.0
    kept = thinned(len(best), MOST_LINES, best[: MOST_LINES // 3].astype(np.intp))
    traces = []
    for name, better, worse, colour, width, opacity in _GROUPS:
        rows = kept[(rank[kept] >= better) & (rank[kept] < worse)]
        numbers = table.numbers[rows].tolist()
        words = [_words(history.trials[int(table.numbers[row])], table.losses[row], shown, axis) for row in rows]
        traces += _lines(places[rows], numbers, words, name, {"color": colour, "width": width}, opacity)
    notes = [
        f"{counted(len(best), 'configuration')} on budget {budget:g}",
        *left_out(len(kept), len(best), "configurations"),
        *left_out(len(columns), len(table.axes), "hyperparameters"),
    ]
    return _parallel_figure(traces, shown, axis.name, scale, notes)


def _columns(history: History, table: Configurations) -> list[int]:
    """Return the hyperparameters to show, those that are most often active first, so that gaps are side by side."""
    chosen = most_important(history, [axis.name for axis in table.axes])
    active = (~np.isnan(table.places)).sum(axis=0)
    columns = [j for j, axis in enumerate(table.axes) if axis.name in chosen and active[j]]
    return sorted(columns, key=lambda j: -int(active[j]))


def _loss_places(losses: Array, axis: LossAxis) -> tuple[Array, list[tuple[float, str]]]:
    """Return where losses lie between 0 and 1, outliers and failed trials at the worst end, and the axis's ticks.

    Large values are on top, so that the best ones are at the bottom unless a score is maximised.
    """
    usual = loss_range(losses)
    if usual is None:
        return np.ones(len(losses)), [(1.0, "failed")]
    measure = np.log10 if usual.log else np.asarray
    first, last = float(measure(usual.low)), float(measure(usual.high))
    width = (last - first) or 1.0
    finite = np.isfinite(losses)
    places = np.ones(len(losses))
    places[finite] = (measure(usual.clip(losses[finite])) - first) / width
    shown = round_values(usual.low, usual.high, log=usual.log) if usual.high > usual.low else [usual.low]
    scale = [((float(measure(value)) - first) / width, f"{axis.values([value])[0]:.3g}") for value in shown]
    if usual.outside(losses).any():
        last = axis.values([usual.high])[0]
        more = f"{'≥' if last == usual.high else '≤'} {last:.3g}"
        scale = [(place, text) for place, text in scale if place < 0.93] + [(1.0, more)]
    if axis.sign < 0:
        return 1 - places, [(1 - place, text) for place, text in scale]
    return places, scale


def _lines(
    places: Array, numbers: list[int], words: list[list[str]], name: str, line: dict[str, Any], opacity: float
) -> list[Any]:
    """Return one group of lines, each followed by a gap, and dotted lines across inactive axes.

    places: (n, d + 1) where each line crosses each axis.
    numbers: the trial of each line, for the script that brushes lines.
    words: the hover text of each line at each axis, and at the gap.
    """
    n, axes = places.shape
    if not n:
        return []
    shared = {"legendgroup": name, "opacity": opacity}
    solid = go.Scatter(
        x=np.tile(np.append(np.arange(axes), np.nan), n).astype(np.float32),
        y=_plain(np.hstack([places, np.full((n, 1), np.nan)])),
        text=list(itertools.chain.from_iterable(words)),
        meta=numbers,
        mode="lines+markers",
        name=name,
        line=line,
        marker={"color": line["color"], "size": 4},
        hovertemplate="%{text}<extra></extra>",
        **shared,
    )
    bridges = np.array([piece for row in places for piece in _bridges(row)], dtype=float).reshape(-1, 2)
    dotted = go.Scatter(
        x=bridges[:, 0],
        y=_plain(bridges[:, 1]),
        mode="lines",
        showlegend=False,
        line={**line, "dash": "dot"},
        hoverinfo="skip",
        **shared,
    )
    return [dotted, solid] if len(bridges) else [solid]


def _plain(places: Array) -> list[float | None]:
    """Return places as JSON has them, None for NaN, which the script that brushes lines reads."""
    return [None if math.isnan(place) else round(place, 4) for place in places.ravel().tolist()]


def _bridges(row: Array) -> Iterator[tuple[float, float]]:
    """Yield lines from the last active axis before a gap to the first one after it."""
    for left, right in itertools.pairwise(np.flatnonzero(~np.isnan(row)).tolist()):
        if right - left > 1:
            yield left, row[left]
            yield right, row[right]
            yield np.nan, np.nan


def _words(trial: Trial, loss: float, axes: list[Axis], losses: LossAxis) -> list[str]:
    """Return the hover text at each axis, and at the gap."""
    result = f"{losses.name} {losses.values([loss])[0]:.6g}" if np.isfinite(loss) else "failed"
    head = f"trial {trial.number}<br>{result}"
    values = [f"{head}<br>{label(axis.name, 28)} = {label(text(trial.config.get(axis.name)), 28)}" for axis in axes]
    return [*values, head, ""]


def _parallel_figure(
    traces: list[Any], drawn: list[Axis], name: str, scale: list[tuple[float, str]], notes: list[str]
) -> Figure:
    """Return the lines with a labelled axis for each hyperparameter and one for the loss."""
    columns = [_few(list(zip(axis.ticks, axis.labels, strict=True)), axis.discrete) for axis in drawn] + [_few(scale)]
    mark = {"xanchor": "right", "xshift": -5, "showarrow": False, "font": {"size": 11}, "opacity": 0.85}
    values = [
        {"text": label(value, 11), "x": x, "y": y, **mark} for x, column in enumerate(columns) for y, value in column
    ]
    line = {"type": "line", "y0": 0, "y1": 1, "line": {"color": theme.GREY, "width": 1}, "layer": "below"}
    names = [label(axis.name, 18) for axis in drawn] + [f"<b>{name}</b>"]
    tilted = len(names) >= 7
    return figure(
        traces,
        height=460,
        shapes=[{**line, "x0": x, "x1": x} for x in range(len(columns))],
        annotations=values,
        notes=notes,
        margin={"l": 110 if tilted else 72},  # the first name must have room, or plotly leaves it out
        dragmode="select",
        meta={"min_width": _AXIS_WIDTH * len(names), "brush": len(names)},
        xaxis=ticks(names, range=[-0.35, len(names) - 0.85], showgrid=False, tickangle=-30 if tilted else 0),
        yaxis={"visible": False, "range": [-0.04, 1.04]},
    )


def _few(ticks: list[tuple[float, str]], all_of_them: bool = False) -> list[tuple[float, str]]:
    """Return so many of the tick labels that they are easy to read; every category has one."""
    return ticks if all_of_them else [ticks[i] for i in thinned(len(ticks), _MOST_TICKS).tolist()]
