"""Plots as JSON for the page's script, drawn once per version of a study."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from bohb.analysis.trajectory import Moment, trajectory
from bohb.core.trial import Trial
from bohb.dashboard.studies import View
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.progress import step_line, step_outliers
from bohb.plots.theme import BLUE, ORANGE, budget_colours, duration_unit, empty, figure, label

_KEPT = 40  # figures, each below a megabyte


class Figures:
    """Draws figures one at a time and caches the last few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, bytes] = OrderedDict()

    def once(self, key: Hashable, draw: Callable[[], Figure]) -> bytes:
        """Return the figure of this key as JSON; draw it if it is not cached."""
        with self._lock:
            found = self._drawn.pop(key, None)
            self._drawn[key] = found = draw().to_json().encode() if found is None else found
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return found


def curve_figure(view: View, trial: Trial) -> Figure:
    """Draw reported losses over steps, for each budget of the configuration."""
    history = view.history
    numbers = [n for n in view.lineage[trial.config_id] if n in history.outcomes and history.outcomes[n].curve]
    if not numbers:
        return empty("No loss was reported during training")
    colours = budget_colours([history.trials[n].budget for n in numbers])
    axis = LossAxis([loss for n in numbers for _, loss in history.outcomes[n].curve], "reported loss")
    traces: list[Any] = []
    for n in numbers:
        steps, losses = zip(*history.outcomes[n].curve, strict=True)
        budget, own = history.trials[n].budget, n == trial.number
        line = {"color": colours[budget], "width": 3 if own else 1.5, "dash": "solid" if own else "dot"}
        name = f"trial {n}, budget {budget:g}" + (" (this one)" if own else "")
        mode = "lines+markers" if len(steps) < 60 else "lines"
        traces.append(go.Scatter(x=steps, y=axis.place(losses), mode=mode, name=name, line=line))
        traces.append(axis.triangles(steps, losses, [n] * len(steps)))
    return figure(traces, losses=axis, xaxis={"title": {"text": "step"}}, showlegend=True)


def comparison_figure(a: View, b: View, over: str) -> Figure:
    """Draw the incumbents of two studies in one figure."""
    tables = [trajectory(view.history) for view in (a, b)]
    longest = max((table.end.seconds or 0.0 for table in tables if table.end is not None), default=0.0)
    unit_size, unit = duration_unit(longest)

    def place(at: Moment) -> float:
        return at.continued if over == "cost" else (at.seconds or 0.0) / unit_size

    axis = LossAxis([step.loss for table in tables for step in table.incumbents], "loss of the incumbent")
    traces: list[Any] = []
    for view, table, colour in zip((a, b), tables, (BLUE, ORANGE), strict=True):
        if table.end is not None and table.incumbents:
            traces.append(step_line(table.incumbents, table.end, place, axis, label(view.name), colour, 2.5))
            traces.append(step_outliers(table.incumbents, place, axis))
    if not traces:
        return empty("Neither study has a result yet")
    title = "budget spent (full evaluations)" if over == "cost" else f"run time ({unit})"
    return figure(traces, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"}, showlegend=True)
