"""Two studies side by side."""

from __future__ import annotations

from collections.abc import Callable

from bohb.analysis.summary import Summary
from bohb.dashboard.layout import Page, figure, section, table
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.studies import View
from bohb.dashboard.words import DASH, duration, link_to, number

_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("Best loss", lambda s: DASH if s.incumbent is None else number(s.incumbent.loss)),
    ("… on budget", lambda s: DASH if s.incumbent is None else number(s.incumbent.budget)),
    ("Trials finished", lambda s: f"{s.finished:,}"),
    ("Trials failed", lambda s: f"{s.failed:,}"),
    ("Trials running", lambda s: f"{s.running:,}"),
    ("Configurations", lambda s: f"{s.configurations:,}"),
    ("Budget spent (full evaluations)", lambda s: number(s.spent_continued, 4)),
    ("Time at work", lambda s: duration(s.seconds)),
    ("Time in trials, all workers", lambda s: duration(s.busy)),
    ("Brackets complete", lambda s: f"{s.brackets_done:,}"),
)


def compare_page(names: list[str], a: View | None, b: View | None, now: float) -> Page:
    """The form, and under it both studies if both are chosen."""
    parts: list[Html] = [_form(names, a, b)]
    if len(names) < 2:
        parts.append(el("p", "This journal has one study; there is nothing to compare it with yet.", class_="lead"))
    elif a is None or b is None:
        parts.append(el("p", "Choose two studies.", class_="lead"))
    else:
        parts += [_figures(a, b), _summaries(a, b), _configurations(a, b)]
    both = a is not None and b is not None
    return Page(
        "Compare two studies",
        markup(parts),
        study=a.name if a else None,
        tab="Compare",
        version_url=link_to("/api/version", study=a.name, other=b.name) if a and b else None,
        version=f"{a.version}-{b.version}" if a and b else "",
        now=now,
        figures=both,
    )


def _form(names: list[str], a: View | None, b: View | None) -> Html:
    fields = [_choice(label, key, names, view) for label, key, view in (("First", "a", a), ("Second", "b", b))]
    button = el("div", el("button", "Compare", type="submit"), class_="field")
    return el("form", fields, button, action="/compare", method="get", class_="filters", data_keep=True)


def _choice(label: str, key: str, names: list[str], view: View | None) -> Html:
    chosen = None if view is None else view.name
    options = [el("option", "choose …", value="")]
    options += [el("option", short(name, 60), value=name, selected=name == chosen) for name in names]
    return el("div", el("label", label, for_=key), el("select", options, name=key, id=key), class_="field")


def _figures(a: View, b: View) -> Html:
    plots = [
        figure(link_to("/api/compare", a=a.name, b=b.name, over=over), title, height=380)
        for over, title in (("cost", "Best loss over budget spent"), ("time", "Best loss over time at work"))
    ]
    return el("div", plots, class_="halves")


def _summaries(a: View, b: View) -> Html:
    rows: list[list[object]] = [
        [el("th", label, scope="row"), value(a.summary), value(b.summary)] for label, value in _ROWS
    ]
    columns: list[object] = ["", *(el("th", _link(view), scope="col") for view in (a, b))]
    return section("Side by side", table("Both studies in numbers", columns, rows, class_="narrow"))


def _configurations(a: View, b: View) -> Html:
    best = [{} if view.history.incumbent is None else view.history.incumbent.config for view in (a, b)]
    names = list(dict.fromkeys([*best[0], *best[1]]))
    rows: list[list[object]] = [
        [
            el("th", short(name, 60), scope="row", class_="user"),
            *(el("td", short(config.get(name, DASH), 200), class_="user") for config in best),
        ]
        for name in names
    ]
    columns: list[object] = ["", *(el("th", short(view.name, 40), scope="col", class_="user") for view in (a, b))]
    if not rows:
        return section("Best configurations", el("p", "Neither study has a result yet.", class_="quiet"))
    return section("Best configurations", table("The best configuration of each", columns, rows, class_="narrow"))


def _link(view: View) -> Html:
    return el("a", short(view.name, 40), href=link_to("/study", study=view.name), class_="user")
