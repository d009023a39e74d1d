"""How requests are answered: with a page from a template, with JSON, or with what is wrong and what to do about it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from bohb._version import __version__
from bohb.core.samplers.gaussian import GaussianSampler
from bohb.core.trial import Trial
from bohb.dashboard.studies import Snapshot
from bohb.plots.budgets import draw_selected
from bohb.plots.model import draw_model
from bohb.plots.pareto import draw_volumes
from bohb.plots.registry import Plot
from bohb.plots.report import environment
from bohb.plots.result import draw_comparison
from bohb.plots.theme import Figure, get_plotlyjs

_KEPT = 40  # figures, each below a megabyte
_SAMPLERS = 4  # Gaussian processes, one per study


class Figures:
    """Draws figures one at a time and caches the last few."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: OrderedDict[Hashable, bytes] = OrderedDict()
        self._samplers: OrderedDict[str, tuple[int, int, GaussianSampler]] = OrderedDict()

    def plot(self, view: Snapshot, plot: Plot, given: Mapping[str, str]) -> bytes:
        """Return a plot as JSON.

        given: what the reader has chosen.
        """
        with view.lock:
            options = plot.chosen(view.history, given)
        if plot.key == "model" and not options:
            return self.model(view)
        return self._cached([view], (plot.key, repr(options)), lambda: plot(view.history, **options))

    def model(self, view: Snapshot, trial: Trial | None = None) -> bytes:
        """Return what the model believes; with a trial, what the Gaussian process expects around it."""
        number = None if trial is None else trial.number
        return self._cached(
            [view], ("model", number), lambda: draw_model(view.history, number=number, sampler=self._sampler(view))
        )

    def selected(self, view: Snapshot, trials: Sequence[Trial]) -> bytes:
        """Return the results and learning curves of some trials over each other."""
        numbers = [trial.number for trial in trials]
        return self._cached([view], ("selected", *numbers), lambda: draw_selected(view.history, numbers))

    def comparison(self, views: Sequence[Snapshot], over: str) -> bytes:
        """Return the best results of several studies, or with "volume" their dominated volumes."""
        histories = {view.name: view.history for view in views}
        draw = partial(draw_volumes, histories) if over == "volume" else partial(draw_comparison, histories, over=over)
        return self._cached(views, (over,), draw)

    def _cached(self, views: Sequence[Snapshot], what: tuple[Hashable, ...], draw: Callable[[], Figure]) -> bytes:
        """Return a figure of these studies as JSON; draw it if it is not cached."""
        key = (*what, *((view.name, view.version) for view in views))
        with self._lock, ExitStack() as alone:
            found = self._drawn.pop(key, None)
            if found is None:
                for view in views:
                    alone.enter_context(view.lock)
                found = draw().to_json().encode()
            self._drawn[key] = found
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return found

    def _sampler(self, view: Snapshot) -> GaussianSampler:
        """Return the sampler of a study, which keeps its fits while the study grows."""
        history = view.history
        n_events, n_forgotten, sampler = self._samplers.pop(view.name, (0, 0, None))
        grown = n_events <= history.n_events and n_forgotten == len(history.forgotten)
        if sampler is None or not grown:
            sampler = GaussianSampler(history.space)
        self._samplers[view.name] = history.n_events, len(history.forgotten), sampler
        while len(self._samplers) > _SAMPLERS:
            self._samplers.popitem(last=False)
        return sampler


_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_HEADERS = {"Cache-Control": "private, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file, compressed, and its address, which contains its version and can therefore be cached for ever."""

    packed: bytes
    media_type: str
    href: str

    def answer(self, compressed: bool) -> Response:
        """Return the file as a response, compressed if the browser accepts that."""
        content = self.packed if compressed else gzip.decompress(self.packed)
        headers = _HEADERS | ({"Content-Encoding": "gzip"} if compressed else {})
        return Response(content, media_type=self.media_type, headers=headers)


@cache
def assets() -> dict[str, Asset]:
    """Return all files by name. Only these are served, so that no name can act as a path."""
    folders = [resources.files(package) / "static" for package in ("bohb.plots", "bohb.dashboard")]
    files = [file for folder in folders for file in folder.iterdir() if Path(file.name).suffix in _TYPES]
    found = {file.name: _asset(file.name, file.read_bytes()) for file in files}
    return {**found, "plotly.js": _asset("plotly.js", get_plotlyjs().encode())}


def static(request: Request) -> Response:
    """Return a style sheet, a script or an image."""
    found = assets().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "File not found")
    return found.answer("gzip" in request.headers.get("accept-encoding", ""))


def href(name: str) -> str:
    """Return the address of a file."""
    return assets()[name].href


@cache
def map_style_id() -> str | None:
    """Return the id of the style element that plotly.js adds for maps unless the page has an element with that id.

    Our content security policy forbids style elements, and there are no maps.
    """
    found = re.search(rb'getElementById\("([0-9a-f]{64})"\)', assets()["plotly.js"].answer(compressed=False).body)
    return found.group(1).decode() if found else None


def _asset(name: str, content: bytes) -> Asset:
    version = hashlib.sha256(content).hexdigest()[:12]
    return Asset(gzip.compress(content, 6, mtime=0), _TYPES[Path(name).suffix], f"/static/{name}?v={version}")


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
