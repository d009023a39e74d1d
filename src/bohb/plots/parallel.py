"""Configurations as lines through parallel axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from bohb.analysis.axes import Axis, text
from bohb.analysis.configurations import Configurations, configurations, telling_budget
from bohb.analysis.ranges import loss_range
from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.plots.drawing import Figure, go
from bohb.plots.panels import Floats, most_important
from bohb.plots.theme import BLUE, GREY, MOST_LINES, ORANGE, PINK, figure, label, left_out, no_losses, thinned, ticks
from bohb.units import counted

# Name, range of ranks as shares, colour, width and opacity; drawn in this order.
_GROUPS = (
    ("failed", 1.0, 2.0, ORANGE, 0.8, 0.7),
    ("the rest", 0.5, 1.0, GREY, 0.8, 0.5),
    ("next 40 %", 0.1, 0.5, PINK, 1.0, 0.6),
    ("best 10 %", 0.0, 0.1, BLUE, 2.0, 0.95),
)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


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
    losses, scale = _loss_places(table.losses)
    places = np.column_stack([table.places[:, columns], losses])  # (n, d + 1)
    best = np.argsort(table.losses, kind="stable")
    rank = np.empty(len(best))
    rank[best] = np.arange(len(best)) / max(1, int(np.isfinite(table.losses).sum()))
    rank[~np.isfinite(table.losses)] = 1.0
    kept = thinned(len(best), MOST_LINES, best[: MOST_LINES // 3].astype(np.intp))
    traces = []
    for name, better, worse, colour, width, opacity in _GROUPS:
        rows = kept[(rank[kept] >= better) & (rank[kept] < worse)]
        words = [_words(history.trials[int(table.numbers[row])], table.losses[row], shown) for row in rows]
        traces += _lines(places[rows], words, name, {"color": colour, "width": width}, opacity)
    notes = [
        f"{counted(len(best), 'configuration')} on budget {budget:g}",
        *left_out(len(kept), len(best), "configurations"),
        *left_out(len(columns), len(table.axes), "hyperparameters"),
    ]
    return _parallel_figure(traces, shown, scale, notes, dark)


def _columns(history: History, table: Configurations) -> list[int]:
    """Return the hyperparameters to show, those that are most often active first, so that gaps are side by side."""
    chosen = most_important(history, [axis.name for axis in table.axes])
    active = (~np.isnan(table.places)).sum(axis=0)
    columns = [j for j, axis in enumerate(table.axes) if axis.name in chosen and active[j]]
    return sorted(columns, key=lambda j: -int(active[j]))


def _loss_places(losses: Floats) -> tuple[Floats, list[tuple[float, str]]]:
    """Return where losses lie between 0 and 1, outliers at the end and failed trials on top, and the axis's ticks."""
    usual = loss_range(losses)
    if usual is None:
        return np.ones(len(losses)), [(1.0, "failed")]
    measure = np.log10 if usual.log else np.asarray
    first, last = float(measure(usual.low)), float(measure(usual.high))
    width = (last - first) or 1.0
    finite = np.isfinite(losses)
    places = np.ones(len(losses))
    places[finite] = (measure(usual.clip(losses[finite])) - first) / width
    values = [first + place * width for place in _TICKS]
    labels = [f"{10**value if usual.log else value:.3g}" for value in values]
    if usual.outside(losses).any():
        labels[-1] = f"≥ {labels[-1]}"
    return places, list(zip(_TICKS, labels, strict=True))


def _lines(places: Floats, words: list[list[str]], name: str, line: dict[str, Any], opacity: float) -> list[Any]:
    """Return one group of lines, each followed by a gap, and dotted lines across inactive axes.

    places: (n, d + 1) where each line crosses each axis.
    words: the hover text of each line at each axis, and at the gap.
    """
    n, axes = places.shape
    if not n:
        return []
    shared = {"legendgroup": name, "opacity": opacity}
    solid = go.Scatter(
        x=np.tile(np.append(np.arange(axes), np.nan), n).astype(np.float32),
        y=np.hstack([places, np.full((n, 1), np.nan)]).ravel().astype(np.float32),
        text=list(itertools.chain.from_iterable(words)),
        mode="lines+markers",
        name=name,
        line=line,
        marker={"color": line["color"], "size": 4},
        hovertemplate="%{text}<extra></extra>",
        **shared,
    )
    bridges = np.array([piece for row in places for piece in _bridges(row)], dtype=np.float32).reshape(-1, 2)
    dotted = go.Scatter(
        x=bridges[:, 0],
        y=bridges[:, 1],
        mode="lines",
        showlegend=False,
        line={**line, "dash": "dot"},
        hoverinfo="skip",
        **shared,
    )
    return [dotted, solid] if len(bridges) else [solid]


def _bridges(row: Floats) -> Iterator[tuple[float, float]]:
    """Yield lines from the last active axis before a gap to the first one after it."""
    for left, right in itertools.pairwise(np.flatnonzero(~np.isnan(row)).tolist()):
        if right - left > 1:
            yield left, row[left]
            yield right, row[right]
            yield np.nan, np.nan


def _words(trial: Trial, loss: float, axes: list[Axis]) -> list[str]:
    """Return the hover text at each axis, and at the gap."""
    head = f"trial {trial.number}<br>" + (f"loss {loss:.6g}" if np.isfinite(loss) else "failed")
    values = [f"{head}<br>{label(axis.name, 28)} = {label(text(trial.config.get(axis.name)), 28)}" for axis in axes]
    return [*values, head, ""]


def _parallel_figure(
    traces: list[Any], drawn: list[Axis], scale: list[tuple[float, str]], notes: list[str], dark: bool
) -> Figure:
    """Return the lines with a labelled axis for each hyperparameter and one for the loss."""
    columns = [list(zip(axis.ticks, axis.labels, strict=True)) for axis in drawn] + [scale]
    mark = {"xanchor": "right", "xshift": -5, "showarrow": False, "font": {"size": 11}}
    values = [
        {"text": label(value, 12), "x": x, "y": y, **mark} for x, column in enumerate(columns) for y, value in column
    ]
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": {"color": GREY, "width": 1}, "layer": "below"}
        for x in range(len(columns))
    ]
    names = [label(axis.name, 18) for axis in drawn] + ["<b>loss</b>"]
    angle = 0 if len(names) < 7 else -30
    return figure(
        traces,
        dark=dark,
        height=460,
        shapes=lines,
        annotations=values,
        notes=notes,
        margin={"l": 64},
        xaxis=ticks(names, range=[-0.35, len(names) - 0.85], showgrid=False, tickangle=angle),
        yaxis={"visible": False, "range": [-0.04, 1.04]},
    )
