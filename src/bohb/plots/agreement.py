"""The agreement of neighbouring budgets, and the brackets that an adaptive study chose from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bohb.analysis.agreement import BracketChoice, bracket_choices, rung_agreement
from bohb.core.adaptive.agreement import Agreement
from bohb.core.history import History
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

_MOST_BRACKETS = 200
_VERDICTS = {
    "published": (GREY, "circle-open", "as published"),
    "kept": (BLUE, "circle", "chosen: the smallest budget"),
    "raised": (ORANGE, "triangle-up", "chosen: raised"),
    "lowered": (GREEN, "triangle-down", "chosen: lowered"),
}


def draw_agreement(history: History, dark: bool = False) -> Figure:
    """Draw the corrected correlation of neighbouring budgets, and its course over time in an adaptive study."""
    if not any(outcome.ok for outcome in history.outcomes.values()):
        return no_losses(history, dark)
    known = rung_agreement(history)
    if not known:
        return empty("There is only one budget, so there is nothing to compare", dark)
    chosen = [row for row in bracket_choices(history) if not row.published]
    return _over_time(history, known, dark) if chosen else _now(known, dark)


def _now(known: Sequence[Agreement], dark: bool) -> Figure:
    bars = go.Scatter(
        x=list(range(len(known))),
        y=[row.rho for row in known],
        error_y=_error([(row.rho, *row.interval) for row in known]),
        mode="markers",
        marker={"color": BLUE, "size": 9},
        customdata=[row.shared for row in known],
        hovertemplate="ρ = %{y:.2f}<br>%{customdata} configurations on both<extra></extra>",
        showlegend=False,
    )
    names = [f"{row.low:g} and {row.high:g}<br>n = {row.shared}" for row in known]
    return figure(
        [bars],
        dark=dark,
        xaxis=ticks(names, title={"text": "budgets"}),
        yaxis={"title": {"text": "ρ"}, "range": [-1, 1.05]},
    )


def _over_time(history: History, known: Sequence[Agreement], dark: bool) -> Figure:
    rows = bracket_choices(history)
    kept = [rows[i] for i in thinned(len(rows), _MOST_BRACKETS).tolist()]
    pairs: dict[tuple[float, float], list[tuple[float, float, float, float, int]]] = {}
    for row in kept:
        for item in row.agreement:
            values = (row.index, item["rho"], *item["interval"], item["shared"])
            pairs.setdefault((item["low"], item["high"]), []).append(values)
    for now in known:
        values = (len(rows), now.rho, *now.interval, now.shared)
        pairs.setdefault((now.low, now.high), []).append(values)
    colours = budget_colours([low for low, _ in pairs])
    traces = [_pair(low, high, pairs[low, high], colours[low]) for low, high in sorted(pairs)]
    traces += [_starts(kept, verdict) for verdict in _VERDICTS]
    budgets = sorted({rung.budget for row in rows for rung in row.bracket.rungs})
    return figure(
        traces,
        dark=dark,
        height=520,
        xaxis={"title": {"text": "bracket (the last values are the current ones)"}, "anchor": "y2"},
        yaxis={"title": {"text": "agreement ρ"}, "range": [-1, 1.05], "domain": [0.42, 1]},
        yaxis2=budget_ticks(budgets, budgets, title={"text": "first budget"}, domain=[0, 0.34], type="log"),
        notes=left_out(len(kept), len(rows), "brackets"),
    )


def _pair(low: float, high: float, values: Sequence[tuple[float, float, float, float, int]], colour: str) -> Any:
    return go.Scatter(
        x=[index for index, *_ in values],
        y=[rho for _, rho, *_ in values],
        error_y=_error([(rho, bottom, top) for _, rho, bottom, top, _ in values]),
        customdata=[shared for *_, shared in values],
        mode="lines+markers",
        name=f"budgets {low:g} and {high:g}",
        line={"color": colour, "width": 1.5},
        marker={"color": colour, "size": 5},
        hovertemplate=f"budgets {low:g} and {high:g}<br>ρ = %{{y:.2f}}<br>%{{customdata}} on both<extra></extra>",
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


def _error(values: Sequence[tuple[float, float, float]]) -> dict[str, Any]:
    return {
        "type": "data",
        "symmetric": False,
        "array": [top - middle for middle, _, top in values],
        "arrayminus": [middle - bottom for middle, bottom, _ in values],
        "thickness": 1,
        "width": 3,
    }
