"""The models: the densities l and g, what the Gaussian process expects, and how good picks are beside random ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.analysis.axes import LARGEST
from bohb.analysis.extrapolation import Extrapolation, Moving
from bohb.analysis.lineage import Picks, picks
from bohb.analysis.models import Beliefs, Marginal, Slice, beliefs, densities, proposed, uses_process
from bohb.core.history import History
from bohb.core.samplers.density import points_needed
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.trial import Origin
from bohb.plots import theme
from bohb.plots.axis import MOST_PARAMETERS, LossAxis, across_panel, empty, figure, in_panel, no_losses, panels
from bohb.plots.theme import Figure, budget_colours, budget_ticks, go, label, left_out, thinned
from bohb.units import number

_RUG = 200  # fitted configurations shown below the densities
_NAMES = {Origin.RANDOM: "random", Origin.MODEL: "model", Origin.GIVEN: "given"}
_BAND = "rgba(42,128,194,0.2)"  # blue


def draw_model(
    history: History, model: str | None = None, number: int | None = None, sampler: GaussianSampler | None = None
) -> Figure:
    """Draw what the model of a study believes about each hyperparameter.

    model: "process" for the expected loss and its uncertainty, "density" for the densities of good and bad
        configurations. Default: the process if the study has one.
    number: the trial through whose configuration the slices of the process go. Default: the incumbent.
    sampler: an earlier sampler of this study, whose fits are used again.
    """
    if (uses_process(history) if model is None else model == "process") or number is not None:
        return _process(history, number, sampler)
    return _densities(history)


def _densities(history: History) -> Figure:
    table = densities(history)
    if history.created is None:
        return no_losses(history)
    if table is None:
        needed = points_needed(history.space, history.settings)
        return empty(f"No model yet: it needs {needed} results on one budget, at least one of them successful")
    marginals = [marginal for marginal in table.marginals if len(marginal.good_points) + len(marginal.bad_points)]
    seen = {marginal.axis.name for marginal in marginals}
    unseen = [marginal.axis.name for marginal in table.marginals if marginal.axis.name not in seen]
    shown = marginals
    if len(marginals) > MOST_PARAMETERS:
        shown = sorted(marginals, key=lambda marginal: -marginal.distance)[:MOST_PARAMETERS]
    drawn = [(_panel_title(marginal), marginal.axis, list(_density_traces(marginal))) for marginal in shown]
    notes = [f"budget {table.budget:g}: {table.n} results, {table.good} good, {table.bad} bad"]
    if unseen:
        notes.append(f"inactive in all of them: {label(', '.join(unseen), 30)}")
    notes += left_out(len(shown), len(marginals), "hyperparameters")
    return panels(drawn, {"rangemode": "tozero", "showticklabels": False, "ticks": ""}, notes=notes)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is marked at the configuration through which the slices go."""

    name: str
    loss: float
    spread: float
    colour: str
    symbol: str


def _process(history: History, number: int | None, sampler: GaussianSampler | None) -> Figure:
    if not uses_process(history):
        return empty("This study has no Gaussian process")
    table = beliefs(history, number, sampler)
    if table is None:
        return empty("No Gaussian process yet: it needs more results with different values")
    shown = sorted(table.slices, key=lambda each: -float(np.ptp(each.mean)))[:MOST_PARAMETERS]
    marks = _marks(history, table)
    ends = [end for mark in marks for end in (mark.loss - mark.spread, mark.loss + mark.spread)]
    bands = [np.concatenate([s.mean - 2 * s.deviation, s.mean + 2 * s.deviation]) for s in shown]
    axis = LossAxis(history.goals, np.concatenate([*bands, ends]), "expected {}")
    drawn = [(label(s.axis.name, 28), s.axis, [*_band(s, axis), *_at(s, marks, axis)]) for s in shown]
    notes = [
        f"through trial {table.trial.number}, on budget {table.budget:g}, given {table.n} results",
        *left_out(len(shown), len(table.slices), "hyperparameters"),
    ]
    return panels(drawn, losses=axis, notes=notes)


def _panel_title(marginal: Marginal) -> str:
    inactive = marginal.good_inactive + marginal.bad_inactive
    n = inactive + len(marginal.good_points) + len(marginal.bad_points)
    return label(marginal.axis.name, 24) + (f" (inactive in {100 * inactive / n:.0f} %)" if inactive else "")


