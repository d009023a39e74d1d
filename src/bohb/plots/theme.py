"""The look of all figures: colours that readers can distinguish, on light and dark pages and if colour-blind.

The colours of the data are the same in both themes; only the template differs. A page can therefore switch a figure
between light and dark by exchanging `layout.template`.

This is the only module that imports plotly.

No figure in two dimensions uses WebGL: these traces compile code at run time, which a strict content security policy
forbids, and browsers allow only a few of them per page. Large studies are thinned out instead (`thinned`).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bohb.core.trial import Origin, Status
from bohb.errors import MissingExtra, install_hint

try:
    import plotly.graph_objects
    from plotly.graph_objects import Figure as Figure
    from plotly.offline import get_plotlyjs as get_plotlyjs
except ImportError as error:
    raise MissingExtra(f"plots and reports need plotly: {install_hint('plot')}") from error

go = plotly.graph_objects
# The options for Plotly.newPlot: no link to another site and only useful buttons.
CONFIG: dict[str, Any] = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
# After Okabe and Ito (2008), changed so that every colour has a contrast of about 3 or more on both backgrounds.
BLUE, ORANGE, GREEN, PINK, GREY = "#2a80c2", "#d9730d", "#0f9d74", "#c4619a", "#8a8f98"
GOOD, BAD = BLUE, ORANGE
COLOURS = (BLUE, ORANGE, GREEN, PINK, "#7d6bc4", "#b8860b")  # of things without an order, such as studies
ORIGINS = {Origin.RANDOM: ORANGE, Origin.MODEL: BLUE, Origin.GIVEN: GREEN, Origin.PROMOTED: PINK}
STATUSES = {
    Status.OK: BLUE,
    Status.DIVERGED: "#b8860b",
    Status.CRASHED: ORANGE,
    Status.TIMEOUT: PINK,
    Status.MEMORY: "#7d6bc4",
    Status.DEVICE_MEMORY: "#5b8f3a",
    Status.BAD_RESULT: "#a0603c",
    Status.LOST: GREY,
}
RUNNING = GREEN
# From small budgets to large ones: blue to yellow, the direction that all common kinds of colour blindness keep.
_RAMP = ((61, 122, 190), (134, 101, 196), (198, 84, 148), (222, 100, 52), (212, 146, 10))
LOSS_SCALE = [[0.0, "#fde725"], [0.25, "#5ec962"], [0.5, "#21918c"], [0.75, "#3b528b"], [1.0, "#440154"]]
HEIGHT = 420
TRIALS = "trials"  # `meta` of traces whose custom data are trials, or rows that begin with one: they can be selected
MOST_POINTS = 4000  # markers per figure; more slow a browser down
MOST_LINES = 300


def template(dark: bool = False) -> Any:
    """Return the template of all figures, light or dark."""
    ground, ink, faint, grid = (
        ("#16191d", "#e6e8eb", "#a3a9b2", "#2c3138") if dark else ("#ffffff", "#1d2126", "#5b626b", "#e4e7eb")
    )
    axis = {
        "gridcolor": grid,
        "linecolor": faint,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": faint,
        "automargin": True,
        "title": {"standoff": 8},
    }
    solid = {"gridcolor": grid, "linecolor": faint, "backgroundcolor": ground, "showbackground": True}
    return go.layout.Template(
        layout={
            "paper_bgcolor": ground,
            "plot_bgcolor": ground,
            "font": {"family": "system-ui, -apple-system, 'Segoe UI', sans-serif", "size": 13, "color": ink},
            "title": {"font": {"size": 15}, "x": 0, "xref": "paper", "xanchor": "left"},
            "colorway": [*COLOURS, GREY],
            "colorscale": {"sequential": LOSS_SCALE},
            "xaxis": axis,
            "yaxis": axis,
            "scene": dict.fromkeys(("xaxis", "yaxis", "zaxis"), solid),
            "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "xanchor": "left", "x": 0},
            "margin": {"l": 56, "r": 16, "t": 40, "b": 48},
            "hoverlabel": {"bgcolor": ground, "bordercolor": faint, "font": {"color": ink}, "align": "left"},
            "annotationdefaults": {"font": {"color": ink}, "showarrow": False, "bgcolor": ground, "borderpad": 0},
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": faint, "activecolor": ink},
        }
    )


@cache
def templates() -> dict[str, Any]:
    """Return the light and the dark template for plotly's JavaScript."""
    return {name: template(dark).to_plotly_json() for name, dark in (("light", False), ("dark", True))}


