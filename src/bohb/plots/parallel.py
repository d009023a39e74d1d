"""Configurations as lines through parallel axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from bohb.analysis.axes import (
    Array,
    Axis,
    Configurations,
    configurations,
    loss_range,
    round_values,
    telling_budget,
    text,
)
from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.plots.axis import LossAxis, figure, most_important, no_losses
from bohb.plots.theme import BLUE, GREY, MOST_LINES, ORANGE, PINK, Figure, go, label, left_out, thinned, ticks
from bohb.units import counted

# Name, range of ranks as shares, colour, width and opacity; drawn in this order.
_GROUPS = (
    ("failed", 1.0, 2.0, ORANGE, 0.8, 0.7),
    ("the rest", 0.5, 1.0, GREY, 0.8, 0.5),
    ("next 40 %", 0.1, 0.5, PINK, 1.0, 0.6),
    ("best 10 %", 0.0, 0.1, BLUE, 2.0, 0.95),
)
_MOST_TICKS = 5  # per axis
_AXIS_WIDTH = 92  # pixels; with less the tick labels of neighbouring axes touch


def draw_parallel(history: History, dark: bool = False, budget: float | None = None) -> Figure:
    """Draw every configuration of one budget as a line through its values.

    budget: default: the largest one with enough losses.
    """
    budget = telling_budget(history) if budget is None else budget
    if budget is None:
        return no_losses(history, dark)
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
    return _parallel_figure(traces, shown, axis.name, scale, notes, dark)


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
    head = f"trial {trial.number}<br>" + (
        f"{losses.name} {losses.values([loss])[0]:.6g}" if np.isfinite(loss) else "failed"
    )
    values = [f"{head}<br>{label(axis.name, 28)} = {label(text(trial.config.get(axis.name)), 28)}" for axis in axes]
    return [*values, head, ""]


def _parallel_figure(
    traces: list[Any], drawn: list[Axis], name: str, scale: list[tuple[float, str]], notes: list[str], dark: bool
) -> Figure:
    """Return the lines with a labelled axis for each hyperparameter and one for the loss."""
    columns = [_few(list(zip(axis.ticks, axis.labels, strict=True)), axis.discrete) for axis in drawn] + [_few(scale)]
    mark = {"xanchor": "right", "xshift": -5, "showarrow": False, "font": {"size": 11}, "opacity": 0.85}
    values = [
        {"text": label(value, 11), "x": x, "y": y, **mark} for x, column in enumerate(columns) for y, value in column
    ]
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": {"color": GREY, "width": 1}, "layer": "below"}
        for x in range(len(columns))
    ]
    names = [label(axis.name, 18) for axis in drawn] + [f"<b>{name}</b>"]
    tilted = len(names) >= 7
    return figure(
        traces,
        dark=dark,
        height=460,
        shapes=lines,
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