def _density_traces(marginal: Marginal) -> Iterator[Any]:
    peak = float(max(marginal.good.max(), marginal.bad.max()))
    sides = (
        ("bad: g", marginal.bad, marginal.bad_points, theme.BAD, "dash", -0.12),
        ("good: l", marginal.good, marginal.good_points, theme.GOOD, "solid", -0.05),
    )
    for name, density, points, colour, dash, below in sides:
        if marginal.axis.kind == "categorical":
            hover = f"probability %{{y:.3f}}<extra>{name}</extra>"
            yield go.Bar(x=marginal.places, y=density, name=name, marker={"color": colour}, hovertemplate=hover)
            continue
        yield go.Scatter(
            x=marginal.places.astype(np.float32),
            y=density.astype(np.float32),
            mode="lines",
            name=name,
            line={"color": colour, "width": 2, "dash": dash},
            hovertemplate=f"density %{{y:.3g}}<extra>{name}</extra>",
        )
        rug = points[thinned(len(points), _RUG)].astype(np.float32)
        strokes = {"symbol": "line-ns", "size": 6, "line": {"width": 1, "color": colour}}
        height = np.full(len(rug), below * peak, dtype=np.float32)
        yield go.Scatter(x=rug, y=height, mode="markers", marker=strokes, hoverinfo="skip")


def _band(each: Slice, axis: LossAxis) -> list[Any]:
    """Return the mean, and the range of two deviations around it."""
    low, high = axis.place(each.mean - 2 * each.deviation), axis.place(each.mean + 2 * each.deviation)
    mean = go.Scatter(
        x=each.places,
        y=axis.place(each.mean),
        customdata=each.deviation,
        name="mean ± 2 deviations",
        hovertemplate="expected %{y:.4g} ± %{customdata:.2g}<extra></extra>",
    )
    if each.axis.kind == "categorical":
        bars = {"type": "data", "array": 2 * each.deviation, "color": theme.BLUE}
        return [mean.update(mode="markers", marker={"color": theme.BLUE, "size": 8}, error_y=bars)]
    x, y = np.concatenate([each.places, each.places[::-1]]), np.concatenate([high, low[::-1]])
    around = {"mode": "lines", "line": {"width": 0}, "fill": "toself", "fillcolor": _BAND, "hoverinfo": "skip"}
    return [go.Scatter(x=x, y=y, **around), mean.update(mode="lines", line={"color": theme.BLUE, "width": 2})]


def _marks(history: History, table: Beliefs) -> list[_Mark]:
    """Return what the process expected of the configuration, and what was measured on the largest budget."""
    first = history.trials[table.trial.config_id]
    expected = proposed(first, history.goals.objectives[0])
    found = []
    if expected is not None:
        name = f"expected when trial {first.number} was proposed"
        found.append(_Mark(name, expected[0], min(2 * expected[1], LARGEST), theme.ORANGE, "diamond"))
    for n, trial in history.trials.items():
        outcome = history.outcomes.get(n)
        if trial.config_id == first.number and trial.budget == table.budget and outcome is not None and outcome.ok:
            name = f"{label(history.goals.label, 30)} of trial {n}"
            found.append(_Mark(name, outcome.ranking_loss, 0.0, theme.GREEN, "star"))
            break
    return found


def _at(each: Slice, marks: list[_Mark], axis: LossAxis) -> Iterator[Any]:
    for mark in marks:
        yield go.Scatter(
            x=[each.place],
            y=axis.place([mark.loss]),
            customdata=axis.values([mark.loss]),
            mode="markers",
            name=mark.name,
            marker={"color": mark.colour, "size": 10, "symbol": mark.symbol},
            error_y={"type": "data", "array": [mark.spread], "color": mark.colour} if mark.spread else None,
            hovertemplate=f"{mark.name}: %{{customdata:.5g}}<extra></extra>",
        )


def draw_picks(history: History) -> Figure:
    """Draw the losses of new configurations by origin, on each budget on which brackets start."""
    rows = picks(history)
    if not any(row.losses for row in rows):
        return no_losses(history)
    budgets = sorted({row.budget for row in rows})
    axis = LossAxis(history.goals, [loss for row in rows for loss in row.losses])
    traces = [
        _box([row for row in rows if row.origin is origin], budgets, origin, axis)
        for origin in _NAMES
        if any(row.origin is origin for row in rows)
    ]
    return figure(
        traces,
        losses=axis,
        boxmode="group",
        xaxis=budget_ticks(budgets, title={"text": "first budget of a configuration"}, showgrid=False),
    )


