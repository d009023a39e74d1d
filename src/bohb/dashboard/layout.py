"""What all pages have in common: head, navigation, footer."""

from __future__ import annotations

from dataclasses import dataclass

from bohb._version import __version__
from bohb.dashboard.assets import href, map_style_id
from bohb.dashboard.markup import Html, document, el, markup, short
from bohb.dashboard.words import link_to

_TABS = (("Overview", "/study"), ("Trials", "/trials"), ("Plots", "/plots"), ("Compare", "/compare"))


@dataclass(frozen=True, slots=True)
class Page:
    """One page.

    title: for the window and, unless `heading` says it better, the top of the page.
    study: the study it is about, if it is about one.
    tab: which of the study's pages it is.
    version_url, version: where to ask whether something changed, and what the answer was when the page was made.
    now: the server's time, by which the page's script sets its clocks.
    figures: whether it shows any.
    """

    title: str
    main: Html
    study: str | None = None
    tab: str = ""
    version_url: str | None = None
    version: str = ""
    now: float = 0.0
    figures: bool = False
    heading: Html | None = None

    def render(self) -> bytes:
        """The page as bytes."""
        body = el(
            "body",
            el("a", "Skip to the content", href="#main", class_="skip"),
            el("header", self._brand(), self._navigation(), class_="site"),
            el("p", hidden=True, id="notice", role="status"),
            el("main", self.heading or el("h1", self.title), self.main, id="main", tabindex="-1"),
            el("footer", f"bohb {__version__} · read-only · ", el("span", "made when you loaded it", id="freshness")),
            data_version_url=self.version_url,
            data_version=self.version,
            data_now=f"{self.now:.3f}",
        )
        return document(head(self.title, self.figures), body)

    def _brand(self) -> Html:
        return el("a", "bohb", href="/", class_="brand", aria_label="bohb: all studies")

    def _navigation(self) -> Html | None:
        if self.study is None:
            return None
        tabs = [
            el(
                "li",
                el("a", label, href=_tab_href(path, self.study), aria_current="page" if label == self.tab else None),
            )
            for label, path in _TABS
        ]
        name = el("span", short(self.study, 60), class_="study user", title=self.study)
        return markup(name, el("nav", el("ul", tabs), aria_label="Study"))


def head(title: str, figures: bool = False) -> Html:
    """The head of a page."""
    return markup(
        el("meta", charset="utf-8"),
        el("title", f"{short(title, 100)} · bohb"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("link", rel="icon", href=href("favicon.svg"), type="image/svg+xml"),
        el("link", rel="stylesheet", href=href("style.css")),
        _plotly() if figures else None,
        el("script", src=href("live.js"), defer=True),
    )


def _plotly() -> Html:
    """plotly.js puts its rules into the sheet with this id; one of its own making would break our policy."""
    return markup(
        el("link", rel="stylesheet", href=href("plotly.css"), id="plotly.js-style-global"),
        el("meta", name="no-maps", id=map_style_id()),
        el("script", src=href("figures.js"), defer=True, data_plotly=href("plotly.js")),
    )


def _tab_href(path: str, study: str) -> str:
    return link_to(path, **{"a" if path == "/compare" else "study": study})


def section(title: str, *children: object, **attributes: object) -> Html:
    """A part of a page under its own heading."""
    return el("section", el("h2", title), *children, **attributes)


def facts(rows: list[tuple[str, object]], **attributes: object) -> Html:
    """Labelled values."""
    return el(
        "dl", [el("div", el("dt", label), el("dd", value)) for label, value in rows], class_="facts", **attributes
    )


def table(caption: str, columns: list[object], rows: list[list[object]], **attributes: object) -> Html:
    """A real table in a frame of its own that scrolls where the screen is too narrow.

    columns: header cells, either Html `th` elements or labels.
    rows: cells, either Html `td`/`th` elements or values.
    """
    header = el("thead", el("tr", [_cell("th", column, scope="col") for column in columns]))
    body = el("tbody", [el("tr", [_cell("td", value) for value in row]) for row in rows])
    inner = el("table", el("caption", caption, class_="quiet"), header, body, **attributes)
    return el("div", inner, class_="scroll", role="region", aria_label=caption, tabindex="0")


def _cell(tag: str, value: object, **attributes: object) -> Html:
    if isinstance(value, Html) and value.startswith(("<td", "<th")):
        return value
    return el(tag, value, **attributes)


def figure(
    url: str, title: str, note: object = None, *, height: int | None = None, titled: bool = True, **attributes: object
) -> Html:
    """A place for a plot, drawn by the page's script when it comes into view.

    height: in pixels; the plot's own unless told otherwise.
    titled: whether the title is shown; readers that cannot see the plot always hear it.
    """
    plot = el(
        "div",
        el("p", "Plots need JavaScript; the tables show the same numbers.", class_="quiet"),
        class_="plot",
        data_figure=url,
        data_height=height,
        data_keep=True,
        role="img",
        aria_label=title,
    )
    heading = el("h3", title) if titled else None
    explained = el("p", note, class_="note") if note else None
    return el("figure", heading, explained, el("div", plot, class_="scroll"), **attributes)
