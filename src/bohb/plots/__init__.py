"""A study as figures: one function per plot, `History -> plotly Figure`, and a report that holds them all.

    from bohb.plots import PLOTS, write_report
    PLOTS["trajectory"](study.history).show()
    write_report(study.history, "report.html")

Needs the extra `plot`. Names are imported on first use, so that the command line can offer the options without plotly.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bohb.plots.registry import PLOTS, Plot
    from bohb.plots.report import write_plot, write_report
    from bohb.plots.theme import CONFIG, template

_HOMES = {"CONFIG": "theme", "PLOTS": "registry", "Plot": "registry", "template": "theme", "write_plot": "report",
          "write_report": "report"}  # fmt: skip
__all__ = ["CONFIG", "PLOTS", "Plot", "template", "write_plot", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"bohb.plots.{_HOMES[name]}"), name)