def _box(rows: list[Picks], budgets: list[float], origin: Origin, axis: LossAxis) -> Any:
    """Return all boxes of one origin, with at most a thousand losses each."""
    x: list[int] = []
    y: list[float] = []
    for row in rows:
        chosen = thinned(len(row.losses), 1000).tolist()
        x += [budgets.index(row.budget)] * len(chosen)
        y += [row.losses[i] for i in chosen]
    few = all(len(row.losses) <= 100 for row in rows)
    n, failed = sum(row.n for row in rows), sum(row.failed for row in rows)
    return go.Box(
        x=np.array(x, dtype=np.int16),
        y=axis.place(y),
        customdata=axis.values(y),
        name=f"{_NAMES[origin]}: {n}" + (f" ({failed} failed)" if failed else ""),
        boxpoints="all" if few else "outliers",
        jitter=0.4,
        pointpos=0,
        marker={"color": theme.ORIGINS[origin], "size": 4, "opacity": 0.7},
        line={"width": 1.5},
        hovertemplate=f"{axis.name} %{{customdata:.6g}}<extra>{_NAMES[origin]}</extra>",
    )


_SHOWN = 1.15  # times the best loss of its size up to which a run is shown
_WIDE = 1.3  # the same for the fitted valleys


def draw_valleys(found: Extrapolation) -> Figure:
    """Draw a panel for each hyperparameter whose optimum follows the size."""
    traces: list[Any] = []
    layout: dict[str, Any] = {}
    named: set[str] = set()
    for i, (name, moving) in enumerate(found.moving.items()):
        suffix = "" if i == 0 else str(i + 1)
        kind = "log" if min(moving.values) > 0 else "linear"
        across = {"domain": across_panel(i, len(found.moving)), "anchor": f"y{suffix}"}
        layout[f"xaxis{suffix}"] = {"type": kind, "title": label(name), **across}
        layout[f"yaxis{suffix}"] = {"type": "log", "anchor": f"x{suffix}", "matches": "y" if i else None}
        traces += in_panel([*_valleys(found, name, moving), *_optima(found, name, moving)], suffix, named)
    layout["yaxis"]["title"] = "loss"
    return figure(traces, height=480, **layout)


def _valleys(found: Extrapolation, name: str, moving: Moving) -> Iterator[Any]:
    """Yield the best runs of each size, and its fitted valley."""
    colours = budget_colours(range(len(found.sizes))).values()
    for size, valley, least, colour in zip(found.sizes, moving.valleys, found.losses, colours, strict=True):
        words = label(", ".join(f"{key} {number(value, 3)}" for key, value in size.items()), 60)
        alike = [run for run in found.runs if all(abs(run.scale[n] / v - 1) < 1e-6 for n, v in size.items())]
        at = [run for run in alike if name in run.config]
        near = [run for run in at if run.loss <= _SHOWN * min(each.loss for each in at)]
        x, y = [run.config[name] for run in near], [run.loss for run in near]
        dots = {"mode": "markers", "marker": {"color": colour, "size": 5}}
        yield go.Scatter(x=x, y=y, name=words, **dots)
        line = [(v, loss) for v, loss in zip(moving.values, valley, strict=True) if loss <= _WIDE * least]
        x, y = [v for v, _ in line], [loss for _, loss in line]
        yield go.Scatter(x=x, y=y, name=words, mode="lines", line={"color": colour}, hoverinfo="skip")


def _optima(found: Extrapolation, name: str, moving: Moving) -> Iterator[Any]:
    """Yield the optimum from size to size, and what is recommended."""
    look = {"line": {"color": theme.GREY, "dash": "dot"}, "marker": {"symbol": "x", "size": 8}}
    yield go.Scatter(x=moving.path, y=[*found.losses, found.loss], name="optimum", mode="lines+markers", **look)
    x, star = moving.path[-1], {"color": theme.BLUE, "size": 12, "symbol": "star"}
    bars = {"error_x": _bar(x, *found.config_intervals[name]), "error_y": _bar(found.loss, *found.loss_interval)}
    yield go.Scatter(x=[x], y=[found.loss], name="recommended", mode="markers", marker=star, **bars)


def _bar(at: float, low: float, high: float) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "array": [high - at], "arrayminus": [at - low], "color": theme.BLUE}