def text_at(x: float, y: float, text: str, size: int, **layout: Any) -> dict[str, Any]:
    """Return an annotation; x and y are shares of the width and of the height of the plot."""
    place = {"x": x, "y": y, "xref": "paper", "yref": "paper", "yanchor": "bottom"}
    return {**place, "text": text, "font": {"size": size}, "showarrow": False, **layout}


def left_out(shown: int, total: int, what: str) -> list[str]:
    """Return a note about what a figure has no room for; empty if it shows everything."""
    return [f"{shown} of {total} {what} shown"] if shown < total else []


def ticks(names: Sequence[str], places: Sequence[float] | None = None, **layout: Any) -> dict[str, Any]:
    """Return an axis with these tick labels; default places: 0, 1, 2 …"""
    return {"tickvals": list(range(len(names)) if places is None else places), "ticktext": list(names), **layout}


def budget_ticks(budgets: Sequence[float], places: Sequence[float] | None = None, **layout: Any) -> dict[str, Any]:
    """Return an axis with budgets as tick labels."""
    return ticks([f"{budget:g}" for budget in budgets], places, **layout)


def marks(x: Any, y: Any, numbers: Any, name: str, hover: str, marker: dict[str, Any], **trace: Any) -> Any:
    """Return one marker per trial.

    numbers: the trials, or rows that begin with the trial and hold further values for the hover text.
    hover: the lines below the number of the trial in the hover text.
    """
    number = "%{customdata[0]}" if np.ndim(numbers) > 1 else "%{customdata}"
    return go.Scatter(
        x=x,
        y=y,
        customdata=np.asarray(numbers).tolist(),
        mode="markers",
        name=name,
        legendgroup=name,
        meta=TRIALS,
        marker=marker,
        hovertemplate=f"trial {number}<br>{hover}<extra></extra>",
        **trace,
    )


def label(text: object, most: int = 40) -> str:
    """Escape and shorten a user's text for a label; plotly interprets some HTML tags, and %{…} in hover templates."""
    words = " ".join(str(text).split())
    short = words if len(words) <= most else words[: most - 1] + "…"
    return html.escape(short, quote=False).replace("%", "&#37;").replace("$", "&#36;")


def budget_colours(budgets: Sequence[float]) -> dict[float, str]:
    """Return a colour for each budget, from the smallest to the largest."""
    ordered = sorted(set(budgets))
    where = np.linspace(0, len(_RAMP) - 1, len(ordered)) if len(ordered) > 1 else np.array([0.0])
    channels = [np.interp(where, range(len(_RAMP)), [colour[c] for colour in _RAMP]) for c in range(3)]
    rgb = np.rint(channels).astype(int).T.tolist()
    return {budget: f"rgb({r},{g},{b})" for budget, (r, g, b) in zip(ordered, rgb, strict=True)}


def thinned(n: int, most: int, keep: NDArray[np.intp] | None = None) -> NDArray[np.intp]:
    """Return the indices of at most `most` of n items: those in `keep`, and others evenly spaced."""
    if n <= most:
        return np.arange(n)
    kept = np.empty(0, dtype=np.intp) if keep is None else np.unique(keep)[:most]
    others = np.setdiff1d(np.arange(n), kept)
    room = most - len(kept)
    spaced = others[np.linspace(0, len(others) - 1, room).astype(np.intp)] if room else others[:0]
    return np.sort(np.concatenate([kept, spaced]))


def duration_unit(seconds: float) -> tuple[float, str]:
    """Return a divisor for seconds and the name of the unit, so that the numbers on an axis are readable."""
    for size, unit in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * size:
            return size, unit
    return 1.0, "seconds"
