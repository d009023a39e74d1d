"""The models: the densities l and g, what the Gaussian process expects, and how good picks are beside random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bohb.analysis.axes import LARGEST
from bohb.analysis.extrapolation import Extrapolation
from bohb.analysis.lineage import Picks, picks
from bohb.analysis.models import Beliefs, Marginal, Slice, beliefs, densities, proposed, uses_process
from bohb.core.history import History
from bohb.core.samplers.density import points_needed
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.trial import Origin
from bohb.plots import theme
from bohb.plots.axis import MOST_PARAMETERS, LossAxis, empty, figure, no_losses, panels
from bohb.plots.theme import Figure, budget_colours, budget_ticks, go, label, left_out, thinned
from bohb.units import number

_RUG = 200  # fitted configurations shown below the densities
_NAMES = {Origin.RANDOM: "random", Origin.MODEL: "model", Origin.GIVEN: "given"}
_BAND = "rgba(42,128,194,0.2)"  # blue


def draw_model(
    history: History,
    dark: bool = False,
    model: str | None = None,
    number: int | None = None,
    sampler: GaussianSampler | None = None,
) -> Figure:
    """Draw what the model of a study believes about each hyperparameter.

    model: "process" for the expected loss and its uncertainty, "density" for the densities of good and bad
        configurations. Default: the process if the study has one.
    number: the trial through whose configuration the slices of the process go. Default: the incumbent.
    sampler: an earlier sampler of this study, whose fits are used again.
    """
    if (uses_process(history) if model is None else model == "process") or number is not None:
        return _process(history, dark, number, sampler)
    return _densities(history, dark)


def _densities(history: History, dark: bool) -> Figure:
    table = densities(history)
    if history.created is None:
        return no_losses(history, dark)
    if table is None:
        needed = points_needed(history.space, history.settings)
        return empty(f"No model yet: it needs {needed} results on one budget, at least one of them successful", dark)
    marginals = [marginal for marginal in table.marginals if len(marginal.good_points) + len(marginal.bad_points)]
    seen = {marginal.axis.name for marginal in marginals}
    unseen = [marginal.axis.name for marginal in table.marginals if marginal.axis.name not in seen]
    shown = marginals
    if len(marginals) > MOST_PARAMETERS:
        shown = sorted(marginals, key=lambda marginal: -marginal.distance)[:MOST_PARAMETERS]
    drawn = [
        (_panel_title(marginal), marginal.axis, _density_traces(marginal, first=index == 0))
        for index, marginal in enumerate(shown)
    ]
    notes = [f"budget {table.budget:g}: {table.n} results, {table.good} good, {table.bad} bad"]
    if unseen:
        notes.append(f"inactive in all of them: {label(', '.join(unseen), 30)}")
    notes += left_out(len(shown), len(marginals), "hyperparameters")
    return panels(drawn, dark, {"rangemode": "tozero", "showticklabels": False, "ticks": ""}, notes=notes)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What is marked at the configuration through which the slices go."""

    name: str
    loss: float
    spread: float
    colour: str
    symbol: str


def _process(history: History, dark: bool, number: int | None, sampler: GaussianSampler | None) -> Figure:
    if not uses_process(history):
        return empty("This study has no Gaussian process", dark)
    table = beliefs(history, number, sampler)
    if table is None:
        return empty("No Gaussian process yet: it needs more results with different values", dark)
    shown = sorted(table.slices, key=lambda each: -float(np.ptp(each.mean)))[:MOST_PARAMETERS]
    marks = _marks(history, table)
    ends = [end for mark in marks for end in (mark.loss - mark.spread, mark.loss + mark.spread)]
    bands = [np.concatenate([s.mean - 2 * s.deviation, s.mean + 2 * s.deviation]) for s in shown]
    axis = LossAxis(history.goals, np.concatenate([*bands, ends]), "expected {}")
    drawn = [
        (label(each.axis.name, 28), each.axis, [*_band(each, axis, index == 0), *_at(each, marks, axis, index == 0)])
        for index, each in enumerate(shown)
    ]
    notes = [
        f"through trial {table.trial.number}, on budget {table.budget:g}, given {table.n} results",
        *left_out(len(shown), len(table.slices), "hyperparameters"),
    ]
    return panels(drawn, dark, losses=axis, notes=notes)


