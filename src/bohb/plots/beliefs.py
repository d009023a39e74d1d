"""What the Gaussian process expects around a configuration."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.process import Beliefs, Slice, beliefs, uses_process
from bohb.core.history import History
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.panels import MOST_PARAMETERS, panels
from bohb.plots.theme import BLUE, GREEN, ORANGE, empty, label, left_out, loss_axis

_BAND = "rgba(42,128,194,0.2)"  # blue


def draw_process(
    history: History, dark: bool = False, number: int | None = None, sampler: GaussianSampler | None = None
) -> Figure:
    """Draw the expected loss and its uncertainty along each hyperparameter.

    number: the trial through whose configuration the slices go. Default: the incumbent.
    sampler: an earlier sampler of this study, whose fits are used again.
    """
    if not uses_process(history):
        return empty("This study has no Gaussian process", dark)
    table = beliefs(history, number, sampler)
    if table is None:
        return empty("No Gaussian process yet: it needs more results with different values", dark)
    shown = sorted(table.slices, key=lambda each: -float(np.ptp(each.mean)))[:MOST_PARAMETERS]
    marks = _marks(history, table)
    ends = [end for _, loss, spread, _, _ in marks for end in (loss - spread, loss + spread)]
    bands = [np.concatenate([s.mean - 2 * s.deviation, s.mean + 2 * s.deviation]) for s in shown]
    axis = loss_axis(history.goals, np.concatenate([*bands, ends]), "expected {}")
    drawn = [
        (label(each.axis.name, 28), each.axis, [*_band(each, axis, index == 0), *_at(each, marks, axis, index == 0)])
        for index, each in enumerate(shown)
    ]
    notes = [
        f"through trial {table.trial.number}, on budget {table.budget:g}, given {table.n} results",
        *left_out(len(shown), len(table.slices), "hyperparameters"),
    ]
    return panels(drawn, dark, losses=axis, notes=notes)


def _band(each: Slice, axis: LossAxis, first: bool) -> list[Any]:
    """Return the mean, and the range of two deviations around it."""
    low, high = axis.place(each.mean - 2 * each.deviation), axis.place(each.mean + 2 * each.deviation)
    hover = "expected %{y:.4g} ± %{customdata:.2g}<extra></extra>"
    if each.axis.kind == "categorical":
        bars = {"type": "data", "array": 2 * each.deviation}
        dots = {"mode": "markers", "marker": {"color": BLUE, "size": 8}, "error_y": {**bars, "color": BLUE}}
        return [_trace(each.places, axis.place(each.mean), each.deviation, "mean ± 2 deviations", hover, first, **dots)]
    around = np.concatenate([each.places, each.places[::-1]]), np.concatenate([high, low[::-1]])
    area = go.Scatter(x=around[0], y=around[1], mode="lines", line={"width": 0}, fill="toself", fillcolor=_BAND,
                      hoverinfo="skip", showlegend=False)  # fmt: skip
    line = {"mode": "lines", "line": {"color": BLUE, "width": 2}}
    return [
        area,
        _trace(each.places, axis.place(each.mean), each.deviation, "mean ± 2 deviations", hover, first, **line),
    ]


def _trace(x: Any, y: Any, custom: Any, name: str, hover: str, first: bool, **options: Any) -> Any:
    return go.Scatter(
        x=np.asarray(x), y=np.asarray(y), customdata=custom, name=name, legendgroup=name, showlegend=first,
        hovertemplate=hover, **options,
    )  # fmt: skip


def _marks(history: History, table: Beliefs) -> list[tuple[str, float, float, str, str]]:
    """Return name, loss, deviation, colour and symbol of what is marked at the configuration."""
    first = history.trials[table.trial.config_id]
    found = []
    if "expected_loss" in first.reason:  # one process for each objective and constraint states more than one loss
        expected, deviation = first.reason["expected_loss"], first.reason["deviation"]
        found.append((f"expected when trial {first.number} was proposed", expected, 2 * deviation, ORANGE, "diamond"))
    for n, trial in history.trials.items():
        outcome = history.outcomes.get(n)
        if trial.config_id == first.number and trial.budget == table.budget and outcome is not None and outcome.ok:
            found.append((f"{label(history.goals.label, 30)} of trial {n}", outcome.ranking_loss, 0.0, GREEN, "star"))
            break
    return found


def _at(each: Slice, marks: list[tuple[str, float, float, str, str]], axis: LossAxis, first: bool) -> list[Any]:
    traces = []
    for name, loss, deviation, colour, symbol in marks:
        options = {"mode": "markers", "marker": {"color": colour, "size": 10, "symbol": symbol}}
        if deviation:
            options["error_y"] = {"type": "data", "array": [deviation], "color": colour}
        y, known = axis.place([loss]), axis.values([loss])
        traces.append(
            _trace([each.place], y, known, name, f"{name}: %{{customdata:.5g}}<extra></extra>", first, **options)
        )
    return traces
