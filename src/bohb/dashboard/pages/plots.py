"""The plots page: every plot with an explanation, drawn when it scrolls into view."""

from __future__ import annotations

from bohb.dashboard.layout import Page, figure, link_to, study_page
from bohb.dashboard.studies import View
from bohb.plots import PLOTS
from bohb.plots.markup import element, joined


def plots_page(view: View) -> Page:
    """Return the page with all plots of a study."""
    links = [element("li", element("a", plot.title, href=f"#{key}")) for key, plot in PLOTS.items()]
    figures = [
        figure(
            link_to("/api/figure", study=view.name, plot=key),
            plot.title,
            plot.explanation,
            id=key,
            class_="wide" if plot.wide else None,
        )
        for key, plot in PLOTS.items()
    ]
    contents = element("nav", element("ul", links), aria_label="Plots on this page", class_="contents")
    return study_page(view, "Plots", joined(contents, element("div", figures, class_="figures")), figures=True)
