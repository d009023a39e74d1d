"""Valleys of the loss at several sizes, the path of their optimum, and the recommendation for another size."""

from __future__ import annotations

from typing import Any

from bohb.analysis.extrapolation import Extrapolation
from bohb.plots.axis import figure
from bohb.plots.theme import BLUE, GREY, Figure, budget_colours, go, label
from bohb.units import number

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
            at = [run for run in found.runs if name in run.config and _same(run.scale, size)]
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
            "line": {"color": GREY, "dash": "dot"},
            "marker": {"symbol": "x", "size": 8},
        }
        path, losses = list(moving.path), [*found.losses, found.loss]
        traces.append(go.Scatter(x=path, y=losses, name="optimum", showlegend=not i, **optimum, **axes))
        low, high = found.config_intervals[name]
        bars = {"error_x": _bar(path[-1], low, high), "error_y": _bar(found.loss, *found.loss_interval)}
        target = {"color": BLUE, "size": 12, "symbol": "star"}
        traces.append(
            go.Scatter(
                x=path[-1:], y=[found.loss], mode="markers", marker=target, name="recommended", showlegend=not i,
                **bars, **axes,
            )
        )  # fmt: skip
    layout["yaxis"]["title"] = "loss"
    return figure(traces, dark=dark, height=480, **layout)


def _same(one: Any, other: Any) -> bool:
    return all(abs(one[name] / other[name] - 1) < 1e-6 for name in other)


def _bar(at: float, low: float, high: float) -> dict[str, Any]:
    return {"type": "data", "symmetric": False, "array": [high - at], "arrayminus": [at - low], "color": BLUE}
