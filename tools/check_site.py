"""Check a built site: every link, anchor and image exists, and nothing is loaded from another site.

python tools/check_site.py site
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}


@dataclass
class Page(HTMLParser):
    """The anchors and links of one page.

    ids: the anchors.
    targets: (address, whether the browser loads it with the page).
    """

    ids: set[str] = field(default_factory=set)
    targets: list[tuple[str, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"id", "name"} and value:
                self.ids.add(value)
            elif name in {"href", "src"} and value:
                self.targets.append((value, (tag, name) in LOADING))


def read(path: Path) -> Page:
    """Return a page with its anchors and links."""
    page = Page()
    page.feed(path.read_text())
    return page


def problems(site: Path) -> list[str]:
    """Return all problems, one line each."""
    pages = {path.resolve(): read(path) for path in sorted(site.rglob("*.html"))}
    found = [] if pages else [f"{site} has no pages"]
    for path, page in pages.items():
        for address, loaded in page.targets:
            wrong = _wrong(path, address, loaded, pages)
            if wrong:
                found.append(f"{path.relative_to(site.resolve())}: {address} {wrong}")
    return found


def _wrong(path: Path, address: str, loaded: bool, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(address)
    if parts.scheme in {"data", "mailto"}:
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from another site" if loaded else None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "does not exist"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return f"has no anchor {parts.fragment!r}"
    return None


def main(site: Path) -> int:
    """Print all problems and return the exit code."""
    found = problems(site)
    for line in found:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"{site}: {len(list(site.rglob('*.html')))} pages, {len(found)} problems\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "site")))
