"""What all pages share: head, navigation, footer, the elements they are built from, and how they are answered."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.types import Scope

from bohb._version import __version__
from bohb.dashboard.assets import href, map_style_id
from bohb.dashboard.studies import Snapshot
from bohb.plots.markup import Markup, element, joined
from bohb.units import DASH, duration, short

SAFE = ("GET", "HEAD")
_THEME = element("button", "Theme", type="button", id="theme", hidden=True, title="Light, dark or as the system")
_TABS = (("Overview", "/study"), ("Trials", "/trials"), ("Plots", "/plots"), ("Compare", "/compare"))


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    title: of the window and, without a `heading`, of the page.
    study: the study that the page is about, if any.
    tab: which of the study's pages this is.
    version_url, version: the address that tells whether something changed, and its answer when the page was made.
    figures: whether the page has any.
    """

    title: str
    main: Markup
    study: str | None = None
    tab: str = ""
    version_url: str | None = None
    version: str = ""
    figures: bool = False
    heading: Markup | None = None

    def render(self, now: float) -> bytes:
        """Return the page as bytes.

        now: the time of the server, which the page's script sets its clocks by.
        """
        brand = element("a", "bohb", href="/", class_="brand", aria_label="bohb: all studies")
        body = element(
            "body",
            element("a", "Skip to the content", href="#main", class_="skip"),
            element("header", brand, self._navigation(), _THEME, class_="site"),
            element("p", hidden=True, id="notice", role="status"),
            element("main", self.heading or element("h1", self.title), self.main, id="main", tabindex="-1"),
            element(
                "footer",
                f"bohb {__version__} · ",
                element("span", "no changes yet", id="freshness"),
            ),
            data_version_url=self.version_url,
            data_version=self.version,
            data_now=f"{now:.3f}",
        )
        return document(self.title, body, self.figures)

    def _navigation(self) -> Markup | None:
        if self.study is None:
            return None
        tabs = []
        for label, path in _TABS:
            address = link_to(path, study=self.study)
            current = "page" if label == self.tab else None
            tabs.append(element("li", element("a", label, href=address, aria_current=current)))
        name = element("span", short(self.study, 60), class_="study user", title=self.study)
        return joined(name, element("nav", element("ul", tabs), aria_label="Study"))


def study_page(view: Snapshot, tab: str, main: Markup, *, figures: bool = False, heading: Markup | None = None) -> Page:
    """Return a page about one study that is updated whenever the study changes."""
    address = link_to("/api/version", study=view.name)
    title = f"{tab} of {short(view.name, 100)}"
    return Page(title, main, view.name, tab, address, str(view.version), figures, heading or element("h1", tab))


def document(title: str, body: Markup, figures: bool = False) -> bytes:
    """Return a whole HTML document; unpaired surrogates, which a file name can have, become question marks."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("title", f"{short(title, 100)} · bohb"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("link", rel="icon", href=href("favicon.svg"), type="image/svg+xml"),
        element("link", rel="stylesheet", href=href("style.css")),
        element("script", src=href("theme.js")),  # before anything is drawn, so not deferred
        _plotly() if figures else None,
        element("script", src=href("live.js"), defer=True),
    )
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'.encode("utf-8", "replace")


def _plotly() -> Markup:
    """Load plotly.js, and the style sheet with the id that it would otherwise create against our policy."""
    return joined(
        element("link", rel="stylesheet", href=href("plotly.css"), id="plotly.js-style-global"),
        element("meta", name="no-maps", id=map_style_id()),
        element("script", src=href("brush.js"), defer=True),
        element("script", src=href("scale.js"), defer=True),
        element("script", src=href("figures.js"), defer=True, data_plotly=href("plotly.js")),
    )


def link_to(path: str, **query: object) -> str:
    """Return an address on this site. Study names are parameters, so that no name can act as a path.

    query: the parameters; a list repeats one.
    """
    given = {name.rstrip("_"): value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def section(title: str, *children: object, **attributes: object) -> Markup:
    """Return a part of a page under its own heading."""
    return element("section", element("h2", title), *children, **attributes)


def facts(rows: list[tuple[str, object]], **attributes: object) -> Markup:
    """Return labelled values."""
    items = [element("div", element("dt", label), element("dd", value)) for label, value in rows]
    return element("dl", items, class_="facts", **attributes)


def figure(
    url: str,
    title: str,
    note: object = None,
    *,
    menus: Markup | None = None,
    height: int | None = None,
    titled: bool = True,
    **attributes: object,
) -> Markup:
    """Return a placeholder for a plot, which the page's script draws when it scrolls into view.

    menus: choices that change the plot.
    height: in pixels; default: the plot's own.
    titled: whether the title is visible; screen readers always get it.
    """
    plot = element(
        "div",
        element("p", "Plots need JavaScript; the tables show the same numbers.", class_="quiet"),
        class_="plot",
        data_figure=url,
        data_height=height,
        data_keep=True,
        role="img",
        aria_label=title,
    )
    heading = element("h3", title) if titled else None
    explained = element("p", note, class_="note") if note else None
    return element("figure", heading, explained, menus, element("div", plot, class_="scroll"), **attributes)


def sentence(text: str) -> str:
    """Return an error message with a capital letter, as pages show it."""
    return text[:1].upper() + text[1:]


def moment(time: float | None) -> Markup:
    """Return a point in time in UTC; the page's script converts it to the reader's time zone."""
    try:
        when = datetime.fromtimestamp(time or 0.0, UTC)
    except (ValueError, OverflowError, OSError):
        time = None
    if time is None:
        return element("span", DASH)
    text = f"{when:%Y-%m-%d %H:%M:%S} UTC"
    return element("time", text, datetime=when.isoformat(timespec="seconds"), title=text, data_moment=f"{time:.3f}")


def since(start: float | None, now: float) -> Markup:
    """Return the time elapsed since `start`; the page's script keeps it current."""
    if start is None:
        return element("span", DASH)
    return element("span", duration(now - start), data_since=f"{start:.3f}", class_="ticking")


def ago(time: float | None, now: float) -> Markup:
    """Return how long ago something was; the page's script keeps it current."""
    if time is None:
        return element("span", DASH)
    return element("span", f"{duration(now - time)} ago", data_ago=f"{time:.3f}", class_="ticking")


def page_answer(content: bytes, status: int = 200) -> Response:
    """Return a page as a response."""
    return Response(content, status, media_type="text/html; charset=utf-8")


def json_answer(body: Any, status: int = 200) -> Response:
    """Return JSON without NaN, which browsers refuse, as a response."""
    return Response(json.dumps(body, allow_nan=False), status, media_type="application/json")


def problem(scope: Scope, status: int, title: str, detail: str) -> Response:
    """Return what is wrong and what to do about it: a page, or JSON below /api/."""
    if scope["path"].startswith("/api/"):
        return json_answer({"error": title, "detail": detail}, status)
    links = element("a", "All studies", href="/"), " · ", element("a", "Try again", href="")
    main = element("h1", title), element("p", detail, class_="lead"), element("p", links)
    body = element(
        "body",
        element("main", main, id="main", class_="problem"),
        # A journal that cannot be read now may be readable soon, so the page's script tries again.
        data_version_url="/api/version" if status == 503 else None,
        data_reload=status == 503,
    )
    return page_answer(document(title, body), status)
