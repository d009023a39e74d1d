"""Draw figures: curves with a band of one standard error on logarithmic axes, one panel per problem."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLOURS = {
    "best": "#000000",
    "bohb": "#d62728",
    "hyperband": "#1f77b4",
    "random": "#7f7f7f",
    "tpe": "#2ca02c",
    "smac": "#9467bd",
    "gp-bo": "#8c564b",
    "hpbandster": "#ff7f0e",
    "hb-lcnet": "#17becf",
    "dehb": "#393b79",
    "optuna-tpe": "#2ca02c",
    "optuna-tpe-hyperband": "#98df8a",
    "hpbandster-preset": "#ffbb78",
    "bohb-one-budget": "#e7969c",
    "bracket-models": "#c49c94",
    "gp-budget": "#637939",
    "fabolas": "#bcbd22",
    "mtbo": "#e377c2",
    "ei": "#8c564b",
    "entropy search": "#5254a3",
}
LABELS = {
    "best": "BEST preset",
    "bohb": "BOHB",
    "hyperband": "Hyperband",
    "random": "random search",
    "tpe": "TPE",
    "smac": "SMAC",
    "gp-bo": "GP-BO",
    "hpbandster": "HpBandSter",
    "hpbandster-preset": "BOHB, HpBandSter preset",
    "bohb-one-budget": "BOHB, one budget",
    "bracket-models": "model per bracket (Wang et al.)",
    "gp-budget": "GP with budget (Bertrand et al.)",
    "hb-lcnet": "HB-LCNet",
    "dehb": "DEHB",
    "optuna-tpe": "Optuna TPE",
    "optuna-tpe-hyperband": "Optuna TPE + Hyperband",
    "optuna-gp": "Optuna GPSampler",
    "synetune-asha": "Syne Tune ASHA",
    "synetune-cqr": "Syne Tune ASHA-CQR",
    "neps-priorband": "NePS PriorBand",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """The curves of one problem: for each method x, mean and standard error, with None for missing values.

    dashed: curves that were not measured here.
    """

    title: str
    curves: Mapping[str, tuple[list[float], list[float | None], list[float | None]]]
    dashed: frozenset[str] = frozenset()


def draw(
    panels: list[Panel], path: Path, xlabel: str, ylabel: str, floor: float = 1e-6, own_legends: bool = False
) -> None:
    """Draw the panels side by side, up to four in a row; values below the floor are drawn on it.

    own_legends: whether each panel has its own legend; otherwise there is one for all.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    columns = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3 if len(panels) <= 6 else 4
    rows = math.ceil(len(panels) / columns)
    size = (6.4, 4.4) if len(panels) == 1 else (4.6 * columns, 3.4 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    flat = list(axes.flat)
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    for panel, axis in zip(panels, flat, strict=False):
        for name, curve in panel.curves.items():
            _curve(axis, name, curve, floor, name in panel.dashed, names)
        axis.set(xscale="log", yscale="log", title=panel.title)
        axis.set_xlabel(xlabel)
        axis.set_ylabel(ylabel)
        axis.grid(alpha=0.25, which="major")
    for axis in flat[len(panels) :]:
        axis.remove()
    if own_legends or len(panels) == 1:
        for axis in flat[: len(panels)]:
            axis.legend(fontsize=8)
    else:
        pairs = (zip(*axis.get_legend_handles_labels(), strict=True) for axis in flat[: len(panels)])
        lines = {label: line for panel_pairs in pairs for line, label in panel_pairs}
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _curve(axis: Any, name: str, curve: Any, floor: float, dashed: bool, names: list[str]) -> None:
    found = [(a, b, c or 0.0) for a, b, c in zip(*curve, strict=True) if b is not None]
    if not found:
        return
    x, mean, error = (list(column) for column in zip(*found, strict=True))
    colour = COLOURS.get(name, f"C{names.index(name) % 10}")
    style = "--" if dashed else "-"
    label = LABELS.get(name, name)
    axis.plot(x, [max(m, floor) for m in mean], style, color=colour, label=label, linewidth=1.5)
    low = [max(m - e, floor, m / 10) for m, e in zip(mean, error, strict=True)]
    high = [max(m + e, floor) for m, e in zip(mean, error, strict=True)]
    axis.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
