"""The shapes of an answer: a page, JSON, or a page that says what is wrong."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from bohb.dashboard.layout import head
from bohb.dashboard.markup import document, el, markup

SAFE = ("GET", "HEAD")


def page_answer(content: bytes, status: int = 200) -> Response:
    """A page."""
    return Response(content, status, media_type="text/html; charset=utf-8")


def json_answer(body: Any, status: int = 200) -> Response:
    """JSON without NaN, which browsers refuse."""
    return Response(json.dumps(body, allow_nan=False), status, media_type="application/json")


def problem(scope: Scope, status: int, title: str, detail: str) -> Response:
    """What is wrong and what to do, as a page, or as JSON for a script."""
    if scope["path"].startswith("/api/"):
        return json_answer({"error": title, "detail": detail}, status)
    body = el(
        "body",
        el(
            "main",
            el("h1", title),
            el("p", detail, class_="lead"),
            el("p", el("a", "All studies", href="/"), " · ", el("a", "Try again", href="")),
            id="main",
            class_="problem",
        ),
        # A journal that cannot be read now may be readable soon: the page's script looks again.
        data_version_url="/api/version" if status == 503 else None,
        data_reload=status == 503,
    )
    return page_answer(document(head(title), markup(body)), status)
