"""The frame of all figures, panels of hyperparameters, and the axis of losses with outliers at its edge.

All tables have losses, which are minimised. The axis shows what the user knows: the score instead of its negative if it
is maximised.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Array, Axis, LossRange, drawable, loss_range
from bohb.analysis.importance import importance
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.plots.theme import HEIGHT, Figure, go, label, marks, template, text_at, ticks
from bohb.units import counted

_PAD = 0.06  # room beyond the losses, as a share of their range
_LOG_TICKS = 3  # for plotly: at least so many; with more it labels nine digits of each power of ten, which overlap
_COLUMNS = 3
_PANEL, _BELOW, _TITLE = 165, 80, 24  # pixels: height of a panel, room below it, height of a title
_PANEL_WIDTH, _CHARACTER = 165, 7.0  # pixels: of a panel on a phone, and of a character of a tick label
_READABLE, _TILTED = 6, 8  # characters: labels that must be shorter are tilted, which longer ones cannot be
_GAP = 0.07  # between two columns, as a share of the width
MOST_PARAMETERS = 12
Panel: TypeAlias = tuple[str, Axis, list[Any]]  # title, axis of the hyperparameter, and traces
_LINE, _BAR = 17, 34  # pixels: height of a note, and of the row above the notes for plotly's buttons and tool bar


class LossAxis:
    """A vertical axis for these losses.

    goals: what the study minimises or maximises. A maximised score is shown as the user knows it; then `sign` is -1.
    losses: all losses in the figure; NaN and infinities are ignored.
    title: the title of the axis, with {} for what the user calls the loss.
    shown: the losses that the axis covers. Default: all without outliers.
    outside: what the losses are called that it does not cover.
    """

    def __init__(
        self,
        goals: Goals,
        losses: Sequence[float] | Array,
        title: str = "{}",
        *,
        shown: LossRange | None = None,
        outside: tuple[str, str] = ("outlier", "outliers"),
    ) -> None:
        self.name = label(goals.label, 30)  # escaped
        self._title = title.format(self.name)
        self.sign = -1.0 if goals.objectives[0].maximised else 1.0
        self._names = outside
        found = shown or loss_range(losses) or LossRange(0.0, 1.0, positive=False, log=False)
        self._range = replace(found, positive=False, log=False) if self.sign < 0 else found
        self.n_outliers = int(self._range.outside(losses).sum())
        self.bottom, self.top = self._ends()

    def _ends(self) -> tuple[float, float]:
        """Return where outliers are drawn: a little below and above all other losses."""
        low, high = self._range.low, self._range.high
        if self._range.log:
            factor = (high / low) ** _PAD if high > low else 1.1
            return low / factor, high * factor
        pad = _PAD * ((high - low) or abs(high) or 1.0)
        bottom = max(low - pad, 0.9 * low) if self._range.positive else low - pad
        return bottom, high + pad

    @property
    def worst(self) -> float:
        """The worst end of the axis."""
        return self.sign * self.top

    def values(self, losses: Sequence[float] | Array) -> Array:
        """Return what the user knows these losses as."""
        return self.sign * drawable(losses)

    def place(self, losses: Sequence[float] | Array) -> Array:
        """Return the losses as drawn: outliers at the edge, NaN for what has no loss."""
        values = drawable(losses)
        values = np.where(np.isfinite(values), values, np.nan)
        values = np.where(values > self._range.high, self.top, values)
        return self.sign * np.where(values < self._range.low, self.bottom, values)

    def outside(self, losses: Sequence[float] | Array) -> NDArray[np.bool_]:
        """Whether each loss is an outlier."""
        return self._range.outside(losses)

    def triangles(self, x: Sequence[float] | Array, losses: Sequence[float] | Array, numbers: Sequence[int]) -> Any:
        """Return marks at the edge for outliers, with their true losses in the hover text; None without any.

        x, losses, numbers: one entry per point of the figure; `numbers` are the trials.
        """
        values, outside = np.asarray(losses, dtype=float), self.outside(losses)
        if not outside.any():
            return None
        chosen = values[outside]
        place = self.place(chosen)
        middle = self.sign * (self.bottom + self.top) / 2
        symbols = ["triangle-up" if y > middle else "triangle-down" for y in place.tolist()]
        look = {"symbol": symbols, "size": 10, "color": "#7d6bc4", "line": {"width": 1, "color": "#ffffff"}}
        rows = np.column_stack([np.asarray(numbers)[outside], self.values(chosen)])
        hover = f"{self.name} %{{customdata[1]:.6g}}<br>outside the axis"
        return marks(np.asarray(x, dtype=float)[outside], place, rows, "outlier", hover, look)

    @property
    def note(self) -> str:
        """The note about outliers; empty without any."""
        if not self.n_outliers:
            return ""
        return f"{counted(self.n_outliers, *self._names)} at the edge (hover for the {self.name})"

    def layout(self) -> dict[str, Any]:
        """Return the axis as plotly describes it."""
        shape: dict[str, Any] = {"title": {"text": self._title}, "tickformat": "~g"}
        if self._range.log:
            shape |= {"type": "log", "nticks": _LOG_TICKS}
        if self.n_outliers:
            shape["range"] = self._span(self._range.log)
        return shape

    @property
    def no_log(self) -> str:
        """Why there is no logarithmic scale; empty if there is one."""
        if self.sign < 0:
            return f"not for a maximised {self.name}"
        return "" if self._range.positive else f"needs positive values of {self.name}"

    def buttons(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return buttons for a linear and a logarithmic scale; none if a loss is not positive.

        names: the axes in the figure's layout, such as "yaxis".
        """
        if self.no_log:
            return []
        return [
            {
                "type": "buttons",
                "direction": "right",
                "active": int(self._range.log),
                "buttons": [self._button(names, log) for log in (False, True)],
                "x": 0,
                "xanchor": "left",
                "y": 1,
                "yanchor": "bottom",
                "pad": {"l": 0, "t": 0},
                "bgcolor": "#e4e7eb",  # plotly's active button is always light, so the others are too
                "bordercolor": "#a3a9b2",
                "font": {"size": 11, "color": "#1d2126"},
            }
        ]

    def _button(self, names: Sequence[str], log: bool) -> dict[str, Any]:
        kind = "log" if log else "linear"
        shown: dict[str, Any] = {"range": self._span(log)} if self.n_outliers else {"autorange": True}
        shown["nticks"] = _LOG_TICKS if log else 0
        changes = {f"{name}.{key}": value for name in names for key, value in {"type": kind, **shown}.items()}
        return {"label": kind, "method": "relayout", "args": [changes]}

    def _span(self, log: bool) -> list[float]:
        """Return the ends of the axis; plotly takes those of a logarithmic one as powers of ten."""
        low, high = min(self.bottom, self._range.low), self.top
        if log:
            low, high = math.log10(low), math.log10(high)
        pad = _PAD * (high - low)
        return sorted(self.sign * end for end in (low - pad, high + pad))


