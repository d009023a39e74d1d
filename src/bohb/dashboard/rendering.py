"""How requests are answered: with a page from a template, with JSON, or with what is wrong and what to do about it."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response
from starlette.types import Scope

from bohb._version import __version__
from bohb.dashboard.assets import href, map_style_id
from bohb.dashboard.studies import Snapshot
from bohb.plots.templating import environment

SAFE = ("GET", "HEAD")
_TABS = {"/study": "Overview", "/trials": "Trials", "/plots": "Plots", "/compare": "Compare"}


def link_to(path: str, **query: object) -> str:
    """Return an address on this site. Study names are parameters, so that no name can act as a path.

    query: the parameters; a list repeats one.
    """
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def page(template: str, title: str, *, status: int = 200, **values: Any) -> Response:
    """Return a page.

    title: of the window.
    values: for the template. Those that every page has: `study`, the name of its study; `tab`, which of the study's
        pages it is; `version_url` and `version`, the address that tells whether something has changed, and its answer
        when the page was made; `scripts`, those for plots or for the table.
    """
    usual = {"study": None, "tab": "", "version_url": None, "version": "", "reload": False, "scripts": ()}
    frame = {"title": title, "now": time.time(), "tabs": _TABS, "link_to": link_to, "href": href, "bohb": __version__}
    values = {**usual, **frame, "map_style": map_style_id, **values}
    text = environment().get_template(template).render(values)
    return Response(text.encode("utf-8", "replace"), status, media_type="text/html; charset=utf-8")


def study_page(template: str, tab: str, view: Snapshot, **values: Any) -> Response:
    """Return a page about one study that is updated whenever the study changes."""
    usual = {
        "study": view.name,
        "tab": tab,
        "version_url": link_to("/api/version", study=view.name),
        "version": "unfinished" if view.unread else str(view.version),
        "unread": view.unread,
        "history": view.history,
        "seen": view.overview,
        "scripts": ("plots",),
    }
    return page(template, values.pop("title", f"{_TABS[tab]} of {view.name[:100]}"), **{**usual, **values})


def json_answer(body: Any, status: int = 200) -> Response:
    """Return JSON without NaN, which browsers refuse, as a response."""
    return Response(json.dumps(body, allow_nan=False, separators=(",", ":")), status, media_type="application/json")


def problem(scope: Scope, status: int, title: str, detail: str) -> Response:
    """Return what is wrong and what to do about it: a page, or JSON below /api/."""
    if scope["path"].startswith("/api/"):
        return json_answer({"error": title, "detail": detail}, status)
    # A journal that cannot be read now may be readable soon, so the page's script tries again.
    again = {"version_url": "/api/version", "reload": True} if status == 503 else {}
    return page("problem.html", title, status=status, detail=detail, **again)
