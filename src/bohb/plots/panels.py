"""Small panels, one per hyperparameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Axis
from bohb.analysis.importance import importance
from bohb.core.history import History
from bohb.plots.drawing import Figure
from bohb.plots.theme import figure, label, note

COLUMNS = 3
_PANEL, _BELOW, _GAP = 230, 84, 0.07  # a panel's height and the room below it in pixels; between two as a share
MOST_PARAMETERS = 12
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Panel:
    """One hyperparameter: what is drawn over its axis."""

    title: str
    axis: Axis
    traces: list[Any]


def panels(drawn: list[Panel], dark: bool, yaxis: dict[str, Any], matched: bool = False, words: str = "") -> Figure:
    """A figure of small panels, at most three in a row.

    yaxis: the vertical axis of them all; its title stands at the left only.
    matched: whether they share its range.
    words: a note above them.
    """
    columns = min(COLUMNS, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    top, height = 40 + 17 * len(words.split("<br>")) if words else 40, _PANEL * rows
    traces: list[Any] = []
    layout: dict[str, Any] = {"annotations": []}
    for index, panel in enumerate(drawn):
        row, column = divmod(index, columns)
        name = "" if index == 0 else str(index + 1)
        across = [column / columns + (_GAP if column else 0), (column + 1) / columns]
        up = [1 - (row + 1) / rows + (_BELOW / height if row < rows - 1 else 0), 1 - row / rows]
        layout[f"xaxis{name}"] = {**panel_axis(panel.axis), "domain": across, "anchor": f"y{name}"}
        layout[f"yaxis{name}"] = {
            **yaxis,
            "domain": up,
            "anchor": f"x{name}",
            **({"title": None} if column else {}),
            **({"matches": "y"} if matched and index else {}),
        }
        layout["annotations"].append(_title(panel.title, sum(across) / 2, up[1]))
        for trace in panel.traces:
            trace.xaxis, trace.yaxis = f"x{name}", f"y{name}"
            traces.append(trace)
    if words:
        layout["annotations"].append({**note(words), "yshift": 24})
    return figure(traces, dark=dark, height=height + top + 60, margin={"t": top}, bargap=0.2, **layout)


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "yshift": 2,
        "showarrow": False,
        "font": {"size": 13},
    }


def panel_axis(axis: Axis, titled: bool = False) -> dict[str, Any]:
    """The axis of one hyperparameter, from 0 to 1, with its values as tick labels."""
    return {
        **({"title": {"text": label(axis.name) + (" (log scale)" if axis.log else "")}} if titled else {}),
        "tickvals": list(axis.ticks),
        "ticktext": [label(value, 14) for value in axis.labels],
        "range": [-0.03, 1.03],
    }


def most_important(history: History, names: list[str]) -> list[str]:
    """As many names as a figure can hold, the most important ones if they are known."""
    if len(names) <= MOST_PARAMETERS:
        return names
    table = importance(history, shuffles=0)
    return (names if table is None else [row.name for row in table.rows])[:MOST_PARAMETERS]


def jitter(numbers: NDArray[np.int64], axis: Axis, factor: float = 0.6180339887) -> Floats:
    """Spread trials of one category a little, always in the same way; nothing on a numeric axis."""
    if not axis.discrete:
        return np.zeros(len(numbers))
    return ((numbers * factor) % 1 - 0.5) * 0.5 / axis.cells
