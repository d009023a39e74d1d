"""The static files: our styles and scripts, the table component, and plotly's JavaScript."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bohb.plots.theme import get_plotlyjs

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_HEADERS = {"Cache-Control": "private, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file and its address, which contains its version and can therefore be cached for ever."""

    content: bytes
    media_type: str
    href: str

    def answer(self, compressed: bool) -> Response:
        """Return the file as a response, compressed if the browser accepts that."""
        content = _compressed(self.content) if compressed else self.content
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
    found = re.search(rb'getElementById\("([0-9a-f]{64})"\)', assets()["plotly.js"].content)
    return found.group(1).decode() if found else None


@cache
def _compressed(content: bytes) -> bytes:
    """Compress once; for plotly.js (5 MB) it takes a fifth of a second."""
    return gzip.compress(content, 6, mtime=0)


def _asset(name: str, content: bytes) -> Asset:
    version = hashlib.sha256(content).hexdigest()[:12]
    return Asset(content, _TYPES[Path(name).suffix], f"/static/{name}?v={version}")
