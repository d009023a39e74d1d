"""The few files that never change while the server runs: our style and scripts, and plotly's own JavaScript."""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from starlette.responses import Response

_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_NAMES = ("favicon.svg", "live.js", "figures.js", "plotly.css", "style.css")
_FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
_VARY = {"Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file with the address under which it can be kept for ever: another version has another address."""

    content: bytes
    media_type: str
    href: str

    def answer(self, packed: bool) -> Response:
        """The file, packed for a browser that says it can unpack it."""
        if not packed:
            return Response(self.content, media_type=self.media_type, headers=_FOR_EVER | _VARY)
        headers = _FOR_EVER | _VARY | {"Content-Encoding": "gzip"}
        return Response(_packed(self.content), media_type=self.media_type, headers=headers)


@cache
def assets() -> dict[str, Asset]:
    """All files by name; nothing else can be had, so that no name can lead anywhere."""
    own = resources.files("bohb.dashboard") / "static"
    found = {name: _asset(name, (own / name).read_bytes()) for name in _NAMES}
    return {**found, "plotly.js": _asset("plotly.js", plotly_js())}


def href(name: str) -> str:
    """Where a file is."""
    return assets()[name].href


def plotly_js() -> bytes:
    """The library as the installed plotly package brings it."""
    return (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()


@cache
def map_style_id() -> str | None:
    """The id of a style element that plotly.js adds for maps unless the page has such an id.

    Our policy forbids style elements and we have no maps; a page that has the id is left alone.
    """
    found = re.search(rb'getElementById\("([0-9a-f]{64})"\)', assets()["plotly.js"].content)
    return found.group(1).decode() if found else None


@cache
def _packed(content: bytes) -> bytes:
    """Packed once; plotly.js has 5 MB, which takes a fifth of a second."""
    return gzip.compress(content, 6, mtime=0)


def _asset(name: str, content: bytes) -> Asset:
    version = hashlib.sha256(content).hexdigest()[:12]
    return Asset(content, _TYPES[Path(name).suffix], f"/static/{name}?v={version}")