def figure(
    traces: Sequence[Any] = (),
    *,
    height: int = HEIGHT,
    notes: Sequence[str] = (),
    notes_from: int = 0,
    losses: LossAxis | None = None,
    loss_axes: Sequence[str] = ("yaxis",),
    titles: int = 6,
    **layout: Any,
) -> Figure:
    """Return a figure in our template; traces that are None are left out.

    notes: lines in small print above the plot: what was left out, or how many results it rests on.
    notes_from: 0 if the notes begin at the left edge of the plot, 1 if they end at its right edge.
    losses: the axis of the losses, if the figure has one.
    loss_axes: which axes of the layout show losses.
    titles: pixels between the plot and the notes, for titles of panels.
    """
    buttons: list[dict[str, Any]] = []
    if losses is not None:
        notes = [*notes, losses.note]
        buttons = losses.buttons(loss_axes)
        for name in loss_axes:
            layout[name] = {**losses.layout(), **layout.get(name, {})}
        if losses.no_log:
            layout["meta"] = {**layout.get("meta", {}), "no_log": losses.no_log}  # for the menu of a page
    lines = [line for line in notes if line]
    room = titles + _LINE * len(lines)
    if buttons:
        buttons[0]["pad"]["b"] = room
    side = ("left", "right")[notes_from]
    above = text_at(notes_from, 1, "<br>".join(lines), 12, xanchor=side, yshift=titles, align=side)
    return go.Figure(
        [trace for trace in traces if trace is not None],
        {
            "template": template(),
            "height": height,
            **layout,
            "margin": {"t": max(40, room + (_BAR if buttons or lines else 0)), **layout.get("margin", {})},
            "annotations": [*layout.get("annotations", ()), *([above] if lines else [])],
            "updatemenus": buttons,
        },
    )


