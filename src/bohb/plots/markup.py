"""Build HTML safely: text is escaped unless it is a `Markup`."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}  # elements without an end tag


class Markup(str):
    """Text that is already HTML. Only this module and our own constants create it from strings."""

    __slots__ = ()


def escaped(content: object) -> Markup:
    """Return anything as HTML: markup unchanged, everything else as text."""
    return content if isinstance(content, Markup) else Markup(html.escape(str(content)))


def joined(*parts: object) -> Markup:
    """Concatenate parts: None and False are skipped, iterables flattened, everything but markup is escaped."""
    return Markup("".join(map(_part, parts)))


def _part(part: object) -> str:
    match part:
        case None | False:
            return ""
        case Iterable() if not isinstance(part, str):
            return joined(*part)
        case _:
            return escaped(part)


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """Return an element.

    attributes: `class_` is class, `data_live` is data-live; True has no value, None and False are left out.
    """
    written = []
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            written.append(f" {key}")
        elif value is not None and value is not False:
            written.append(f' {key}="{html.escape(str(value))}"')
    start = f"<{tag}{''.join(written)}>"
    return Markup(start if tag in _VOID else f"{start}{joined(*content)}</{tag}>")


def table(head: Sequence[object], rows: Iterable[Sequence[object]], caption: str, **attributes: object) -> Markup:
    """Return a table whose first column names its rows, in a box that scrolls sideways on a narrow screen.

    head, rows: values, or `th` and `td` elements.
    """
    titles = element("tr", [_cell("th", title, scope="col") for title in head])
    body = [element("tr", _cell("th", row[0], scope="row"), [_cell("td", cell) for cell in row[1:]]) for row in rows]
    parts = element("caption", caption), element("thead", titles), element("tbody", body)
    whole = element("table", *parts, **attributes)
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cell(tag: str, value: object, **attributes: object) -> Markup:
    if isinstance(value, Markup) and value.startswith(("<td", "<th")):
        return value
    return element(tag, value, **attributes)


def code(text: str, title: str) -> Markup:
    """Return a block of code with a button that copies it."""
    button = element("button", "Copy", type="button", class_="copy", aria_label=f"Copy: {title}")
    block = element("pre", element("code", text), tabindex="0", aria_label=title)
    return element("div", element("p", title, class_="code-title"), button, block, class_="code")


def details(summary: object, *content: object) -> Markup:
    """Return content that is folded below a summary."""
    return element("details", element("summary", summary), *content)


def embedded(data: Any) -> Markup:
    """Return JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
