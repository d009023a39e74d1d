"""What happened over time or spent budget: the best loss, all losses, the workers, and a comparison of studies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from bohb.analysis.axes import Array, settled_range
from bohb.analysis.trajectory import Evaluation, Moment, Span, Step, Trajectory, evaluations, timeline, trajectory
from bohb.core.goals import Goals, Objective
from bohb.core.history import History
from bohb.core.trial import Origin
from bohb.errors import InvalidArgument
from bohb.plots import theme
from bohb.plots.axis import LossAxis, empty, figure, no_losses
from bohb.plots.theme import Figure, budget_colours, duration_unit, go, label, left_out, marks, thinned, ticks
from bohb.units import duration

_SYMBOLS = {Origin.RANDOM: "circle-open", Origin.MODEL: "circle", Origin.GIVEN: "diamond", Origin.PROMOTED: "circle"}
_DASHES = ("solid", "dash", "dot", "dashdot")  # when the colours are used up
_BEGINNING = 0.1  # share of a study whose losses may be outside the axis of a comparison
Kind: TypeAlias = tuple[float, str]  # budget, and a key of _LOOKS
_MOST_BARS = 2000
_MOST_WORKERS = 64
# Patterns and opacity tell how a trial ended, colours its budget, so that neither depends on the other.
_LOOKS: dict[str, dict[str, Any]] = {
    "ok": {"opacity": 0.95},
    "failed": {"pattern": {"shape": "x", "size": 6, "solidity": 0.4, "fillmode": "overlay", "fgcolor": "#ffffff"}},
    "running": {"opacity": 0.45},
}
Place = Callable[[Moment], float]


def draw_trajectory(history: History, over: str = "time") -> Figure:
    """Draw the incumbent and the best loss per budget.

    over: "time" for the run time, or for trials if no time was recorded; "cost" for the spent budget, with a second
        line of the incumbent for trials that all start from scratch.
    """
    table = trajectory(history)
    if not table.incumbents:
        return no_losses(history)
    place, title = _across(table.end, over, f" of {history.budgets[-1]:g}")
    colours = budget_colours(list(table.per_budget))
    steps = [step for steps in table.per_budget.values() for step in steps]
    axis = LossAxis(history.goals, [step.loss for step in steps])
    traces = [
        step_line(steps, table.end, place, axis, f"best on budget {budget:g}", colours[budget], 1.5)
        for budget, steps in table.per_budget.items()
    ]
    x, y = [place(step.at) for step in steps], [step.loss for step in steps]
    traces.append(axis.triangles(x, y, [step.number for step in steps]))
    if over == "cost":
        scratch = attrgetter("fresh")
        traces.append(step_line(table.incumbents, table.end, scratch, axis, "incumbent, from scratch", theme.GREY, 1.5))
        traces[-1].line.dash = "dot"
    traces.append(step_line(table.incumbents, table.end, place, axis, "incumbent", theme.GREY, 3))
    traces[-1].mode = "lines+markers"
    dots = [colours[step.budget] for step in table.incumbents]
    traces[-1].marker = {"color": [*dots, dots[-1]], "size": [9] * len(dots) + [0]}
    return figure(traces, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"})


def draw_losses(history: History) -> Figure:
    """Draw every finished trial over run time, or over trials if no time was recorded."""
    rows = evaluations(history)
    if not rows:
        return no_losses(history)
    y = np.array([row.outcome.loss for row in rows], dtype=float)  # NaN if it failed
    budgets = np.array([row.trial.budget for row in rows])
    best = np.lexsort((np.nan_to_num(y, nan=np.inf), -budgets))[:200]
    kept = thinned(len(rows), theme.MOST_POINTS, best).tolist()
    place, title = _across(rows[-1].at)
    x = np.array([place(row.at) for row in rows])
    axis = LossAxis(history.goals, y)
    outlier = axis.outside(y)
    bad = [i for i in kept if np.isnan(y[i])]
    traces: list[Any] = []
    for rank, (budget, colour) in enumerate(budget_colours(budgets.tolist()).items()):
        here = [i for i in kept if budgets[i] == budget and not np.isnan(y[i]) and not outlier[i]]
        symbols = sorted({_SYMBOLS[rows[i].picked] for i in here})
        for symbol in symbols:
            mine = [i for i in here if _SYMBOLS[rows[i].picked] == symbol]
            traces.append(_points(rows, mine, x, axis, f"budget {budget:g}", colour, rank, symbol))
            traces[-1].showlegend = symbol == symbols[0]
    traces.append(axis.triangles(x, y, [row.trial.number for row in rows]))
    if bad:
        traces.append(_failed(rows, bad, x))
    return figure(
        traces,
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
    rows: list[Evaluation], chosen: list[int], x: Array, axis: LossAxis, name: str, colour: str, rank: int, symbol: str
) -> Any:
    """Return the trials of one budget and one symbol."""
    size = min(5 + 1.5 * rank, 11) * (1.0 if len(rows) < 1500 else 0.6)
    return marks(
        x[chosen],
        axis.values(np.array([rows[i].outcome.loss for i in chosen], dtype=float)),
        np.array([rows[i].trial.number for i in chosen], dtype=np.int32),
        name,
        f"{axis.name} %{{y:.6g}}<br>{name}<br>%{{text}}",
        {"color": colour, "size": size, "symbol": symbol, "line": {"width": 1, "color": colour}},
        text=[f"{rows[i].trial.origin.value}, first {rows[i].picked.value}" for i in chosen],
    )


def _failed(rows: list[Evaluation], chosen: list[int], x: Array) -> Any:
    colours = [theme.STATUSES[rows[i].outcome.status] for i in chosen]
    return marks(
        x[chosen],
        np.zeros(len(chosen), dtype=np.int8),
        np.array([[rows[i].trial.number, rows[i].trial.budget] for i in chosen], dtype=float),
        "failed",
        "%{text}<br>budget %{customdata[1]:~g}",
        {"symbol": "x-thin", "size": 8, "line": {"width": 2, "color": colours}},
        text=[rows[i].outcome.status.value for i in chosen],
        yaxis="y2",
    )


def draw_comparison(histories: Mapping[str, History], over: str = "cost") -> Figure:
    """Draw the incumbents of any number of studies; the axis suits how they end, not how they begin.

    Studies that maximise have a panel of their own below those that minimise.

    histories: the studies by the names in the legend.
    over: "cost" for the spent budget in full evaluations, "time" for the run time.
    """
    if over not in ("cost", "time"):
        raise InvalidArgument(f"over={over!r} must be 'cost' or 'time'")
    tables = {name: table for name, history in histories.items() if (table := trajectory(history)).incumbents}
    if not tables:
        return empty("No study has a result yet")
    longest = max(table.end.seconds or 0.0 for table in tables.values())
    place, across = _across(replace(next(iter(tables.values())).end, seconds=longest), over)
    goals = {name: histories[name].goals for name in tables}
    groups = [{n: t for n, t in tables.items() if goals[n].objectives[0].maximised == up} for up in (False, True)]
    title = "{} of the incumbent" if not all(groups) else "{}"  # two panels leave no room for more
    axes = [_common_axis([goals[name] for name in group], list(group.values()), title) for group in groups if group]
    styles = itertools.cycle(itertools.product(_DASHES, theme.COLOURS))
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
    return figure(traces, losses=axes[0], notes=notes, showlegend=True, **panels)


def _common_axis(goals: list[Goals], tables: list[Trajectory], title: str) -> LossAxis:
    """Return the axis of studies that all minimise or all maximise."""
    objectives = {each.objectives[0] for each in goals}
    up = goals[0].objectives[0].maximised
    common = goals[0] if len(objectives) == 1 else Goals((Objective("score" if up else "loss", up),))
    losses = [step.loss for table in tables for step in table.incumbents]
    shown = settled_range([loss for table in tables for loss in _settled(table)], losses)
    return LossAxis(common, losses, title, shown=shown, outside=("early result", "early results"))


def _compared(name: str, table: Trajectory, place: Place, axis: LossAxis, style: tuple[str, str], panel: int) -> Any:
    dash, colour = style
    line = step_line(table.incumbents, table.end, place, axis, label(name), colour, 2.5)
    line.line.dash = dash
    line.hovertemplate = f"{label(name)}<br>{line.hovertemplate}"
    line.yaxis = "y" if panel == 0 else f"y{panel + 1}"
    return line


def _settled(table: Trajectory) -> list[float]:
    """Return the losses that a study had after its first tenth, by spent budget."""
    begin = _BEGINNING * table.end.continued
    later = [step.loss for step in table.incumbents if step.at.continued > begin]
    before = [step.loss for step in table.incumbents if step.at.continued <= begin][-1:]
    return before + later


@dataclass(slots=True)
class Bar:
    """One bar: a trial, or several in close succession."""

    start: float
    end: float
    row: int
    spans: list[Span]


def draw_timeline(history: History) -> Figure:
    """Draw a bar per trial, one row per worker, coloured by budget."""
    spans = timeline(history)
    if not spans:
        message = "No trial has started yet" if not history.trials else "No times were recorded for these trials"
        return empty(message)
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
        height=max(240, min(1400, 150 + 26 * len(shown))),
        barmode="overlay",
        xaxis={"title": {"text": f"run time ({unit})"}, "range": [0, 1.01 * end / size]},
        yaxis=ticks([label(worker, 24) for worker in shown], range=[len(shown) - 0.5, -0.5], showgrid=False),
        notes=notes,
    )


def _merged(spans: list[Span], rows: dict[str, int], end: float) -> dict[Kind, list[Bar]]:
    """Return bars by kind; if there are too many, those of one worker and kind in close succession are merged."""
    close = -1.0
    while True:
        bars: dict[Kind, list[Bar]] = {}
        last: dict[tuple[int, Kind], Bar] = {}
        for span in spans:
            ended = "running" if span.status is None else "ok" if span.status == "ok" else "failed"
            kind, row, until = (span.budget, ended), rows[span.worker], end if span.end is None else span.end
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
    entries += [(ended, theme.GREY, ended, ended) for ended in ("failed", "running") if ended in seen]
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
