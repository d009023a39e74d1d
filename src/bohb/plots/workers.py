"""The timeline of the workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.analysis.timeline import Span, timeline
from bohb.core.history import History
from bohb.core.trial import Status
from bohb.plots.drawing import Figure, go
from bohb.plots.theme import RUNNING, STATUSES, duration_unit, empty, figure, label, left_out, ticks
from bohb.units import duration

_MOST_BARS = 2000
_MOST_WORKERS = 64


@dataclass(slots=True)
class Bar:
    """One bar: a trial, or several in close succession."""

    start: float
    end: float
    row: int
    spans: list[Span]


def draw_timeline(history: History, dark: bool = False) -> Figure:
    """Draw a bar per trial, one row per worker."""
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
    traces = [_bars(status, mine, size) for status, mine in bars.items()]
    notes = left_out(len(shown), len(workers), "workers")
    if any(len(bar.spans) > 1 for mine in bars.values() for bar in mine):
        notes.append("bars in close succession are merged")
    return figure(
        traces,
        dark=dark,
        height=max(240, min(1400, 150 + 26 * len(shown))),
        barmode="overlay",
        bargap=0.25,
        xaxis={"title": {"text": f"run time ({unit})"}, "rangemode": "tozero"},
        yaxis=ticks([label(worker, 24) for worker in shown], range=[len(shown) - 0.5, -0.5], showgrid=False),
        notes=notes,
    )


def _merged(spans: list[Span], rows: dict[str, int], end: float) -> dict[Status | None, list[Bar]]:
    """Return bars by status; if there are too many, those of one worker and status in close succession are merged."""
    close = -1.0
    while True:
        bars: dict[Status | None, list[Bar]] = {}
        last: dict[tuple[int, Status | None], Bar] = {}
        for span in spans:
            row, until = rows[span.worker], end if span.end is None else span.end
            before = last.get((row, span.status))
            if before is not None and span.start - before.end <= close:
                before.end = max(before.end, until)
                before.spans.append(span)
                continue
            bar = last[row, span.status] = Bar(span.start, until, row, [span])
            bars.setdefault(span.status, []).append(bar)
        if sum(map(len, bars.values())) <= _MOST_BARS:
            order = [*(status for status in Status if status in bars), *([None] if None in bars else [])]
            return {status: bars[status] for status in order}
        close = max(2 * close, end / _MOST_BARS)


def _bars(status: Status | None, bars: list[Bar], size: float) -> Any:
    return go.Bar(
        base=np.array([bar.start for bar in bars]) / size,
        x=np.array([bar.end - bar.start for bar in bars]) / size,
        y=np.array([bar.row for bar in bars], dtype=np.int16),
        text=[_words(bar.spans) for bar in bars],
        textposition="none",
        orientation="h",
        name="running" if status is None else status.value,
        showlegend=True,
        marker={"color": RUNNING if status is None else STATUSES[status], "line": {"width": 0}},
        hovertemplate="%{text}<extra></extra>",
    )


def _words(spans: list[Span]) -> str:
    first, last = spans[0], spans[-1]
    if len(spans) > 1:
        return f"{len(spans)} trials, {first.number} to {last.number}"
    took = "running" if first.end is None else duration(first.end - first.start)
    status = "" if first.status is None else f"<br>{first.status.value}"
    return f"trial {first.number}<br>budget {first.budget:g}<br>{took}{status}"


def _natural(worker: str) -> tuple[str, int, str]:
    """Sort key that puts worker 10 after worker 9."""
    head = worker.rstrip("0123456789")
    return head, int(worker[len(head) :] or 0), worker
