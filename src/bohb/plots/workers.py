"""The timeline of the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bohb.analysis.trajectory import Span, timeline
from bohb.core.history import History
from bohb.plots.axis import empty, figure
from bohb.plots.theme import GREY, Figure, budget_colours, duration_unit, go, label, left_out, ticks
from bohb.units import duration

Kind: TypeAlias = tuple[float, str]  # budget, and a key of _LOOKS
_MOST_BARS = 2000
_MOST_WORKERS = 64
# Patterns and opacity tell how a trial ended, colours its budget, so that neither depends on the other.
_LOOKS: dict[str, dict[str, Any]] = {
    "ok": {"opacity": 0.95},
    "failed": {"pattern": {"shape": "x", "size": 6, "solidity": 0.4, "fillmode": "overlay", "fgcolor": "#ffffff"}},
    "running": {"opacity": 0.45},
}


@dataclass(slots=True)
class Bar:
    """One bar: a trial, or several in close succession."""

    start: float
    end: float
    row: int
    spans: list[Span]


def draw_timeline(history: History, dark: bool = False) -> Figure:
    """Draw a bar per trial, one row per worker, coloured by budget."""
    spans = timeline(history)
    if not spans:
        message = "No trial has started yet" if not history.trials else "No times were recorded for these trials"
        return empty(message, dark)
    end = max(span.start if span.end is None else span.end for span in spans)
    workers = list(dict.fromkeys(sorted((span.worker for span in spans), key=_natural)))
    shown = workers[:_MOST_WORKERS]
    spans = [span for span in spans if span.worker in set(shown)]
    bars = _merged(spans, {worker: row for row, worker in enumerate(shown)}, end)
    size, unit = duration_unit(end)
    colours = budget_colours([span.budget for span in spans])
    traces: list[Any] = [_bars(kind, bars[kind], size, colours[kind[0]]) for kind in sorted(bars)]
    traces += _legend(bars, colours)
    notes = left_out(len(shown), len(workers), "workers")
    if any(len(bar.spans) > 1 for mine in bars.values() for bar in mine):
        notes.append("bars in close succession are merged")
    return figure(
        traces,
        dark=dark,
        height=max(240, min(1400, 150 + 26 * len(shown))),
        barmode="overlay",
        xaxis={"title": {"text": f"run time ({unit})"}, "range": [0, 1.01 * end / size]},
        yaxis=ticks([label(worker, 24) for worker in shown], range=[len(shown) - 0.5, -0.5], showgrid=False),
        notes=notes,
    )


def _kind(span: Span) -> Kind:
    ended = "running" if span.status is None else "ok" if span.status == "ok" else "failed"
    return span.budget, ended


def _merged(spans: list[Span], rows: dict[str, int], end: float) -> dict[Kind, list[Bar]]:
    """Return bars by kind; if there are too many, those of one worker and kind in close succession are merged."""
    close = -1.0
    while True:
        bars: dict[Kind, list[Bar]] = {}
        last: dict[tuple[int, Kind], Bar] = {}
        for span in spans:
            kind, row, until = _kind(span), rows[span.worker], end if span.end is None else span.end
            before = last.get((row, kind))
            if before is not None and span.start - before.end <= close:
                before.end = max(before.end, until)
                before.spans.append(span)
                continue
            bar = last[row, kind] = Bar(span.start, until, row, [span])
            bars.setdefault(kind, []).append(bar)
        if sum(map(len, bars.values())) <= _MOST_BARS:
            return bars
        close = max(2 * close, end / _MOST_BARS)


def _bars(kind: Kind, bars: list[Bar], size: float, colour: str) -> Any:
    budget, ended = kind
    return go.Bar(
        base=np.array([bar.start for bar in bars]) / size,
        x=np.array([bar.end - bar.start for bar in bars]) / size,
        y=np.array([bar.row for bar in bars], dtype=np.int16),
        text=[_words(bar.spans) for bar in bars],
        textposition="none",
        orientation="h",
        width=0.75,
        name=f"budget {budget:g}" + ("" if ended == "ok" else f", {ended}"),
        legendgroup=f"{budget:g}",
        showlegend=False,
        marker={"color": colour, "line": {"width": 0}, **_LOOKS[ended]},
        hovertemplate="%{text}<extra></extra>",
    )


def _legend(bars: dict[Kind, list[Bar]], colours: dict[float, str]) -> list[Any]:
    """Return empty traces that explain the colours, and the looks of failed and running trials."""
    entries = [(f"budget {budget:g}", colour, "ok", f"{budget:g}") for budget, colour in colours.items()]
    seen = {ended for _, ended in bars}
    entries += [(ended, GREY, ended, ended) for ended in ("failed", "running") if ended in seen]
    return [
        go.Bar(x=[None], y=[None], name=name, legendgroup=group, marker={"color": colour, **_LOOKS[look]})
        for name, colour, look, group in entries
    ]


def _words(spans: list[Span]) -> str:
    first, last = spans[0], spans[-1]
    if len(spans) > 1:
        return f"{len(spans)} trials, {first.number} to {last.number}<br>budget {first.budget:g}"
    took = "running" if first.end is None else duration(first.end - first.start)
    status = "" if first.status is None else f"<br>{first.status.value}"
    return f"trial {first.number}<br>budget {first.budget:g}<br>{took}{status}"


def _natural(worker: str) -> tuple[str, int, str]:
    """Sort key that puts worker 10 after worker 9."""
    head = worker.rstrip("0123456789")
    return head, int(worker[len(head) :] or 0), worker
