"""How results on small budgets relate to large ones: correlations of budgets, and losses from budget to budget."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from bohb.analysis.agreement import BracketChoice, Correlation, bracket_choices, correlations
from bohb.analysis.axes import Array
from bohb.analysis.lineage import Line, curves, paths
from bohb.core.history import History
from bohb.plots import theme
from bohb.plots.axis import LossAxis, empty, figure, no_losses
from bohb.plots.theme import Figure, budget_colours, budget_ticks, go, left_out, thinned

_CURVE_POINTS = 200
_DIVERGING = [[0.0, "#e8964a"], [0.5, "#f2f2f2"], [1.0, "#5aa5de"]]  # light enough for dark text everywhere
_MOST_BRACKETS = 200
_MOST_NAMED = 12  # selected lines with an entry in the legend
_VERDICTS = {
    "published": (theme.GREY, "circle-open", "as published"),
    "skips": (theme.ORANGE, "triangle-up-open", "without lower rungs"),
    "repeated": (theme.GREY, "circle", "repeated while unfinished"),
}


def draw_correlation(history: History, pairs: str = "all") -> Figure:
    """Draw how well the losses on two budgets agree.

    pairs: "all" for Spearman's ρ of each pair of budgets, with the number of configurations that have both; "brackets"
        for what brackets were chosen by in an informed study.
    """
    if not any(outcome.ok for outcome in history.outcomes.values()):
        return no_losses(history)
    if pairs == "brackets":
        known = bracket_choices(history)
        chosen = any(choice.to_top for choice in known)
        return _over_time(known) if chosen else empty("No bracket of this study was chosen by the worth of its budgets")
    rows = [row for row in correlations(history) if row.n > 0]
    if not rows:
        return empty("No configuration has a result on two budgets yet")
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
        xaxis=budget_ticks(budgets[:-1], range(size), title={"text": "smaller budget"}, showgrid=False),
        yaxis=budget_ticks(budgets[1:], range(size), title={"text": "larger budget"}, showgrid=False),
    )


def _sentence(row: Correlation) -> str:
    head = f"budgets {row.low:g} and {row.high:g}<br>{row.n} configurations on both"
    if row.rho is None:
        return f"{head}<br>too few for a correlation"
    interval = "" if row.interval is None else f" (95 %: {row.interval[0]:.2f} to {row.interval[1]:.2f})"
    return f"{head}<br>ρ = {row.rho:.3f}{interval}"


def _to_top(rows: Sequence[BracketChoice]) -> list[Any]:
    """Return what the process of an informed study expected of each smaller budget when a bracket opened."""
    courses: dict[float, tuple[list[int], list[float]]] = {}
    for row in rows:
        for budget, rho in zip(row.starts, row.to_top, strict=False):
            x, y = courses.setdefault(budget, ([], []))
            x.append(row.index)
            y.append(rho)
    colours = budget_colours(list(courses))
    return [
        go.Scatter(
            x=x,
            y=y,
            name=f"budget {budget:g}",
            mode="lines+markers",
            line={"color": colours[budget], "width": 1.5},
            marker={"color": colours[budget], "size": 5},
            hovertemplate=f"bracket %{{x}}, budget {budget:g}: %{{y:.2f}}<extra></extra>",
        )
        for budget, (x, y) in sorted(courses.items())
    ]


def _over_time(rows: Sequence[BracketChoice]) -> Figure:
    """Draw what the process of an informed study expected over brackets, and below it where the brackets start."""
    kept = [rows[i] for i in thinned(len(rows), _MOST_BRACKETS).tolist()]
    traces = [*_to_top(kept), *(_starts(kept, verdict) for verdict in _VERDICTS)]
    budgets = sorted({rung.budget for row in rows for rung in row.bracket.rungs})
    return figure(
        traces,
        height=520,
        xaxis={"title": {"text": "bracket"}, "anchor": "y2"},
        yaxis={"title": {"text": "correlation with<br>the largest budget"}, "range": [-1, 1.05], "domain": [0.42, 1]},
        yaxis2=budget_ticks(budgets, budgets, title={"text": "first budget"}, domain=[0, 0.34], type="log"),
        notes=left_out(len(kept), len(rows), "brackets"),
    )


def _starts(rows: Sequence[BracketChoice], verdict: str) -> Any:
    """Return marks where the brackets of one kind start; None if there are none."""
    mine = [row for row in rows if row.verdict == verdict]
    if not mine:
        return None
    colour, symbol, name = _VERDICTS[verdict]
    return go.Scatter(
        x=[row.index for row in mine],
        y=[row.start for row in mine],
        yaxis="y2",
        mode="markers",
        name=name,
        marker={"color": colour, "symbol": symbol, "size": 9, "line": {"color": colour, "width": 2}},
        customdata=[_hover(row) for row in mine],
        hovertemplate="bracket %{x}: %{customdata}<extra></extra>",
    )


def _hover(row: BracketChoice) -> str:
    sizes = " → ".join(f"{rung.size} on {rung.budget:g}" for rung in row.bracket.rungs)
    gains = "".join(f"<br>from {b:g}: {gain:.2f}" for b, gain in zip(row.starts, row.gains, strict=True))
    return sizes + (f"<br>expected gain{gains}" if gains else "")


def draw_curves(history: History, along: str = "budgets") -> Figure:
    """Draw losses as lines.

    along: "budgets" for the losses of each configuration from budget to budget; "steps" for the learning curves that
        objectives reported.
    """
    steps, unit = along == "steps", "step" if along == "steps" else "budget"
    found = _reported(history) if steps else paths(history)
    if not found:
        message = "No learning curve was reported; call trial.report(step, …) in the objective to see one"
        return empty(message) if steps and history.outcomes else no_losses(history)
    most = theme.MOST_LINES if steps else 2 * theme.MOST_LINES
    last = np.nan_to_num([line.losses[-1] for line in found], nan=np.inf)
    best = np.lexsort((last, np.array([-line.budget for line in found])))[: most // 2]
    kept = [found[i] for i in thinned(len(found), most, best).tolist()]
    axis = LossAxis(history.goals, [loss for line in kept for loss in line.losses], "reported {}" if steps else "{}")
    traces = [
        _lines(axis, mine, f"budget {budget:g}" if steps else f"reached budget {budget:g}", colour, unit)
        for budget, colour in budget_colours([line.budget for line in found]).items()
        if (mine := [line for line in kept if line.budget == budget])
    ]
    x, losses, numbers = _columns(kept)
    traces.append(axis.triangles(x, losses, numbers.astype(int).tolist()))
    notes = left_out(len(kept), len(found), "curves" if steps else "configurations")
    across: dict[str, Any] = {"title": {"text": "reported step"}}
    if not steps:
        budgets = sorted(set(x.tolist()))
        kind = "log" if budgets[-1] > 3 * budgets[0] else "linear"
        across = budget_ticks(budgets, budgets, title={"text": "budget"}, type=kind)
    return figure(traces, losses=axis, notes=notes, xaxis=across)


def draw_selected(history: History, numbers: Sequence[int]) -> Figure:
    """Draw some trials over each other: learning curves, or the results of their configurations from budget to budget.

    Each configuration has a colour; a single one has a colour for each budget.
    """
    chosen = list(dict.fromkeys(history.trials[n].config_id for n in numbers))
    reported = [line for line in _reported(history) if _config(history, line) in chosen]
    found = reported or [line for line in paths(history) if _config(history, line) in chosen]
    if not found:
        return empty("No trial is selected" if not numbers else "The selected trials have no results yet")
    axis = LossAxis(history.goals, [y for line in found for y in line.losses], "reported {}" if reported else "{}")
    shades = budget_colours([line.budget for line in found])
    colours = dict(zip(chosen, itertools.cycle(theme.COLOURS), strict=False))
    traces: list[Any] = []
    for line in sorted(found, key=lambda line: (chosen.index(_config(history, line)), line.budget)):
        config = _config(history, line)
        colour, own = colours[config] if len(chosen) > 1 else shades[line.budget], line.numbers[-1] in numbers
        name = f"trial {line.numbers[-1]}, budget {line.budget:g}" + ("" if own else " (same configuration)")
        traces.append(_lines(axis, [line], name, colour, "step" if reported else "budget"))
        named = own or len(chosen) == 1 or not reported  # the colour says to which trial the others belong
        look = {"width": 2.5 if own else 1.2, "dash": "solid" if own else "dot"}
        traces[-1].update(legendgroup=f"{config}", line=look, showlegend=named and len(found) <= _MOST_NAMED)
        traces.append(_end(axis, line, colour))
        traces.append(axis.triangles(line.x, line.losses, list(line.numbers)))
    across = {"title": {"text": "reported step" if reported else "budget"}}
    without = len(chosen) - len({_config(history, line) for line in found})
    notes = [f"{without} of {len(chosen)} configurations have nothing to show"] if without else []
    return figure(traces, losses=axis, notes=notes, xaxis=across)


def _config(history: History, line: Line) -> int:
    return history.trials[line.numbers[-1]].config_id


def _end(axis: LossAxis, line: Line, colour: str) -> Any:
    """Return the mark at the end of a line, labelled with its budget."""
    return go.Scatter(
        x=[line.x[-1]],
        y=axis.place(line.losses[-1:]),
        customdata=[line.numbers[-1]],
        meta=theme.TRIALS,
        text=[f"{line.budget:g}"],
        mode="markers+text",
        textposition="top center",
        marker={"size": 8, "color": colour},
        showlegend=False,
        hoverinfo="skip",
        cliponaxis=False,  # a label may stand above the plot
    )


def _reported(history: History) -> list[Line]:
    """Return the learning curves, of a long one only some points."""
    found = []
    for line in curves(history):
        chosen = thinned(len(line.x), _CURVE_POINTS).tolist()
        found.append(Line(line.budget, *([of[i] for i in chosen] for of in (line.x, line.losses, line.numbers))))
    return found


def _columns(lines: Sequence[Line], gap: tuple[float, ...] = ()) -> tuple[Array, Array, Array]:
    """Return places, losses and trials of all points, with a gap after each line."""
    x, losses, numbers = (
        np.concatenate([(*getattr(line, name), *gap) for line in lines]) for name in ("x", "losses", "numbers")
    )
    return x, losses, numbers


def _lines(axis: LossAxis, lines: list[Line], name: str, colour: str, unit: str) -> Any:
    """Return several lines as one trace; lines of steps have dots only if one of them is a single point."""
    x, losses, numbers = _columns(lines, (np.nan,))
    dots = unit == "budget" or any(len(line.x) == 1 for line in lines)
    return go.Scatter(
        x=x,
        y=axis.place(losses),
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
