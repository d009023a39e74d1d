"""A study in a notebook: as HTML, and its trials as a data frame."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from bohb.analysis.overview import Overview
from bohb.analysis.trials import floats, one_type, table
from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.results import Result
from bohb.errors import MissingExtra
from bohb.units import number

_WIDTH, _HEIGHT, _MARGIN = 320, 90, 14
_LEAST = 0.01  # share of a loss by which it must change to be drawn in full height


def study_html(seen: Overview, stopped: str = "") -> str:
    """Return a study as a table, and how the best loss fell."""
    cell = "<td style='text-align:left;vertical-align:top;padding-right:1em'>"
    rows = "".join(
        f"<tr>{cell}<b>{label}</b></td>{cell}{escape(text)}</td></tr>" for label, text in seen.rows(stopped=stopped)
    )
    history = seen.history
    return f"<div><table>{rows}</table>{trajectory_svg(history.trajectory, len(history.trials), history.goals)}</div>"


def heights(losses: Sequence[float]) -> list[float]:
    """Return the heights of a curve of losses, from 0 to 1; logarithmic if all are positive, so that late steps show.

    A change that could not be seen in the numbers is not drawn as a cliff.
    """
    log = min(losses) > 0
    scaled = [math.log(loss) if log else loss for loss in losses]
    low, high = min(scaled), max(scaled)
    span = max(high - low, _LEAST if log else _LEAST * max(abs(low), abs(high)))
    return [(height - low) / span if span else 0.0 for height in scaled]


def trajectory_svg(trajectory: Iterable[Result], n_trials: int, goals: Goals = PLAIN) -> str:
    """Draw the best loss on the largest budget by trial as a step line; empty with fewer than two incumbents."""
    incumbents = list(trajectory)
    steps = [(r.trial.number, goals.shown(r.loss)) for r in incumbents if r.budget == incumbents[-1].budget]
    if len(steps) < 2:
        return ""
    last = max(n_trials - 1, steps[-1][0], 1)
    xs = [_MARGIN + (_WIDTH - 2 * _MARGIN) * at / last for at, _ in steps] + [_WIDTH - _MARGIN]
    ys = [_MARGIN + (_HEIGHT - 2 * _MARGIN) * (1 - share) for share in heights([loss for _, loss in steps])]
    path = f"M{xs[0]:.1f},{ys[0]:.1f}" + "".join(
        f"H{x:.1f}V{y:.1f}" for x, y in zip(xs[1:], [*ys[1:], ys[-1]], strict=True)
    )
    text = "font-family='sans-serif' font-size='10' fill='#666'"
    return (
        f"<svg width='{_WIDTH}' height='{_HEIGHT}' viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img'>"
        f"<title>best {escape(goals.label)} by trial</title>"
        f"<path d='{path}' fill='none' stroke='#0072b2' stroke-width='1.5'/>"
        f"<text x='{_MARGIN}' y='10' {text}>{number(steps[0][1])}</text>"
        f"<text x='{_WIDTH - _MARGIN}' y='{_HEIGHT - 2}' text-anchor='end' {text}>"
        f"{number(steps[-1][1])} on budget {incumbents[-1].budget:g}, {n_trials} trials</text></svg>"
    )


def trials_frame(history: History) -> Any:
    """Return one row per trial as a pandas.DataFrame, or a polars.DataFrame if pandas is not installed."""
    columns = table(history, history.trials)
    numbers = floats(history)
    pandas = _installed("pandas")
    if pandas is not None:
        return pandas.DataFrame(columns).astype(dict.fromkeys(numbers, float))
    polars = _installed("polars")
    if polars is not None:
        typed = {name: one_type(values) for name, values in columns.items()}
        return polars.DataFrame(typed, schema_overrides=dict.fromkeys(numbers, polars.Float64))
    raise MissingExtra("to_dataframe needs the package 'pandas' or 'polars': pip install pandas")


def _installed(package: str) -> Any:
    """Import a package; None if it is not installed."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:  # it is installed, and lacks something itself
            raise
        return None
