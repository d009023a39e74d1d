"""A study as figures: one function per plot, `History -> plotly Figure`, and a report that holds them all.

    from bohb.plots import PLOTS, write_report
    PLOTS["trajectory"](study.history).show()
    write_report(study.history, "report.html")

Needs the extra `plot`.
"""

from bohb.plots.registry import PLOTS, Plot
from bohb.plots.report import write_report
from bohb.plots.theme import CONFIG, template

__all__ = ["CONFIG", "PLOTS", "Plot", "template", "write_report"]
