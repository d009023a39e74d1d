"""A study as HTML, for notebooks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape

from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.results import Result

_WIDTH, _HEIGHT, _MARGIN = 320, 90, 14


def study_html(history: History, summary: str) -> str:
    """Return the counts, the best configuration as a table, and how the best loss fell.

    summary: the study as text; its first line has the counts.
    """
    lines = [escape(line) for line in summary.splitlines()]
    best = history.incumbent
    if best is None:
        return f"<div>{'<br>'.join(lines)}</div>"
    what = escape(history.goals.described(best.loss, best.values))
    where = f"best {what} on budget {best.budget:g} (trial {best.trial.number}{best.caveat})"
    cell = "<td style='text-align:left'>"
    rows = "".join(
        f"<tr>{cell}{escape(name)}</td>{cell}{escape(repr(value))}</td></tr>" for name, value in best.config.items()
    )
    picture = trajectory_svg(history.trajectory, len(history.trials), history.goals)
    return f"<div>{lines[0]}<br><b>{where}</b><table>{rows}</table>{picture}</div>"


def trajectory_svg(trajectory: Iterable[Result], n_trials: int, goals: Goals = PLAIN) -> str:
    """Draw the best loss on the largest budget by trial as a step line; empty with fewer than two incumbents.

    The scale is logarithmic if all losses are positive.
    """
    incumbents = list(trajectory)
    steps = [(r.trial.number, goals.shown(r.loss)) for r in incumbents if r.budget == incumbents[-1].budget]
    if len(steps) < 2:
        return ""
    log = all(loss > 0 for _, loss in steps)
    heights = [math.log(loss) if log else loss for _, loss in steps]
    low, high = min(heights), max(heights)
    last = max(n_trials - 1, steps[-1][0], 1)
    xs = [_MARGIN + (_WIDTH - 2 * _MARGIN) * number / last for number, _ in steps] + [_WIDTH - _MARGIN]
    ys = [_MARGIN + (_HEIGHT - 2 * _MARGIN) * (high - h) / ((high - low) or 1.0) for h in heights]
    path = f"M{xs[0]:.1f},{ys[0]:.1f}" + "".join(
        f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:], [*ys[1:], ys[-1]], strict=True)
    )
    text = "font-family='sans-serif' font-size='10' fill='#666'"
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>"
        f"<title>best {escape(goals.label)} by trial</title>"
        f"<path d='{path}' fill='none' stroke='#0072b2' stroke-width='1.5'/>"
        f"<text x='{_MARGIN}' y='10' {text}>{steps[0][1]:.4g}</text>"
        f"<text x='{_WIDTH - _MARGIN}' y='{_HEIGHT - 2}' text-anchor='end' {text}>"
        f"{steps[-1][1]:.4g} on budget {incumbents[-1].budget:g}, {n_trials} trials</text></svg>"
    )
