"""Markup that cannot be injected into: whatever is not `Html` is escaped on the way in."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


class Html(str):
    """Text that is markup already. Only this module makes it from strings."""

    __slots__ = ()


def markup(*children: object) -> Html:
    """The children one after the other: Html as it is, None as nothing, lists item by item, the rest escaped."""
    return Html("".join(map(_child, children)))


def el(tag: str, *children: object, **attributes: object) -> Html:
    """One element. Attributes: `class_` is class, `data_live` is data-live; None and False leave one out."""
    head = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{markup(*children)}</{tag}>")


def document(head: Html, body: Html) -> bytes:
    """A whole page as bytes; half a surrogate pair, which a file name can hold, becomes a question mark."""
    text = f'<!doctype html>\n<html lang="en">{el("head", head)}{body}</html>\n'
    return text.encode("utf-8", "replace")


def short(value: object, limit: int = 80) -> str:
    """The text of a value, cut to size."""
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _child(child: object) -> str:
    match child:
        case Html():
            return child
        case None | False:
            return ""
        case str():
            return escape(child)
        case Iterable():
            return "".join(map(_child, child))
        case _:
            return escape(str(child))


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
