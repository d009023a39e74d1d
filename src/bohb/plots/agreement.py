"""The agreement of neighbouring budgets, and the brackets that a study chose instead of Hyperband's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from bohb.analysis.agreement import BracketChoice, bracket_choices, rung_agreement
from bohb.core.history import History
from bohb.core.schedule.correlations import Agreement
from bohb.plots.drawing import Figure, go
from bohb.plots.theme import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PINK,
    budget_colours,
    budget_ticks,
    empty,
    figure,
    left_out,
    no_losses,
    thinned,
    ticks,
)

Interval: TypeAlias = tuple[float, float, float, float, int]  # x, ρ, ends of its interval, configurations on both
_MOST_BRACKETS = 200
_VERDICTS = {
    "published": (GREY, "circle-open", "as published"),
    "kept": (BLUE, "circle", "chosen: the smallest budget"),
    "raised": (ORANGE, "triangle-up", "chosen: raised"),
    "lowered": (GREEN, "triangle-down", "chosen: lowered"),
    "skips": (ORANGE, "triangle-up-open", "without lower rungs"),
    "repeated": (GREY, "circle", "repeated while unfinished"),
}


def draw_agreement(history: History, dark: bool = False) -> Figure:
    """Draw the corrected correlation of neighbouring budgets, and the course of what brackets were chosen by."""
    if not any(outcome.ok for outcome in history.outcomes.values()):
        return no_losses(history, dark)
    known = rung_agreement(history)
    if not known:
        return empty("There is only one budget, so there is nothing to compare", dark)
    rows = bracket_choices(history)
    if any(row.to_top for row in rows):
        return _over_time(rows, _to_top(rows), "correlation with<br>the largest budget", dark)
    if any(not row.published for row in rows):
        return _over_time(rows, _neighbours(rows, known), "agreement ρ", dark)
    return _now(known, dark)


def _now(known: Sequence[Agreement], dark: bool) -> Figure:
    values = [(x, row.rho, *row.interval, row.shared) for x, row in enumerate(known)]
    bars = _intervals(values, "", mode="markers", marker={"color": BLUE, "size": 9}, showlegend=False)
    names = [f"{row.low:g} and {row.high:g}<br>n = {row.shared}" for row in known]
    return figure(
        [bars],
        dark=dark,
        xaxis=ticks(names, title={"text": "budgets"}),
        yaxis={"title": {"text": "ρ"}, "range": [-1, 1.05]},
    )


def _kept(rows: Sequence[BracketChoice]) -> list[BracketChoice]:
    return [rows[i] for i in thinned(len(rows), _MOST_BRACKETS).tolist()]


def _to_top(rows: Sequence[BracketChoice]) -> list[Any]:
    """Return what the process of an informed study expected of each smaller budget when a bracket opened."""
    courses: dict[float, tuple[list[int], list[float]]] = {}
    for row in _kept(rows):
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


def _neighbours(rows: Sequence[BracketChoice], known: Sequence[Agreement]) -> list[Any]:
    """Return the agreement of neighbouring budgets when the brackets of an adaptive study were chosen, and now."""
    pairs: dict[tuple[float, float], list[Interval]] = {}
    for row in _kept(rows):
        for item in row.agreement:
            values = (row.index, item["rho"], *item["interval"], item["shared"])
            pairs.setdefault((item["low"], item["high"]), []).append(values)
    for now in known:
        values = (len(rows), now.rho, *now.interval, now.shared)
        pairs.setdefault((now.low, now.high), []).append(values)
    colours = budget_colours([low for low, _ in pairs])
    return [
        _intervals(
            pairs[low, high],
            f"budgets {low:g} and {high:g}",
            mode="lines+markers",
            line={"color": colours[low], "width": 1.5},
            marker={"color": colours[low], "size": 5},
        )
        for low, high in sorted(pairs)
    ]


def _over_time(rows: Sequence[BracketChoice], courses: Sequence[Any], title: str, dark: bool) -> Figure:
    """Draw courses over brackets, and below them where the brackets start."""
    kept = _kept(rows)
    traces = [*courses, *(_starts(kept, verdict) for verdict in _VERDICTS)]
    budgets = sorted({rung.budget for row in rows for rung in row.bracket.rungs})
    return figure(
        traces,
        dark=dark,
        height=520,
        xaxis={"title": {"text": "bracket"}, "anchor": "y2"},
        yaxis={"title": {"text": title}, "range": [-1, 1.05], "domain": [0.42, 1]},
        yaxis2=budget_ticks(budgets, budgets, title={"text": "first budget"}, domain=[0, 0.34], type="log"),
        notes=left_out(len(kept), len(rows), "brackets"),
    )


def _intervals(values: Sequence[Interval], name: str, **trace: Any) -> Any:
    """Return correlations with their intervals."""
    x, rho, bottom, top, shared = (list(column) for column in zip(*values, strict=True))
    head = f"{name}<br>" if name else ""
    return go.Scatter(
        x=x,
        y=rho,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": np.subtract(top, rho),
            "arrayminus": np.subtract(rho, bottom),
            "thickness": 1,
            "width": 3,
        },
        customdata=shared,
        name=name,
        hovertemplate=f"{head}ρ = %{{y:.2f}}<br>%{{customdata}} configurations on both<extra></extra>",
        **trace,
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
        marker={
            "color": colour,
            "symbol": symbol,
            "size": 9,
            "line": {"color": [PINK if row.settled else colour for row in mine], "width": 2},
        },
        customdata=[_hover(row) for row in mine],
        hovertemplate="bracket %{x}: %{customdata}<extra></extra>",
    )


def _hover(row: BracketChoice) -> str:
    sizes = " → ".join(f"{rung.size} on {rung.budget:g}" for rung in row.bracket.rungs)
    gains = "".join(f"<br>from {b:g}: {gain:.2f}" for b, gain in zip(row.starts, row.gains, strict=True))
    return (
        sizes
        + (f"<br>expected gain{gains}" if gains else "")
        + ("<br>one configuration reaches the largest budget" if row.settled else "")
    )
