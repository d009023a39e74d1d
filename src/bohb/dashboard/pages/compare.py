"""Studies side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bohb.analysis.summary import Summary
from bohb.dashboard.layout import Page, figure, link_to, section
from bohb.dashboard.pages.parts import loss_on_budget, value_text
from bohb.dashboard.studies import View
from bohb.plots.markup import Markup, element, joined, table
from bohb.plots.menus import row, scale_menu
from bohb.units import DASH, counted, duration, grouped, number, short

_COLUMNS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("Finished", lambda s: grouped(s.finished)),
    ("Failed", lambda s: grouped(s.failed)),
    ("Running", lambda s: grouped(s.running)),
    ("Configurations", lambda s: grouped(s.configurations)),
    ("Full evaluations", lambda s: number(s.spent_continued, 4)),
    ("Run time", lambda s: duration(s.seconds)),
    ("Time in trials", lambda s: duration(s.busy)),
    ("Brackets complete", lambda s: grouped(s.brackets_done)),
)


def compare_page(names: list[str], views: list[View]) -> Page:
    """Return the form and, if studies are chosen, their comparison."""
    parts: list[Markup] = [_form(names, views)]
    version_url = None
    if len(names) < 2:
        parts.append(element("p", "There is only one study, so there is nothing to compare.", class_="lead"))
    elif len(views) < 2:
        parts.append(element("p", "Choose at least two studies.", class_="lead"))
    else:
        parts += [_figures(views), _summaries(views), _configurations(views)]
        version_url = link_to("/api/version", study=[view.name for view in views])
    study = views[0].name if views else None
    version = joint_version(views) if version_url else ""
    return Page("Compare studies", joined(parts), study, "Compare", version_url, version, version_url is not None)


def joint_version(views: Sequence[View]) -> str:
    """Return a text that changes whenever one of these studies does."""
    return "-".join(str(view.version) for view in views)


def _form(names: list[str], views: list[View]) -> Markup:
    chosen = {view.name for view in views}
    boxes = [
        element(
            "label",
            element("input", type="checkbox", name="study", value=name, checked=name in chosen),
            element("span", short(name, 60), class_="user"),
        )
        for name in names
    ]
    legend = element("legend", counted(len(names), "study", "studies"))
    button = element("button", "Compare", type="submit")
    choices = element("fieldset", legend, element("div", boxes, class_="choices"))
    return element("form", choices, button, action="/compare", method="get", class_="filters", data_keep=True)


def _figures(views: list[View]) -> Markup:
    plots = [
        figure(
            link_to("/api/compare", study=[view.name for view in views], over=over),
            title,
            menus=row(scale_menu(over)),
            height=400,
        )
        for over, title in (("cost", "Best result over budget spent"), ("time", "Best result over run time"))
    ]
    return element("div", plots, class_="halves")


def _summaries(views: list[View]) -> Markup:
    rows = [
        [
            _link(view),
            element("td", loss_on_budget(view.history.goals, view.history.incumbent), class_="values"),
            *(value(view.summary) for _, value in _COLUMNS),
        ]
        for view in views
    ]
    columns = ["Study", "Best result", *(title for title, _ in _COLUMNS)]
    return section("Summary", table(columns, rows, "The studies in numbers", class_="pinned"))


def _configurations(views: list[View]) -> Markup:
    best = [{} if view.history.incumbent is None else view.history.incumbent.config for view in views]
    names = dict.fromkeys(name for config in best for name in config)
    rows = [
        [
            element("th", short(name, 60), scope="row", class_="user"),
            *(element("td", short(value_text(config.get(name, DASH)), 200), class_="user") for config in best),
        ]
        for name in names
    ]
    if not rows:
        return section("Best configurations", element("p", "No study has a result yet.", class_="quiet"))
    columns = ["", *(_link(view) for view in views)]
    listing = table(columns, rows, "The best configuration of each study", class_="narrow pinned")
    return section("Best configurations", listing)


def _link(view: View) -> Markup:
    return element("a", short(view.name, 40), href=link_to("/study", study=view.name), class_="user")
