"""All plots, each with how to read it, drawn as they come into view."""

from __future__ import annotations

from bohb.dashboard.layout import Page, figure
from bohb.dashboard.markup import el, markup, short
from bohb.dashboard.studies import View
from bohb.dashboard.words import link_to
from bohb.plots import PLOTS


def plots_page(view: View, now: float) -> Page:
    """Every plot there is."""
    links = [el("li", el("a", plot.title, href=f"#{key}")) for key, plot in PLOTS.items()]
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
    contents = el("nav", el("ul", links), aria_label="Plots on this page", class_="contents")
    return Page(
        f"Plots of {short(view.name, 100)}",
        markup(contents, el("div", figures, class_="figures")),
        study=view.name,
        tab="Plots",
        version_url=link_to("/api/version", study=view.name),
        version=str(view.version),
        now=now,
        figures=True,
        heading=el("h1", "Plots"),
    )
