"""Several studies in one figure."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from bohb.analysis.ranges import settled_range
from bohb.analysis.trajectory import Moment, Trajectory, trajectory
from bohb.core.goals import PLAIN
from bohb.core.history import History
from bohb.errors import InvalidArgument
from bohb.plots.drawing import Figure
from bohb.plots.progress import step_line
from bohb.plots.theme import BLUE, GREEN, ORANGE, PINK, duration_unit, empty, figure, label, loss_axis

_COLOURS = (BLUE, ORANGE, GREEN, PINK, "#7d6bc4", "#b8860b")
_DASHES = ("solid", "dash", "dot", "dashdot")  # when the colours are used up
_BEGINNING = 0.1  # share of a study whose losses may be outside the axis


def draw_comparison(histories: Mapping[str, History], dark: bool = False, over: str = "cost") -> Figure:
    """Draw the incumbents of any number of studies; the axis suits how they end, not how they begin.

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

    losses = [step.loss for table in tables.values() for step in table.incumbents]
    settled = [loss for table in tables.values() for loss in _settled(table)]
    shown = settled_range(settled, losses)
    goals = next(histories[name].goals for name in tables)
    if any(histories[name].goals.objectives[0] != goals.objectives[0] for name in tables):
        goals = PLAIN  # studies that mean different things have only their losses in common
    axis = loss_axis(goals, losses, "{} of the incumbent", shown=shown, outside=("early result", "early results"))
    traces: list[Any] = []
    styles = itertools.cycle(itertools.product(_DASHES, _COLOURS))
    for (name, table), (dash, colour) in zip(tables.items(), styles, strict=False):
        assert table.end is not None
        line = step_line(table.incumbents, table.end, place, axis, label(name), colour, 2.5)
        line.line.dash = dash
        line.hovertemplate = f"{label(name)}<br>{line.hovertemplate}"
        traces.append(line)
    title = "budget spent (full evaluations)" if over == "cost" else f"run time ({unit})"
    return figure(
        traces, dark=dark, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"}, showlegend=True
    )


def _settled(table: Trajectory) -> list[float]:
    """Return the losses that a study had after its first tenth, by spent budget."""
    assert table.end is not None
    begin = _BEGINNING * table.end.continued
    later = [step.loss for step in table.incumbents if step.at.continued > begin]
    before = [step.loss for step in table.incumbents if step.at.continued <= begin][-1:]
    return before + later
