"""Several studies in one figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from bohb.analysis.ranges import settled_range
from bohb.analysis.trajectory import Moment, Trajectory, trajectory
from bohb.core.goals import Goals, Objective
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.drawing import Figure
from bohb.plots.loss_axis import LossAxis
from bohb.plots.progress import Place, step_line
from bohb.plots.theme import BLUE, GREEN, ORANGE, PINK, duration_unit, empty, figure, label, loss_axis

_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#7d6bc4", "#b8860b")
_DASHES = ("solid", "dash", "dot", "dashdot")  # when the colours are used up
_BEGINNING = 0.1  # share of a study whose losses may be outside the axis


def draw_comparison(histories: Mapping[str, History], dark: bool = False, over: str = "cost") -> Figure:
    """Draw the incumbents of any number of studies; the axis suits how they end, not how they begin.

    Studies that maximise have a panel of their own below those that minimise.

    histories: the studies by the names in the legend.
    over: "cost" for the spent budget in full evaluations, "time" for the run time.
    """
    if over not in ("cost", "time"):
        raise InvalidArgument(f"over={over!r} must be 'cost' or 'time'")
    tables = {name: table for name, history in histories.items() if (table := trajectory(history)).incumbents}
    if not tables:
        return empty("No study has a result yet", dark)
    longest = max(table.end.seconds or 0.0 for table in tables.values() if table.end is not None)
    unit_size, unit = duration_unit(longest)

    def place(at: Moment) -> float:
        return at.continued if over == "cost" else (at.seconds or 0.0) / unit_size

    goals = {name: histories[name].goals for name in tables}
    groups = [{n: t for n, t in tables.items() if goals[n].objectives[0].maximised == up} for up in (False, True)]
    title = "{} of the incumbent" if not all(groups) else "{}"  # two panels leave no room for more
    axes = [_axis([goals[name] for name in group], list(group.values()), title) for group in groups if group]
    styles = itertools.cycle(itertools.product(_DASHES, _COLOURS))
    traces = [
        _line(name, table, place, axis, style, index)
        for index, (axis, group) in enumerate(zip(axes, filter(None, groups), strict=True))
        for (name, table), style in zip(group.items(), styles, strict=False)
    ]
    across = "budget spent (full evaluations)" if over == "cost" else f"run time ({unit})"
    panels: dict[str, Any] = {"xaxis": {"title": {"text": across}, "rangemode": "tozero"}}
    if len(axes) > 1:
        panels["xaxis"]["anchor"] = "y2"
        panels |= {"yaxis": {"domain": [0.55, 1]}, "yaxis2": {**axes[1].layout(), "domain": [0, 0.45]}}
    notes = [axis.note for axis in axes[1:]]
    return figure(traces, dark=dark, losses=axes[0], notes=notes, showlegend=True, **panels)


def _axis(goals: list[Goals], tables: list[Trajectory], title: str) -> LossAxis:
    """Return the axis of studies that all minimise or all maximise."""
    objectives = {each.objectives[0] for each in goals}
    up = goals[0].objectives[0].maximised
    common = goals[0] if len(objectives) == 1 else Goals((Objective("score" if up else "loss", up),))
    losses = [step.loss for table in tables for step in table.incumbents]
    shown = settled_range([loss for table in tables for loss in _settled(table)], losses)
    return loss_axis(common, losses, title, shown=shown, outside=("early result", "early results"))


def _line(name: str, table: Trajectory, place: Place, axis: LossAxis, style: tuple[str, str], panel: int) -> Any:
    assert table.end is not None
    dash, colour = style
    line = step_line(table.incumbents, table.end, place, axis, label(name), colour, 2.5)
    line.line.dash = dash
    line.hovertemplate = f"{label(name)}<br>{line.hovertemplate}"
    line.yaxis = "y" if panel == 0 else f"y{panel + 1}"
    return line


def _settled(table: Trajectory) -> list[float]:
    """Return the losses that a study had after its first tenth, by spent budget."""
    assert table.end is not None
    begin = _BEGINNING * table.end.continued
    later = [step.loss for step in table.incumbents if step.at.continued > begin]
    before = [step.loss for step in table.incumbents if step.at.continued <= begin][-1:]
    return before + later