def empty(message: str) -> Figure:
    """Return a figure without data that shows why there is none."""
    hidden = {"visible": False, "range": [0, 1]}
    lines = "<br>".join(textwrap.wrap(message, 44))  # so that it fits on a phone
    words = text_at(0.5, 0.5, lines, 15, xanchor="center", yanchor="middle")
    return figure(height=220, xaxis=hidden, yaxis=hidden, annotations=[words])


def no_losses(history: History) -> Figure:
    """Return an empty figure for a study without a loss."""
    failed = "No trial has a result yet: all that finished have failed"
    return empty(failed if history.outcomes else "No finished trial yet")


def panels(
    drawn: list[Panel], yaxis: dict[str, Any] | None = None, losses: LossAxis | None = None, notes: Sequence[str] = ()
) -> Figure:
    """Return a figure of small panels, at most three in a row.

    yaxis: the vertical axis of each panel, if it does not show losses.
    losses: the axis of losses that all panels share.
    notes: lines above the panels.
    """
    columns = min(_COLUMNS, len(drawn))
    rows = math.ceil(len(drawn) / columns)
    height = (_PANEL + _BELOW) * rows - _BELOW
    traces: list[Any] = []
    layout: dict[str, Any] = {"annotations": []}
    named: set[str] = set()
    for index, (title, axis, mine) in enumerate(drawn):
        row, column = divmod(index, columns)
        name = "" if index == 0 else str(index + 1)
        across = across_panel(column, columns)
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
        traces += in_panel(mine, name, named)
    names = [key for key in layout if key.startswith("yaxis")]
    found = figure(traces, notes=notes, losses=losses, loss_axes=names, titles=_TITLE, bargap=0.2, **layout)
    found.layout.height = height + found.layout.margin.t + 90
    return found


def in_panel(traces: list[Any], suffix: str, named: set[str]) -> list[Any]:
    """Put traces into a panel and return them; the legend has every name once.

    suffix: of the panel's axes.
    named: the names that the legend has already.
    """
    for trace in traces:
        trace.xaxis, trace.yaxis, trace.legendgroup = f"x{suffix}", f"y{suffix}", trace.name
        trace.showlegend = trace.name is not None and trace.name not in named
        named.add(trace.name)
    return traces


def across_panel(column: int, columns: int) -> list[float]:
    """Return where a panel begins and ends, as shares of the width."""
    return [column / columns + (_GAP if column else 0), (column + 1) / columns]


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
        names = [label(value, _TILTED if tilted else max(room, _READABLE)) for value in axis.labels]
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


def jitter(numbers: NDArray[np.int64], axis: Axis, factor: float = 0.6180339887) -> Array:
    """Return small shifts that separate the trials of one category, the same every time; 0 on a numeric axis."""
    if not axis.discrete:
        return np.zeros(len(numbers))
    return ((numbers * factor) % 1 - 0.5) * 0.5 / axis.cells
