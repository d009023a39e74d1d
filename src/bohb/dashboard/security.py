"""Checks the host, the origin, the method and the token of every request."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bohb.dashboard.rendering import SAFE, problem

# plotly.js sets style attributes, so those are allowed; everything else must come from this server.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would send our own forms with the origin "null"
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
NOTE = "/note"  # the only address that changes something
_COOKIE_DAYS = 30


class Guard:
    """Passes a request on, or refuses it.

    token: what a request must present; None: no token is needed.
    allowed_hosts: the names that the Host header may have. Any other name means that a foreign name was made to
        point to this server (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, token: str | None, allowed_hosts: Iterable[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = {_plain(host) for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            answer = self._refusal(scope, Headers(scope=scope)) or self._app
            await answer(scope, receive, _hardened(send))
        else:  # the dashboard has no web sockets
            await send({"type": "websocket.close", "code": 1008})

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]  # ::1 for `[::1]:80`
        if _plain(name) not in self._hosts:
            return problem(scope, 403, f"This server is not known as {host!r:.80}", HOST_HELP)
        if not _same_origin(headers, host):
            return problem(scope, 403, "Another site sent you here", ORIGIN_HELP)
        note = self._token is not None and (scope["method"], scope["path"]) == ("POST", NOTE)
        if scope["method"] not in SAFE and not note:
            refused = problem(scope, 405, "Nothing can be changed here", METHOD_HELP)
            refused.headers["Allow"] = ", ".join(SAFE)
            return refused
        if self._token is None or scope["path"].startswith("/static/"):  # static files hold no data
            return None
        if note and "origin" not in headers and "authorization" not in headers:  # browsers send it with every form
            return problem(scope, 403, "This note has no origin", ORIGIN_HELP)
        return self._admission(scope, headers, self._token)

    def _admission(self, scope: Scope, headers: Headers, token: str) -> Response | None:
        """Return None if the request has the token, a redirect with a cookie if its address has it, 401 otherwise."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = [value for name, value in query if name == "token"]
        if any(_equal(value, token) for value in shown):
            return _exchange(scope["path"], [(n, v) for n, v in query if n != "token"], token)
        cookies = cookie_parser(headers.get("cookie", ""))
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        known = _equal(cookies.get(cookie_name(token), ""), _cookie_value(token))
        if known or (scheme.lower() == "bearer" and _equal(bearer.strip(), token)):
            return None
        refused = problem(scope, 401, "This dashboard needs a token", TOKEN_HELP)
        refused.headers["WWW-Authenticate"] = 'Bearer realm="bohb dashboard"'
        return refused


HOST_HELP = "Open the address that the dashboard printed when it started, or add this name to allowed_hosts."
METHOD_HELP = "Only notes can be added, if the dashboard was started with a token; use GET or HEAD."
ORIGIN_HELP = "Other sites may not use this dashboard. If you followed a link, open its address in a new tab instead."
TOKEN_HELP = "Open the full address that the dashboard printed when it started; it ends with ?token=…"


def cookie_name(token: str) -> str:
    """Return a name that depends on the token, because dashboards on several ports of a machine share cookies."""
    return "bohb-" + hashlib.sha256(b"name" + token.encode()).hexdigest()[:8]


def _cookie_value(token: str) -> str:
    return hmac.digest(token.encode(), b"bohb dashboard cookie", "sha256").hex()


def _exchange(path: str, rest: list[tuple[str, str]], token: str) -> Response:
    """Redirect to the same page without the token in its address, which would end up in histories and logs."""
    # One leading slash only: //evil.example would be another site.
    target = "/" + path.lstrip("/\\") + (f"?{urlencode(rest)}" if rest else "")
    answer = RedirectResponse(target, status_code=303, headers={"Cache-Control": "no-store"})
    strict: Literal["strict"] = "strict"
    answer.set_cookie(
        cookie_name(token), _cookie_value(token), max_age=_COOKIE_DAYS * 86400, httponly=True, samesite=strict
    )
    return answer


def _same_origin(headers: Headers, host: str) -> bool:
    """Whether the request comes from our own pages, from the address bar or from a program."""
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return False
    match headers.get("sec-fetch-site"):
        case None | "none" | "same-origin":
            return True
        case "same-site":  # another port of this machine may link to us, but not load from us
            return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        case _:
            return False


def _equal(left: str, right: str) -> bool:
    return hmac.compare_digest(left.encode("utf-8", "replace"), right.encode())


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _hardened(send: Send) -> Send:
    """Return a `send` that adds the security headers to every response."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            harden(MutableHeaders(scope=message))
        await send(message)

    return sending


def harden(headers: MutableHeaders) -> None:
    """Add the security headers, and forbid caching, unless the response has its own values."""
    for name, value in (HEADERS | {"Cache-Control": "no-store"}).items():
        headers.setdefault(name, value)
