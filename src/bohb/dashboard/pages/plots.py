"""The plots page: every plot with an explanation, drawn when it scrolls into view."""

from __future__ import annotations

from bohb.dashboard.layout import Page, figure, link_to, study_page
from bohb.dashboard.studies import View
from bohb.plots.markup import Markup, element, joined
from bohb.plots.menus import menus
from bohb.plots.registry import Plot, suitable


def plots_page(view: View) -> Page:
    """Return the page with all plots of a study, in groups."""
    groups = suitable(view.history)
    links = [
        element("li", element("strong", title), " ", [joined(_link(view, plot), " ") for plot in plots])
        for title, plots in groups.items()
    ]
    contents = element("nav", element("ul", links), aria_label="Plots on this page", class_="contents")
    return study_page(view, "Plots", joined(contents, [_group(view, *group) for group in groups.items()]), figures=True)


def _link(view: View, plot: Plot) -> Markup:
    return element("a", plot.texts(view.history)[0], href=f"#{plot.key}")


def _group(view: View, title: str, plots: list[Plot]) -> Markup:
    figures = [
        figure(
            link_to("/api/figure", study=view.name, plot=plot.key),
            *plot.texts(view.history),
            menus=menus(plot, plot.choices(view.history)),
            id=plot.key,
            class_="wide" if plot.wide else None,
        )
        for plot in plots
    ]
    return joined(element("h2", title, class_="group"), element("div", figures, class_="figures"))
