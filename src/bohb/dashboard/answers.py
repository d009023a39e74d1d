"""Responses: a page, JSON, or a page that explains an error."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from bohb.dashboard.layout import document
from bohb.plots.markup import element

SAFE = ("GET", "HEAD")


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
