"""How results on small budgets relate to large ones: rank correlation, survival, learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from bohb.analysis.agreement import Correlation, correlations
from bohb.analysis.lineage import Curve, Path, curves, paths
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.plots.drawing import Figure, go
from bohb.plots.loss_axis import LossAxis
from bohb.plots.theme import (
    MOST_LINES,
    budget_colours,
    budget_ticks,
    empty,
    figure,
    left_out,
    loss_axis,
    no_losses,
    thinned,
)

Points: TypeAlias = tuple[Sequence[float], Sequence[float], Sequence[int]]  # x, losses and trials of one line
_CURVE_POINTS = 200
_DIVERGING = [[0.0, "#e8964a"], [0.5, "#f2f2f2"], [1.0, "#5aa5de"]]  # light enough for dark text everywhere


def draw_correlation(history: History, dark: bool = False) -> Figure:
    """Draw Spearman's ρ for each pair of budgets, with the number of configurations that have both."""
    if not history.outcomes:
        return no_losses(history, dark)
    rows = [row for row in correlations(history) if row.n > 0]
    if not rows:
        return empty("No configuration has a result on two budgets yet", dark)
    budgets = sorted({row.low for row in rows} | {row.high for row in rows})
    size = len(budgets) - 1
    rho = np.full((size, size), np.nan)
    text, hover = ([[""] * size for _ in range(size)] for _ in range(2))
    for row in rows:
        i, j = budgets.index(row.high) - 1, budgets.index(row.low)
        rho[i, j] = 0.0 if row.rho is None else row.rho
        text[i][j] = f"n = {row.n}" if row.rho is None else f"{row.rho:.2f}<br>n = {row.n}"
        hover[i][j] = _sentence(row)
    heatmap = go.Heatmap(
        z=rho,
        x=list(range(size)),
        y=list(range(size)),
        text=text,
        customdata=hover,
        texttemplate="%{text}",
        textfont={"color": "#1d2126"},
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        zmin=-1,
        zmax=1,
        colorscale=_DIVERGING,
        colorbar={"title": {"text": "ρ"}, "thickness": 12},
        xgap=3,
        ygap=3,
    )
    return figure(
        [heatmap],
        dark=dark,
        xaxis=budget_ticks(budgets[:-1], range(size), title={"text": "smaller budget"}, showgrid=False),
        yaxis=budget_ticks(budgets[1:], range(size), title={"text": "larger budget"}, showgrid=False),
    )


def draw_survival(history: History, dark: bool = False) -> Figure:
    """Draw the losses of each configuration from budget to budget."""
    found = [path for path in paths(history) if path.losses]
    if not found:
        return no_losses(history, dark)
    best = sorted(range(len(found)), key=lambda i: (-found[i].budgets[-1], found[i].losses[-1]))[:MOST_LINES]
    kept = [found[i] for i in thinned(len(found), 2 * MOST_LINES, np.array(best)).tolist()]
    axis = loss_axis(history.goals, [loss for path in found for loss in path.losses])
    traces = [
        _lines(axis, mine, f"reached budget {budget:g}", colour, "budget")
        for budget, colour in budget_colours([path.budgets[-1] for path in found]).items()
        if (mine := [_points(path) for path in kept if path.budgets[-1] == budget])
    ]
    traces.append(_triangles(axis, [_points(path) for path in found]))
    budgets = sorted({budget for path in found for budget in path.budgets})
    kind = "log" if budgets[-1] > 3 * budgets[0] else "linear"
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=left_out(len(kept), len(found), "configurations"),
        xaxis=budget_ticks(budgets, budgets, title={"text": "budget"}, type=kind),
    )


def draw_curves(history: History, dark: bool = False) -> Figure:
    """Draw the learning curves that objectives reported."""
    found = curves(history)
    if not found:
        message = "No learning curve was reported; call trial.report(step, …) in the objective to see one"
        return empty(message, dark) if history.outcomes else no_losses(history, dark)
    losses = [np.inf if curve.loss is None else curve.loss for curve in found]
    best = sorted(range(len(found)), key=lambda i: (-found[i].budget, losses[i]))[:40]
    kept = [found[i] for i in thinned(len(found), MOST_LINES // 2, np.array(best)).tolist()]
    lines = [(curve.budget, _reported(curve, history.goals)) for curve in kept]
    axis = loss_axis(history.goals, [loss for _, line in lines for loss in line[1]], "reported {}")
    traces = [
        _lines(axis, mine, f"budget {budget:g}", colour, "step", dots=any(len(steps) == 1 for steps, _, _ in mine))
        for budget, colour in budget_colours([curve.budget for curve in found]).items()
        if (mine := [line for budget_of, line in lines if budget_of == budget])
    ]
    traces.append(_triangles(axis, [line for _, line in lines]))
    return figure(
        traces,
        dark=dark,
        losses=axis,
        notes=left_out(len(kept), len(found), "curves"),
        xaxis={"title": {"text": "reported step"}},
    )


def _sentence(row: Correlation) -> str:
    head = f"budgets {row.low:g} and {row.high:g}<br>{row.n} configurations on both"
    if row.rho is None:
        return f"{head}<br>too few for a correlation"
    interval = "" if row.interval is None else f" (95 %: {row.interval[0]:.2f} to {row.interval[1]:.2f})"
    return f"{head}<br>ρ = {row.rho:.3f}{interval}"


def _points(path: Path) -> Points:
    return path.budgets, path.losses, path.numbers


def _reported(curve: Curve, goals: Goals) -> Points:
    """Return the points of a learning curve, of a long one only some; a score counts as its negative."""
    chosen = thinned(len(curve.steps), _CURVE_POINTS).tolist()
    losses = [goals.minimised(curve.losses[i]) for i in chosen]
    return [curve.steps[i] for i in chosen], losses, [curve.number] * len(chosen)


def _lines(axis: LossAxis, lines: list[Points], name: str, colour: str, unit: str, dots: bool = True) -> Any:
    """Return several lines as one trace, with a gap after each."""
    gap = (np.nan,)
    x, losses, numbers = (np.concatenate([(*line[part], *gap) for line in lines]) for part in range(3))
    return go.Scatter(
        x=x,
        y=axis.place(losses).astype(np.float32),
        customdata=np.column_stack([numbers, axis.values(losses)]),
        mode="lines+markers" if dots else "lines",
        name=name,
        opacity=0.75,
        line={"color": colour, "width": 1.2},
        marker={"size": 4, "color": colour},
        hovertemplate=(
            f"trial %{{customdata[0]}}<br>{unit} %{{x:~g}}<br>{axis.name} %{{customdata[1]:.6g}}<br>{name}"
            "<extra></extra>"
        ),
    )


def _triangles(axis: LossAxis, lines: list[Points]) -> Any:
    x, losses, numbers = ([value for line in lines for value in line[part]] for part in range(3))
    return axis.triangles(x, losses, [int(number) for number in numbers])
