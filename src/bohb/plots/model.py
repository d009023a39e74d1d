"""The model: its densities, whether its picks are better than random ones, and which hyperparameters matter."""

from __future__ import annotations

from typing import Any

import numpy as np

from bohb.analysis.densities import Marginal, densities
from bohb.analysis.importance import ENOUGH, importance
from bohb.analysis.picks import Picks, picks
from bohb.core.history import History
from bohb.core.samplers.density import points_needed
from bohb.core.trial import Origin
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.panels import MOST_PARAMETERS, panels
from bohb.plots.theme import (
    BAD,
    BLUE,
    GOOD,
    GREY,
    ORIGINS,
    budget_ticks,
    empty,
    figure,
    label,
    loss_axis,
    no_losses,
    thinned,
    ticks,
)

_MOST_BARS = 30
_RUG = 200  # fitted configurations shown below the densities
_NAMES = {Origin.RANDOM: "random", Origin.MODEL: "model", Origin.GIVEN: "given"}


def draw_densities(history: History, dark: bool = False) -> Figure:
    """Draw the densities of good and bad configurations, one panel per hyperparameter."""
    table = densities(history)
    if history.created is None:
        return no_losses(history, dark)
    if table is None:
        needed = points_needed(history.space, history.settings)
        return empty(f"No model yet: it needs {needed} results on one budget, at least one of them successful", dark)
    marginals = [marginal for marginal in table.marginals if len(marginal.good_points) + len(marginal.bad_points)]
    seen = {marginal.axis.name for marginal in marginals}
    unseen = [marginal.axis.name for marginal in table.marginals if marginal.axis.name not in seen]
    if len(marginals) > MOST_PARAMETERS:  # show those whose densities differ most
        marginals.sort(key=lambda m: -float(np.abs(np.log(m.good / m.bad)).mean()))
        marginals = marginals[:MOST_PARAMETERS]
    drawn = [
        (_panel_title(marginal), marginal.axis, _density_traces(marginal, first=index == 0))
        for index, marginal in enumerate(marginals)
    ]
    notes = [f"budget {table.budget:g}: {table.n} results, {table.good} good, {table.bad} bad"]
    if unseen:
        notes.append(f"inactive in all of them: {label(', '.join(unseen), 30)}")
    return panels(drawn, dark, {"rangemode": "tozero", "showticklabels": False, "ticks": ""}, notes=notes)


def draw_picks(history: History, dark: bool = False) -> Figure:
    """Draw the losses of new configurations by origin, on each budget on which brackets start."""
    rows = picks(history)
    if not any(row.losses for row in rows):
        return no_losses(history, dark)
    budgets = sorted({row.budget for row in rows})
    axis = loss_axis(history.goals, [loss for row in rows for loss in row.losses])
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


def draw_importance(history: History, dark: bool = False, budget: float | None = None) -> Figure:
    """Draw a bar per hyperparameter, the most important on top."""
    table = importance(history, budget)
    if table is None:
        return empty(f"Too few results: importance needs at least {ENOUGH} on one budget, with different values", dark)
    rows = table.rows[:_MOST_BARS][::-1]
    places = np.arange(len(rows))
    most = 125 * max(row.share for row in table.rows)
    bars = go.Bar(
        x=np.array([100 * row.share for row in rows]),
        y=places,
        orientation="h",
        name="importance",
        marker={"color": [BLUE if row.share > row.chance else GREY for row in rows]},
        hovertemplate="%{x:.1f} %<extra></extra>",
        showlegend=False,
    )
    by_chance = go.Scatter(
        x=np.array([min(100 * row.chance, most) for row in rows]),
        y=places,
        mode="markers",
        name="95 % of shuffled results are below",
        marker={"symbol": "line-ns", "size": 16, "line": {"width": 2, "color": BAD}},
        hovertemplate="chance alone: up to %{x:.1f} %<extra></extra>",
    )
    source = "random picks" if table.budget is None else f"results on budget {table.budget:g}"
    return figure(
        [bars, by_chance],
        dark=dark,
        height=max(240, 150 + 28 * len(rows)),
        xaxis={"title": {"text": "share (%)"}, "range": [0, most]},
        yaxis=ticks(
            [f"{label(row.name, 24)}  {100 * row.share:.0f} %" for row in rows],
            showgrid=False,
            range=[-0.6, len(rows) - 0.4],
        ),
        notes=[f"the best {table.best} of {table.n} {source}"],
        notes_from=1,  # the names on the left leave little room on a phone
    )


def _panel_title(marginal: Marginal) -> str:
    inactive = marginal.good_inactive + marginal.bad_inactive
    n = inactive + len(marginal.good_points) + len(marginal.bad_points)
    return label(marginal.axis.name, 24) + (f" (inactive in {100 * inactive / n:.0f} %)" if inactive else "")


def _density_traces(marginal: Marginal, first: bool) -> list[Any]:
    traces = []
    sides = (
        ("bad: g", marginal.bad, marginal.bad_points, BAD),
        ("good: l", marginal.good, marginal.good_points, GOOD),
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
                line={"color": colour, "width": 2, "dash": "solid" if colour == GOOD else "dash"},
                hovertemplate="density %{y:.3g}<extra>" + name + "</extra>",
                **shared,
            )
        )
        peak = float(max(marginal.good.max(), marginal.bad.max()))
        traces.append(_rug(points, colour, -0.05 * peak if colour == GOOD else -0.12 * peak))
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
        marker={"color": ORIGINS[origin], "size": 4, "opacity": 0.7},
        line={"width": 1.5},
        hovertemplate=f"{axis.name} %{{customdata:.6g}}<extra>{_NAMES[origin]}</extra>",
    )
