"""The web application: which address shows what."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bohb.analysis.trials import csv_text
from bohb.core.trial import Trial
from bohb.dashboard.assets import assets, static
from bohb.dashboard.figures import Figures, curve_figure, plots_page
from bohb.dashboard.files import stored
from bohb.dashboard.guard import NOTE, Guard, harden
from bohb.dashboard.layout import Page, json_answer, link_to, page_answer, problem, sentence
from bohb.dashboard.note_form import NewNote, sent_note
from bohb.dashboard.pages.studies_page import compare_page, joint_version, studies_page
from bohb.dashboard.pages.study_page import overview_page
from bohb.dashboard.pages.trial_page import trial_page, trial_version
from bohb.dashboard.pages.trials_page import trials_page
from bohb.dashboard.query import matching, parse
from bohb.dashboard.studies import Entry, Snapshot, Studies, UnknownStudy
from bohb.errors import BohbError, InvalidArgument
from bohb.plots import PLOTS
from bohb.plots.result import draw_comparison
from bohb.plots.theme import templates

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LIST_SECONDS = 0.7  # for reading new studies; the others appear with the next update


def create_app(
    journal: str | Path | Sequence[str | Path],
    token: str | None = None,
    allowed_hosts: Iterable[str] = LOOPBACK,
    *,
    directory: str | Path | None = None,
) -> Starlette:
    """Return the dashboard of one or several journals as an ASGI application.

    journal: the journal's file or address, or a sequence of them; they need not exist yet.
    token: what a reader must present; None: no token is needed, and nothing can be changed. With a token, readers can
        add notes.
    allowed_hosts: the host names that requests may use for this server.
    directory: where the studies' files are, if they were run with `directory=`.
    """
    journals = [journal] if isinstance(journal, str | Path) else list(journal)
    site = _Site(Studies(journals, None if directory is None else Path(directory)), editable=token is not None)
    app = Starlette(
        routes=site.routes(),
        middleware=[
            Middleware(Guard, token=token, allowed_hosts=tuple(allowed_hosts)),
            Middleware(GZipMiddleware, minimum_size=2000, compresslevel=4),
        ],
        exception_handlers={BohbError: _journal_error, HTTPException: _not_found, 500: _internal_error},
    )
    app.router.redirect_slashes = False  # unknown addresses are 404, not redirects
    app.state.warm_up = site.warm_up
    app.state.close = site.close
    return app


class _Site:
    """The state that requests share: the studies, and the figures drawn so far.

    editable: whether readers can add notes.
    """

    def __init__(self, known: Studies, editable: bool) -> None:
        self._known = known
        self._editable = editable
        self._figures = Figures()

    def routes(self) -> list[Route]:
        """Return the routes of the site."""
        pages = {
            "/": self.studies,
            "/study": self.overview,
            "/trials": self.trials,
            "/trials.csv": self.trials_csv,
            "/trial": self.trial,
            "/plots": self.plots,
            "/compare": self.compare,
            "/api/version": self.version,
            "/api/figure": self.figure,
            "/api/curve": self.curve,
            "/api/process": self.process,
            "/api/compare": self.comparison,
            "/api/templates": lambda _: json_answer(templates()),
            "/static/{name}": static,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in pages.items()]
        return [*routes, Route(NOTE, self.note, methods=["POST"])]

    def warm_up(self) -> None:
        """Do what is slow the first time (imports, reading the largest study) before the first request."""
        assets()["plotly.js"].answer(compressed=True)
        templates()
        try:
            lengths = self._known.lengths()
            if lengths:
                self._known.snapshot(max(lengths, key=lambda name: lengths[name]))
        except BohbError:
            return  # the pages show the error

    def close(self) -> None:
        """Close all files."""
        self._known.close()

    def studies(self, _: Request) -> Response:
        lengths, troubles = self._known.read()
        deadline = time.monotonic() + _LIST_SECONDS
        entries: list[tuple[str, Entry | None]] = []
        for name, length in lengths.items():
            entry = self._known.known_entry(name, length)
            if entry is None and time.monotonic() < deadline:
                entry = self._known.entry(name, length)
            entries.append((name, entry))
        # An unfinished list has a different version, so that the page's script asks for it again.
        version = _list_version(lengths) if all(entry for _, entry in entries) else "unfinished"
        entries += [(name, Entry(0, trouble=trouble)) for name, trouble in troubles.items()]
        return _page(studies_page(self._known.journals, entries, version, time.time()))

    def overview(self, request: Request) -> Response:
        return _page(overview_page(self._study(request), time.time(), self._editable))

    def trials(self, request: Request) -> Response:
        return _page(trials_page(self._study(request), parse(request.query_params), time.time()))

    def trials_csv(self, request: Request) -> Response:
        view = self._study(request)
        text = csv_text(view.history, matching(view, parse(request.query_params)))
        headers = {"Content-Disposition": 'attachment; filename="trials.csv"'}
        body = text.encode("utf-8", "replace")  # values can have unpaired surrogates
        return Response(body, media_type="text/csv; charset=utf-8", headers=headers)

    def trial(self, request: Request) -> Response:
        view = self._study(request)
        trial = _trial(view, request.query_params.get("number", ""))
        files = stored(self._known.files(view.name), trial)
        return _page(trial_page(view, trial, files, time.time(), self._editable))

    async def note(self, request: Request) -> Response:
        note = await sent_note(request)
        try:
            return await run_in_threadpool(self._add, note)
        except UnknownStudy:
            raise
        except BohbError as error:
            status = 400 if isinstance(error, InvalidArgument) else 503
            return problem(request.scope, status, "The note was not stored", sentence(str(error)))

    def _add(self, note: NewNote) -> Response:
        view = _begun(self._known.snapshot(note.study))
        trial = _trial(view, note.trial).number if note.trial else None
        self._known.note(note.study, note.text, trial, note.tags)
        page = link_to("/study", study=note.study)
        if trial is not None:
            page = link_to("/trial", study=note.study, number=trial)
        return RedirectResponse(page, 303)

    def plots(self, request: Request) -> Response:
        return _page(plots_page(self._study(request)))

    def compare(self, request: Request) -> Response:
        return _page(compare_page(list(self._known.lengths()), self._studies(request)))

    def version(self, request: Request) -> Response:
        """Return a text that changes whenever a page does."""
        parameters = request.query_params
        if "study" not in parameters:
            return json_answer({"version": _list_version(self._known.lengths())})
        if "trial" in parameters:
            view = self._study(request)
            return json_answer({"version": trial_version(view, _trial(view, parameters["trial"]).number)})
        return json_answer({"version": joint_version(self._studies(request))})

    def figure(self, request: Request) -> Response:
        key = request.query_params.get("plot", "")
        if key not in PLOTS:
            raise HTTPException(404, f"There is no plot named {key[:80]!r}")
        view = self._study(request)
        options = PLOTS[key].chosen(view.history, request.query_params)
        if key == "model" and not options:
            return _figure(self._figures.model(view))
        drawn = (view.name, view.version, key, repr(options))
        return _figure(self._figures.once(drawn, lambda: PLOTS[key](view.history, **options)))

    def curve(self, request: Request) -> Response:
        view = self._study(request)
        trial = _trial(view, request.query_params.get("number", ""))
        key = (view.name, view.version, trial.number)
        return _figure(self._figures.once(key, lambda: curve_figure(view, trial)))

    def process(self, request: Request) -> Response:
        view = self._study(request)
        trial = _trial(view, request.query_params.get("number", ""))
        return _figure(self._figures.model(view, trial.number))

    def comparison(self, request: Request) -> Response:
        over = request.query_params.get("over", "")
        if over not in ("cost", "time"):
            raise HTTPException(404, f"There is no comparison over {over[:80]!r}")
        views = self._studies(request)
        key = (over, *((view.name, view.version) for view in views))
        histories = {view.name: view.history for view in views}
        return _figure(self._figures.once(key, lambda: draw_comparison(histories, over=over)))

    def _study(self, request: Request) -> Snapshot:
        """Return the study that a request names."""
        return _begun(self._known.snapshot(request.query_params.get("study", "")))

    def _studies(self, request: Request) -> list[Snapshot]:
        """Return all studies that a request names, each once."""
        names = dict.fromkeys(request.query_params.getlist("study"))
        return [_begun(view) for view in self._known.snapshots(list(names))]


def _begun(view: Snapshot) -> Snapshot:
    if view.history.created is None:
        raise UnknownStudy(f"the study {view.name[:250]!r} has no events yet; it appears as soon as it starts")
    return view


def _list_version(lengths: dict[str, int]) -> str:
    return f"{len(lengths)}-{sum(lengths.values())}"


def _trial(view: Snapshot, number: str) -> Trial:
    """Return the trial that a request names."""
    known = number.isascii() and number.isdecimal() and len(number) < 12
    trial = view.history.trials.get(int(number)) if known else None
    if trial is None:
        raise HTTPException(404, f"This study has no trial {number[:40]!r}")
    return trial


def _page(page: Page) -> Response:
    return page_answer(page.render(time.time()))


def _figure(figure: bytes) -> Response:
    return Response(figure, media_type="application/json")


def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    usual = error.detail == HTTPStatus(error.status_code).phrase
    title = "Page not found" if usual else error.detail
    return problem(request.scope, error.status_code, title, "Check the address, or start from the list of studies.")


def _journal_error(request: Request, error: Exception) -> Response:
    if isinstance(error, UnknownStudy):
        return problem(request.scope, 404, "Study not found", str(error))
    return problem(request.scope, 503, "The journal cannot be read", sentence(str(error)))


def _internal_error(request: Request, _: Exception) -> Response:
    answer = problem(request.scope, 500, "Internal error", "This is a bug; the terminal shows the details.")
    harden(answer.headers)  # this response bypasses the guard
    return answer