def _panel_title(marginal: Marginal) -> str:
    inactive = marginal.good_inactive + marginal.bad_inactive
    n = inactive + len(marginal.good_points) + len(marginal.bad_points)
    return label(marginal.axis.name, 24) + (f" (inactive in {100 * inactive / n:.0f} %)" if inactive else "")


def _density_traces(marginal: Marginal, first: bool) -> list[Any]:
    traces = []
    sides = (
        ("bad: g", marginal.bad, marginal.bad_points, theme.BAD),
        ("good: l", marginal.good, marginal.good_points, theme.GOOD),
    )
    for name, density, points, colour in sides:
        shared = {"name": name, "legendgroup": name, "showlegend": first}
        if marginal.axis.kind == "categorical":
            traces.append(
                go.Bar(
                    x=marginal.places,
                    y=density,
                    marker={"color": colour},
                    hovertemplate="probability %{y:.3f}<extra>" + name + "</extra>",
                    **shared,
                )
            )
            continue
        traces.append(
            go.Scatter(
                x=marginal.places.astype(np.float32),
                y=density.astype(np.float32),
                mode="lines",
                line={"color": colour, "width": 2, "dash": "solid" if colour == theme.GOOD else "dash"},
                hovertemplate="density %{y:.3g}<extra>" + name + "</extra>",
                **shared,
            )
        )
        peak = float(max(marginal.good.max(), marginal.bad.max()))
        traces.append(_rug(points, colour, -0.05 * peak if colour == theme.GOOD else -0.12 * peak))
    return traces


def _rug(points: Any, colour: str, height: float) -> Any:
    shown = points[thinned(len(points), _RUG)]
    return go.Scatter(
        x=shown.astype(np.float32),
        y=np.full(len(shown), height, dtype=np.float32),
        mode="markers",
        showlegend=False,
        hoverinfo="skip",
        marker={"symbol": "line-ns", "size": 6, "line": {"width": 1, "color": colour}},
    )


def _band(each: Slice, axis: LossAxis, first: bool) -> list[Any]:
    """Return the mean, and the range of two deviations around it."""
    low, high = axis.place(each.mean - 2 * each.deviation), axis.place(each.mean + 2 * each.deviation)
    hover = "expected %{y:.4g} ± %{customdata:.2g}<extra></extra>"
    if each.axis.kind == "categorical":
        bars = {"type": "data", "array": 2 * each.deviation}
        dots = {"mode": "markers", "marker": {"color": theme.BLUE, "size": 8}, "error_y": {**bars, "color": theme.BLUE}}
        return [_trace(each.places, axis.place(each.mean), each.deviation, "mean ± 2 deviations", hover, first, **dots)]
    around = np.concatenate([each.places, each.places[::-1]]), np.concatenate([high, low[::-1]])
    area = go.Scatter(x=around[0], y=around[1], mode="lines", line={"width": 0}, fill="toself", fillcolor=_BAND,
                      hoverinfo="skip", showlegend=False)  # fmt: skip
    line = {"mode": "lines", "line": {"color": theme.BLUE, "width": 2}}
    return [
        area,
        _trace(each.places, axis.place(each.mean), each.deviation, "mean ± 2 deviations", hover, first, **line),
    ]


def _trace(x: Any, y: Any, custom: Any, name: str, hover: str, first: bool, **options: Any) -> Any:
    return go.Scatter(
        x=np.asarray(x), y=np.asarray(y), customdata=custom, name=name, legendgroup=name, showlegend=first,
        hovertemplate=hover, **options,
    )  # fmt: skip


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


