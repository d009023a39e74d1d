"""Two studies side by side."""

from __future__ import annotations

from collections.abc import Callable

from bohb.analysis.summary import Summary
from bohb.dashboard.layout import Page, figure, link_to, section
from bohb.dashboard.pages.parts import choice, loss_on_budget
from bohb.dashboard.studies import View
from bohb.plots.markup import Markup, element, joined, table
from bohb.units import DASH, duration, grouped, number, short

_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("Best loss", lambda s: loss_on_budget(s.incumbent)),
    ("Trials finished", lambda s: grouped(s.finished)),
    ("Trials failed", lambda s: grouped(s.failed)),
    ("Trials running", lambda s: grouped(s.running)),
    ("Configurations", lambda s: grouped(s.configurations)),
    ("Budget spent (full evaluations)", lambda s: number(s.spent_continued, 4)),
    ("Run time", lambda s: duration(s.seconds)),
    ("Time in trials, all workers", lambda s: duration(s.busy)),
    ("Brackets complete", lambda s: grouped(s.brackets_done)),
)


def compare_page(names: list[str], a: View | None, b: View | None) -> Page:
    """Return the form and, if two studies are chosen, their comparison."""
    parts: list[Markup] = [_form(names, a, b)]
    version_url, version = None, ""
    if len(names) < 2:
        parts.append(element("p", "This journal has only one study, so there is nothing to compare.", class_="lead"))
    elif a is None or b is None:
        parts.append(element("p", "Choose two studies.", class_="lead"))
    else:
        parts += [_figures(a, b), _summaries(a, b), _configurations(a, b)]
        version_url, version = link_to("/api/version", study=a.name, other=b.name), f"{a.version}-{b.version}"
    study = a.name if a else None
    return Page("Compare two studies", joined(parts), study, "Compare", version_url, version, version_url is not None)


def _form(names: list[str], a: View | None, b: View | None) -> Markup:
    fields = [
        choice(label, key, names, None if view is None else view.name, "choose …")
        for label, key, view in (("First", "a", a), ("Second", "b", b))
    ]
    button = element("div", element("button", "Compare", type="submit"), class_="field")
    return element("form", fields, button, action="/compare", method="get", class_="filters", data_keep=True)


def _figures(a: View, b: View) -> Markup:
    plots = [
        figure(link_to("/api/compare", a=a.name, b=b.name, over=over), title, height=380)
        for over, title in (("cost", "Best loss over budget spent"), ("time", "Best loss over run time"))
    ]
    return element("div", plots, class_="halves")


def _summaries(a: View, b: View) -> Markup:
    rows = [[label, value(a.summary), value(b.summary)] for label, value in _ROWS]
    return section("Summary", table(_columns(a, b), rows, "Both studies in numbers", class_="narrow"))


def _configurations(a: View, b: View) -> Markup:
    best = [{} if view.history.incumbent is None else view.history.incumbent.config for view in (a, b)]
    rows = [
        [
            element("th", short(name, 60), scope="row", class_="user"),
            *(element("td", short(config.get(name, DASH), 200), class_="user") for config in best),
        ]
        for name in {**best[0], **best[1]}
    ]
    if not rows:
        return section("Best configurations", element("p", "Neither study has a result yet.", class_="quiet"))
    listing = table(_columns(a, b), rows, "The best configuration of each study", class_="narrow")
    return section("Best configurations", listing)


def _columns(a: View, b: View) -> list[object]:
    links = [element("a", short(v.name, 40), href=link_to("/study", study=v.name), class_="user") for v in (a, b)]
    return ["", *links]
