"""Configurations as lines through parallel axes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.analysis.axes import Axis, text
from bohb.analysis.configurations import Parallel, parallel
from bohb.analysis.ranges import loss_range
from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.plots.drawing import Figure, go
from bohb.plots.panels import Floats, most_important
from bohb.plots.theme import BLUE, GREY, MOST_LINES, ORANGE, PINK, figure, label, no_losses, thinned
from bohb.units import counted

# Name, range of ranks as shares, colour, width and opacity; drawn in this order.
_GROUPS = (
    ("the rest", 0.5, 1.0, GREY, 0.8, 0.5),
    ("next 40 %", 0.1, 0.5, PINK, 1.0, 0.6),
    ("best 10 %", 0.0, 0.1, BLUE, 2.0, 0.95),
)
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def draw_parallel(history: History, dark: bool = False, budget: float | None = None) -> Figure:
    """Draw every configuration of one budget as a line through its values."""
    table = parallel(history, budget)
    if table is None:
        return no_losses(history, dark)
    columns = _columns(history, table)
    best = np.argsort(table.losses, kind="stable")
    kept = thinned(len(best), MOST_LINES, best[: MOST_LINES // 3].astype(np.intp))
    places, scale = _loss_places(table.losses)
    standing = np.empty(len(best))
    standing[best] = np.arange(len(best)) / max(1, int(np.isfinite(table.losses).sum()))
    standing = np.where(np.isfinite(table.losses), standing, np.nan)[kept]
    lines = _Lines(
        [history.trials[number] for number in table.numbers[kept].tolist()],
        [table.axes[j].name for j in columns],
        np.column_stack([table.places[:, columns], places])[kept],
        table.losses[kept],
    )
    traces = lines.traces(np.isnan(standing), "failed", ORANGE, 0.8, 0.7)
    for name, better, worse, colour, width, opacity in _GROUPS:
        traces += lines.traces((standing >= better) & (standing < worse), name, colour, width, opacity)
    notes = [f"{counted(len(best), 'configuration')} on budget {table.budget:g}"]
    if len(kept) < len(best):
        notes.append(f"{len(kept)} of them shown")
    if len(columns) < len(table.axes):
        notes.append(f"{len(columns)} of {len(table.axes)} hyperparameters")
    return _parallel_figure(traces, [table.axes[j] for j in columns], scale, notes, dark)


def _columns(history: History, table: Parallel) -> list[int]:
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


class _Lines:
    """Configurations as lines, in groups of one colour."""

    def __init__(self, trials: list[Trial], names: list[str], places: Floats, losses: Floats) -> None:
        self._trials = trials
        self._names = names
        self._places = places  # (n, d + 1)
        self._losses = losses

    def traces(self, mine: NDArray[np.bool_], name: str, colour: str, width: float, opacity: float) -> list[Any]:
        """Return the lines of one group, each followed by a gap, and dotted lines across inactive axes."""
        rows = np.flatnonzero(mine)
        if not len(rows):
            return []
        gap = np.full((len(rows), 1), np.nan)
        across = np.append(np.arange(self._places.shape[1]), np.nan)
        solid = go.Scatter(
            x=np.tile(across, len(rows)).astype(np.float32),
            y=np.hstack([self._places[rows], gap]).ravel().astype(np.float32),
            text=[words for row in rows.tolist() for words in self._words(row)],
            mode="lines+markers",
            name=name,
            legendgroup=name,
            opacity=opacity,
            line={"color": colour, "width": width},
            marker={"color": colour, "size": 4},
            hovertemplate="%{text}<extra></extra>",
        )
        bridges = np.array([piece for row in rows.tolist() for piece in self._bridges(row)], dtype=np.float32)
        if not len(bridges):
            return [solid]
        dotted = go.Scatter(
            x=bridges[:, 0],
            y=bridges[:, 1],
            mode="lines",
            legendgroup=name,
            showlegend=False,
            opacity=opacity,
            line={"color": colour, "width": width, "dash": "dot"},
            hoverinfo="skip",
        )
        return [dotted, solid]

    def _bridges(self, row: int) -> Iterator[tuple[float, float]]:
        """Lines from the last active axis before a gap to the first one after it."""
        active = np.flatnonzero(~np.isnan(self._places[row])).tolist()
        for left, right in itertools.pairwise(active):
            if right - left > 1:
                yield left, self._places[row, left]
                yield right, self._places[row, right]
                yield np.nan, np.nan

    def _words(self, row: int) -> list[str]:
        """The hover text at each axis, and at the gap."""
        trial, loss = self._trials[row], float(self._losses[row])
        head = f"trial {trial.number}<br>" + (f"loss {loss:.6g}" if np.isfinite(loss) else "failed")
        values = [f"{head}<br>{label(name, 28)} = {label(text(trial.config.get(name)), 28)}" for name in self._names]
        return [*values, head, ""]


def _parallel_figure(
    traces: list[Any], drawn: list[Axis], scale: list[tuple[float, str]], notes: list[str], dark: bool
) -> Figure:
    """Return the lines with a labelled axis for each hyperparameter and one for the loss."""
    ticks = [list(zip(axis.ticks, axis.labels, strict=True)) for axis in drawn] + [scale]
    marks = []
    for x, column in enumerate(ticks):
        for y, value in column:
            marks.append(
                {
                    "text": label(value, 12),
                    "x": x,
                    "y": y,
                    "xanchor": "right",
                    "xshift": -5,
                    "showarrow": False,
                    "font": {"size": 11},
                }
            )
    lines = [
        {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": {"color": GREY, "width": 1}, "layer": "below"}
        for x in range(len(ticks))
    ]
    names = [label(axis.name, 18) for axis in drawn] + ["<b>loss</b>"]
    return figure(
        traces,
        dark=dark,
        height=460,
        shapes=lines,
        annotations=marks,
        notes=notes,
        margin={"l": 64},
        xaxis={
            "tickvals": list(range(len(names))),
            "ticktext": names,
            "range": [-0.35, len(names) - 0.85],
            "showgrid": False,
            "tickangle": 0 if len(names) < 7 else -30,
        },
        yaxis={"visible": False, "range": [-0.04, 1.04]},
    )
