"""HTML that cannot be broken by what it shows: text is escaped unless it is known to be markup."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(content: object) -> Markup:
    """Anything as HTML: markup as it is, all else as text."""
    return content if isinstance(content, Markup) else Markup(html.escape(str(content)))


def joined(parts: Iterable[object]) -> Markup:
    """Several pieces, one after the other."""
    return Markup("".join(escaped(part) for part in parts))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An element. A trailing underscore of an attribute's name is dropped, others become hyphens; True has no value."""
    written = []
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        elif value is not None and value is not False:
            written.append(f' {key}="{html.escape(str(value))}"')
    return Markup(f"<{tag}{''.join(written)}>{joined(content)}</{tag}>")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str) -> Markup:
    """A table whose first column names its rows, in a box that scrolls sideways on a narrow screen."""
    titles = element("tr", *(element("th", title, scope="col") for title in head))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    whole = element("table", element("caption", caption), element("thead", titles), element("tbody", *body))
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def code(text: str, title: str, copy: bool = True) -> Markup:
    """A block of code with a button that copies it."""
    button = element("button", "Copy", type="button", class_="copy", aria_label=f"Copy: {title}")
    block = element("pre", element("code", text), tabindex="0", aria_label=title)
    return element("div", element("p", title, class_="code-title"), button if copy else "", block, class_="code")


def details(summary: object, *content: object) -> Markup:
    """Something to unfold."""
    return element("details", element("summary", summary), *content)


def embedded(data: Any) -> Markup:
    """JSON for a script element: nothing in it can end that element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