def _at(each: Slice, marks: list[_Mark], axis: LossAxis, first: bool) -> list[Any]:
    traces = []
    for mark in marks:
        options: dict[str, Any] = {
            "mode": "markers",
            "marker": {"color": mark.colour, "size": 10, "symbol": mark.symbol},
        }
        if mark.spread:
            options["error_y"] = {"type": "data", "array": [mark.spread], "color": mark.colour}
        y, known = axis.place([mark.loss]), axis.values([mark.loss])
        hover = f"{mark.name}: %{{customdata:.5g}}<extra></extra>"
        traces.append(_trace([each.place], y, known, mark.name, hover, first, **options))
    return traces


def draw_picks(history: History, dark: bool = False) -> Figure:
    """Draw the losses of new configurations by origin, on each budget on which brackets start."""
    rows = picks(history)
    if not any(row.losses for row in rows):
        return no_losses(history, dark)
    budgets = sorted({row.budget for row in rows})
    axis = LossAxis(history.goals, [loss for row in rows for loss in row.losses])
    traces = [
        _box([row for row in rows if row.origin is origin], budgets, origin, axis)
        for origin in _NAMES
        if any(row.origin is origin for row in rows)
    ]
    return figure(
        traces,
        dark=dark,
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


def draw_valleys(found: Extrapolation, dark: bool = False) -> Figure:
    """Draw a panel for each hyperparameter whose optimum follows the size."""
    names = list(found.moving)
    colours = list(budget_colours(range(len(found.sizes))).values())
    traces: list[Any] = []
    layout: dict[str, Any] = {}
    for i, name in enumerate(names):
        suffix = "" if i == 0 else str(i + 1)
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        moving = found.moving[name]
        log = "log" if min(moving.values) > 0 else "linear"
        gap = 0.08 / max(1, len(names) - 1) if len(names) > 1 else 0.0
        width = (1 - gap * (len(names) - 1)) / len(names)
        domain = [i * (width + gap), min(1.0, i * (width + gap) + width)]
        layout[f"xaxis{suffix}"] = {"type": log, "title": label(name), "domain": domain, "anchor": axes["yaxis"]}
        layout[f"yaxis{suffix}"] = {"type": "log", "anchor": axes["xaxis"], "matches": "y" if i else None}
        for k, size in enumerate(found.sizes):
            words = label(", ".join(f"{key} {number(value, 3)}" for key, value in size.items()), 60)
            look = {"color": colours[k]}
            alike = [run for run in found.runs if all(abs(run.scale[n] / v - 1) < 1e-6 for n, v in size.items())]
            at = [run for run in alike if name in run.config]
            near = [run for run in at if run.loss <= _SHOWN * min(each.loss for each in at)]
            x, y = [run.config[name] for run in near], [run.loss for run in near]
            once = {"name": words, "legendgroup": words}
            traces.append(
                go.Scatter(x=x, y=y, mode="markers", marker={**look, "size": 5}, showlegend=not i, **once, **axes)
            )
            line = [
                (v, w) for v, w in zip(moving.values, moving.valleys[k], strict=True) if w <= _WIDE * found.losses[k]
            ]
            traces.append(
                go.Scatter(
                    x=[v for v, _ in line], y=[w for _, w in line], mode="lines", line=look, showlegend=False,
                    hoverinfo="skip", **once, **axes,
                )
            )  # fmt: skip
        optimum = {
            "mode": "lines+markers",
            "line": {"color": theme.GREY, "dash": "dot"},
            "marker": {"symbol": "x", "size": 8},
        }
        path, losses = list(moving.path), [*found.losses, found.loss]
        traces.append(go.Scatter(x=path, y=losses, name="optimum", showlegend=not i, **optimum, **axes))
        low, high = found.config_intervals[name]
        bars = {"error_x": _bar(path[-1], low, high), "error_y": _bar(found.loss, *found.loss_interval)}
        target = {"color": theme.BLUE, "size": 12, "symbol": "star"}
        traces.append(
            go.Scatter(
                x=path[-1:], y=[found.loss], mode="markers", marker=target, name="recommended", showlegend=not i,
                **bars, **axes,
            )
        )  # fmt: skip
    layout["yaxis"]["title"] = "loss"
    return figure(traces, dark=dark, height=480, **layout)


def _bar(at: float, low: float, high: float) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "array": [high - at], "arrayminus": [at - low], "color": theme.BLUE}
