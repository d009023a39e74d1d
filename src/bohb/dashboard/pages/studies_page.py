"""The first page, with the studies of the journals and their state, and the page with studies side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bohb.analysis.compare import configurations_beside
from bohb.analysis.overview import Overview
from bohb.dashboard.layout import Page, ago, figure, link_to, moment, section
from bohb.dashboard.pages.parts import shown_best, study_state
from bohb.dashboard.studies import Entry, Snapshot
from bohb.plots.markup import Markup, element, joined, table
from bohb.plots.menus import row, scale_menu
from bohb.units import counted, duration, grouped, number, short

_COLUMNS: tuple[tuple[str, Callable[[Overview], str]], ...] = (
    ("Finished", lambda s: grouped(s.counts["finished"])),
    ("Failed", lambda s: grouped(s.counts["failed"])),
    ("Running", lambda s: grouped(s.counts["running"])),
    ("Configurations", lambda s: grouped(s.configurations)),
    ("Full evaluations", lambda s: number(s.cost, 4)),
    ("Run time", lambda s: duration(s.seconds)),
    ("Time in trials", lambda s: duration(s.busy)),
    ("Brackets complete", lambda s: grouped(s.finished_brackets)),
)


def studies_page(journals: list[str], entries: list[tuple[str, Entry | None]], version: str, now: float) -> Page:
    """Return the list of studies; a study that has not been read yet has no entry."""
    if not entries:
        main = element("p", "This journal has no study yet. A new study appears here by itself.", class_="lead")
    else:
        columns = ["Study", "State", "Best result", "Trials", "Failed", "Last activity", "Started"]
        body = [_row(name, entry, now) for name, entry in entries]
        compare = element("p", element("a", "Compare studies", href="/compare")) if len(entries) > 1 else None
        main = joined(table(columns, body, counted(len(entries), "study", "studies")), compare)
    names = [joined(", " if index else "", element("code", name, class_="user")) for index, name in enumerate(journals)]
    where = element("p", "In the journal " if len(names) == 1 else "In the journals ", names, class_="lead")
    return Page("Studies", joined(where, main), version_url="/api/version", version=version)


def _row(name: str, entry: Entry | None, now: float) -> list[object]:
    link = element("a", short(name, 80), href=link_to("/study", study=name), class_="user", title=name)
    if entry is None:
        return [link, element("td", "reading …", colspan="6", class_="quiet")]
    if entry.trouble:
        return [link, element("td", short(entry.trouble, 300), colspan="6", class_="trouble")]
    return [
        link,
        study_state(entry.trials),
        element("td", entry.best, class_="values user"),
        grouped(entry.trials["started"]),
        grouped(entry.trials["failed"]),
        ago(entry.last_event, now),
        moment(entry.started),
    ]


def compare_page(names: list[str], views: list[Snapshot]) -> Page:
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


def joint_version(views: Sequence[Snapshot]) -> str:
    """Return a text that changes whenever one of these studies does."""
    return "-".join(str(view.version) for view in views)


def _form(names: list[str], views: list[Snapshot]) -> Markup:
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


def _figures(views: list[Snapshot]) -> Markup:
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


def _summaries(views: list[Snapshot]) -> Markup:
    rows = [
        [
            _link(view),
            element("td", shown_best(view.history.goals, view.history.incumbent), class_="values"),
            *(value(view.overview) for _, value in _COLUMNS),
        ]
        for view in views
    ]
    columns = ["Study", "Best result", *(title for title, _ in _COLUMNS)]
    return section("Summary", table(columns, rows, "The studies in numbers", class_="pinned"))


def _configurations(views: list[Snapshot]) -> Markup:
    rows = [
        [
            element("th", short(name, 60), scope="row", class_="user"),
            *(element("td", short(value, 200), class_="user") for value in values),
        ]
        for name, *values in configurations_beside([view.overview for view in views])
    ]
    if not rows:
        return section("Best configurations", element("p", "No study has a result yet.", class_="quiet"))
    columns = ["", *(_link(view) for view in views)]
    listing = table(columns, rows, "The best configuration of each study", class_="narrow pinned")
    return section("Best configurations", listing)


def _link(view: Snapshot) -> Markup:
    return element("a", short(view.name, 40), href=link_to("/study", study=view.name), class_="user")
