"""Plots as JSON for the page's script, drawn once per version of a study."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from bohb.analysis.trajectory import Moment, trajectory
from bohb.core.trial import Trial
from bohb.dashboard.studies import View
from bohb.plots import PLOTS
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.theme import (
    BLUE,
    ORANGE,
    budget_colours,
    duration_unit,
    empty,
    figure,
    label,
    template,
)

_KEPT = 40  # figures, each below a megabyte


class Figures:
    """Draws figures one at a time and caches the last few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, bytes] = OrderedDict()

    def plot(self, view: View, key: str) -> bytes:
        """Draw one of `bohb.plots.PLOTS`."""
        return self._once((view.name, view.version, key), lambda: PLOTS[key](view.history))

    def curve(self, view: View, trial: Trial) -> bytes:
        """Draw the learning curves of a trial's configuration."""
        return self._once((view.name, view.version, trial.number), lambda: curve_figure(view, trial))

    def comparison(self, a: View, b: View, over: str) -> bytes:
        """Draw the incumbents of two studies over "cost" or "time"."""
        key = (a.name, a.version, b.name, b.version, over)
        return self._once(key, lambda: comparison_figure(a, b, over))

    def _once(self, key: Hashable, draw: Callable[[], Figure]) -> bytes:
        with self._lock:
            found = self._drawn.pop(key, None)
            self._drawn[key] = found = draw().to_json().encode() if found is None else found
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return found


@cache
def templates() -> dict[str, Any]:
    """Return the light and the dark template of all figures."""
    return {name: template(dark).to_plotly_json() for name, dark in (("light", False), ("dark", True))}


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
    ends = [table.end for table in tables if table.end is not None]
    longest = max((end.seconds or 0.0 for end in ends), default=0.0)
    unit_size, unit = duration_unit(longest)

    def place(at: Moment) -> float:
        return at.continued if over == "cost" else (at.seconds or 0.0) / unit_size

    axis = LossAxis([step.loss for table in tables for step in table.incumbents], "loss of the incumbent")
    traces: list[Any] = []
    for view, table, colour in zip((a, b), tables, (BLUE, ORANGE), strict=True):
        if table.end is None or not table.incumbents:
            continue
        steps = (*table.incumbents, table.incumbents[-1])
        x = [*(place(step.at) for step in table.incumbents), place(table.end)]
        name, line = label(view.name), {"shape": "hv", "color": colour, "width": 2.5}
        hover = f"{name}<br>loss %{{customdata:.6g}}<extra></extra>"
        losses = [step.loss for step in steps]
        y = axis.place(losses)
        traces.append(go.Scatter(x=x, y=y, customdata=losses, name=name, line=line, hovertemplate=hover))
        traces.append(axis.triangles(x, losses, [step.number for step in steps]))
    if not traces:
        return empty("Neither study has a result yet")
    title = "budget spent (full evaluations)" if over == "cost" else f"run time ({unit})"
    return figure(traces, losses=axis, xaxis={"title": {"text": title}, "rangemode": "tozero"}, showlegend=True)
