"""Figures of small panels, one per hyperparameter."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Axis
from bohb.analysis.importance import importance
from bohb.core.history import History
from bohb.plots.axis import LossAxis, figure
from bohb.plots.theme import Figure, label, text_at, ticks

COLUMNS = 3
_PANEL, _BELOW, _TITLE = 165, 80, 24  # pixels: height of a panel, room below it, height of a title
_PANEL_WIDTH, _CHARACTER = 165, 7.0  # pixels: of a panel on a phone, and of a character of a tick label
_READABLE = 6  # characters; labels that must be shorter are tilted instead
_GAP = 0.07  # between two columns, as a share of the width
MOST_PARAMETERS = 12
Panel: TypeAlias = tuple[str, Axis, list[Any]]  # title, axis of the hyperparameter, and traces
Floats = NDArray[np.float64]


def panels(
    drawn: list[Panel],
    dark: bool,
    yaxis: dict[str, Any] | None = None,
    losses: LossAxis | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return a figure of small panels, at most three in a row.

    yaxis: the vertical axis of each panel, if it does not show losses.
    losses: the axis of losses that all panels share.
    notes: lines above the panels.
    """
    columns = min(COLUMNS, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    height = (_PANEL + _BELOW) * rows - _BELOW
    traces: list[Any] = []
    layout: dict[str, Any] = {"annotations": []}
    for index, (title, axis, mine) in enumerate(drawn):
        row, column = divmod(index, columns)
        name = "" if index == 0 else str(index + 1)
        across = [column / columns + (_GAP if column else 0), (column + 1) / columns]
        top = 1 - row * (_PANEL + _BELOW) / height
        up = [max(0.0, top - _PANEL / height), top]
        layout[f"xaxis{name}"] = {**panel_axis(axis), "domain": across, "anchor": f"y{name}"}
        layout[f"yaxis{name}"] = {
            **(yaxis or {}),
            "domain": up,
            "anchor": f"x{name}",
            **({"title": None} if column else {}),
            **({"matches": "y"} if losses is not None and index else {}),
        }
        layout["annotations"].append(text_at(sum(across) / 2, up[1], title, 13, xanchor="center", yshift=2))
        for trace in mine:
            trace.xaxis, trace.yaxis = f"x{name}", f"y{name}"
            traces.append(trace)
    names = [key for key in layout if key.startswith("yaxis")]
    found = figure(traces, dark=dark, notes=notes, losses=losses, loss_axes=names, titles=_TITLE, bargap=0.2, **layout)
    found.layout.height = height + found.layout.margin.t + 90
    return found


def panel_axis(axis: Axis, titled: bool = False) -> dict[str, Any]:
    """Return the axis of one hyperparameter, from 0 to 1, with its values as tick labels.

    titled: whether it has a title; then it belongs to a whole figure instead of a panel.
    """
    if titled:
        title = {"text": label(axis.name) + (" (log scale)" if axis.log else "")}
        return ticks([label(value, 14) for value in axis.labels], axis.ticks, range=[-0.03, 1.03], title=title)
    if axis.discrete:
        room = int(_PANEL_WIDTH / _CHARACTER / axis.cells)
        tilted = room < min(_READABLE, max(map(len, axis.labels)))
        names = [label(value, 10 if tilted else max(room, _READABLE)) for value in axis.labels]
        return ticks(names, axis.ticks, range=[-0.03, 1.03], tickangle=-35 if tilted else 0)
    chosen = _apart(axis)
    names = [label(axis.labels[i]) for i in chosen]
    return ticks(names, [axis.ticks[i] for i in chosen], range=[-0.03, 1.03], tickangle=0)


def _apart(axis: Axis) -> list[int]:
    """Return every tick, or every second or third …, so that the labels of a narrow panel do not touch."""
    widths = [(len(text) + 1.5) * _CHARACTER / _PANEL_WIDTH for text in axis.labels]
    for step in range(1, len(widths)):
        chosen = list(range(0, len(widths), step))
        pairs = itertools.pairwise(chosen)
        if all(axis.ticks[b] - axis.ticks[a] >= (widths[a] + widths[b]) / 2 for a, b in pairs):
            return chosen
    return [0]


def most_important(history: History, names: list[str]) -> list[str]:
    """Return as many names as a figure has room for, the most important ones if these are known."""
    if len(names) <= MOST_PARAMETERS:
        return names
    table = importance(history, shuffles=0)
    return (names if table is None else [row.name for row in table.rows])[:MOST_PARAMETERS]


def jitter(numbers: NDArray[np.int64], axis: Axis, factor: float = 0.6180339887) -> Floats:
    """Return small shifts that separate the trials of one category, the same every time; 0 on a numeric axis."""
    if not axis.discrete:
        return np.zeros(len(numbers))
    return ((numbers * factor) % 1 - 0.5) * 0.5 / axis.cells
