"""The web application: which address shows what."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qsl

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
from bohb.dashboard import pages
from bohb.dashboard.files import stored
from bohb.dashboard.query import Query, matching, table
from bohb.dashboard.rendering import Figures, assets, json_answer, link_to, problem, static
from bohb.dashboard.security import NOTE, Guard, harden
from bohb.dashboard.studies import PATIENCE, Entry, Snapshot, Studies, UnknownStudy
from bohb.errors import BohbError, InvalidArgument
from bohb.optimizer.creation import LONGEST_TEXT
from bohb.plots import PLOTS
from bohb.plots.report import sentence
from bohb.plots.theme import templates

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LIST_SECONDS = 0.7  # for reading new studies; the others appear with the next update
_MOST_BYTES = 12 * LONGEST_TEXT  # of a form: a character takes at most 12 bytes
_MOST_SELECTED = 200


def create_app(
    journal: str | Path | Sequence[str | Path],
    token: str | None = None,
    allowed_hosts: Iterable[str] = LOOPBACK,
    *,
    directory: str | Path | None = None,
) -> Starlette:
    """Return the dashboard of one or several journals as an ASGI application.

    journal: the journal's file or address, or a sequence of them; they need not exist yet. A folder stands for all
        journals in it.
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
        exception_handlers={BohbError: _refused, HTTPException: _not_found, 500: _internal_error},
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
        study, studies = self._study, self._studies
        addresses: dict[str, Callable[[Request], Response]] = {
            "/": self.studies,
            "/study": self.overview,
            "/trials": lambda request: pages.trials_page(study(request), Query.of(request.query_params)),
            "/trials.csv": self.trials_csv,
            "/trial": self.trial,
            "/selected": lambda request: pages.selected_page(*self._selected(request)),
            "/plots": lambda request: pages.plots_page(study(request)),
            "/compare": lambda request: pages.compare_page(list(self._known.lengths()), studies(request)),
            "/api/version": self.version,
            "/api/trials": lambda request: json_answer(table(study(request), Query.of(request.query_params))),
            "/api/figure": self.figure,
            "/api/selected": lambda request: _figure(self._figures.selected(*self._selected(request))),
            "/api/process": lambda request: _figure(self._figures.model(*self._chosen(request))),
            "/api/compare": self.comparison,
            "/api/templates": lambda _: json_answer(templates()),
            "/static/{name}": static,
        }
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in addresses.items()]
        return [*routes, Route(NOTE, self.note, methods=["POST"])]

    def warm_up(self) -> None:
        """Do what is slow the first time (imports, reading the largest study) before the first request."""
        assets()
        templates()
        try:
            lengths = self._known.lengths()
            while lengths and self._known.snapshot(max(lengths, key=lambda name: lengths[name])).unread:
                pass
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
        return pages.studies_page(self._known.journals, entries, version)

    def overview(self, request: Request) -> Response:
        view = self._study(request)
        return pages.overview_page(view, time.time(), self._known.runner(view.name), self._editable)

    def trials_csv(self, request: Request) -> Response:
        view = self._study(request, math.inf)
        text = csv_text(view.history, matching(view, Query.of(request.query_params)))
        headers = {"Content-Disposition": 'attachment; filename="trials.csv"'}
        body = text.encode("utf-8", "replace")  # values can have unpaired surrogates
        return Response(body, media_type="text/csv; charset=utf-8", headers=headers)

    def trial(self, request: Request) -> Response:
        view, trial = self._chosen(request)
        return pages.trial_page(view, trial, stored(self._known.files(view.name), trial), self._editable)

    async def note(self, request: Request) -> Response:
        sent = await _sent(request)
        try:
            return await run_in_threadpool(self._add, sent)
        except UnknownStudy:
            raise
        except BohbError as error:
            status = 400 if isinstance(error, InvalidArgument) else 503
            return problem(request.scope, status, "The note was not stored", sentence(str(error)))

    def _add(self, sent: dict[str, str]) -> Response:
        view = _begun(self._known.snapshot(sent.get("study", "")))
        trial = _trial(view, sent["trial"]).number if sent.get("trial") else None
        tags = [tag.strip() for tag in sent.get("tags", "").split(",") if tag.strip()]
        self._known.note(view.name, sent.get("text", "").replace("\r\n", "\n"), trial, tags)
        page = link_to("/study", study=view.name)
        return RedirectResponse(page if trial is None else link_to("/trial", study=view.name, number=trial), 303)

    def version(self, request: Request) -> Response:
        """Return a text that changes whenever a page does."""
        parameters = request.query_params
        if "study" not in parameters:
            return json_answer({"version": _list_version(self._known.lengths())})
        if "trial" in parameters:
            view = self._study(request)
            return json_answer({"version": pages.trial_version(view, _trial(view, parameters["trial"]))})
        views = self._studies(request)
        runner = f" {self._known.runner(views[0].name)}" if "runner" in parameters and views else ""
        return json_answer({"version": pages.joint_version(views) + runner})

    def figure(self, request: Request) -> Response:
        key = request.query_params.get("plot", "")
        if key not in PLOTS:
            raise HTTPException(404, f"There is no plot named {key[:80]!r}")
        return _figure(self._figures.plot(self._study(request), PLOTS[key], request.query_params))

    def comparison(self, request: Request) -> Response:
        over = request.query_params.get("over", "")
        if over not in ("cost", "time", "volume"):
            raise HTTPException(404, f"There is no comparison over {over[:80]!r}")
        return _figure(self._figures.comparison(self._studies(request), over))

    def _study(self, request: Request, patience: float = PATIENCE) -> Snapshot:
        """Return the study that a request names."""
        return _begun(self._known.snapshot(request.query_params.get("study", ""), patience))

    def _chosen(self, request: Request) -> tuple[Snapshot, Trial]:
        """Return the trial that a request names, and its study."""
        view = self._study(request)
        return view, _trial(view, request.query_params.get("number", ""))

    def _selected(self, request: Request) -> tuple[Snapshot, list[Trial]]:
        """Return all trials that a request names, each once, and their study."""
        view, numbers = self._study(request), dict.fromkeys(request.query_params.getlist("number"))
        if len(numbers) > _MOST_SELECTED:
            raise HTTPException(400, f"At most {_MOST_SELECTED} trials can be selected, not {len(numbers)}")
        return view, [_trial(view, number) for number in numbers]

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


async def _sent(request: Request) -> dict[str, str]:
    """Return what a form has sent. Raises HTTPException if that is too much."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _MOST_BYTES:
            raise HTTPException(413, f"A note may have at most {LONGEST_TEXT} characters")
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=8))
    except ValueError as error:
        raise HTTPException(400, "This is not what the form sends") from error


def _figure(figure: bytes) -> Response:
    return Response(figure, media_type="application/json")


def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    usual = error.detail == HTTPStatus(error.status_code).phrase
    title = "Page not found" if usual else error.detail
    return problem(request.scope, error.status_code, title, "Check the address, or start from the list of studies.")


def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, UnknownStudy):
        return problem(request.scope, 404, "Study not found", sentence(str(error)))
    if isinstance(error, InvalidArgument):  # such as a filter
        return problem(request.scope, 400, "This makes no sense", sentence(str(error)))
    return problem(request.scope, 503, "The journal cannot be read", sentence(str(error)))


def _internal_error(request: Request, _: Exception) -> Response:
    answer = problem(request.scope, 500, "Internal error", "This is a bug; the terminal shows the details.")
    harden(answer.headers)  # this response bypasses the guard
    return answer
