"""HTML from templates: Jinja2 escapes every value that is not HTML already, for pages and reports alike."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from bohb import units
from bohb.errors import MissingExtra, install_hint

try:
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup as Markup
except ImportError as error:
    raise MissingExtra(f"pages and reports need Jinja2: {install_hint('plot')}") from error

_FORMATS = (units.counted, units.date, units.duration, units.grouped, units.number, units.short, units.size)


@cache
def environment() -> Environment:
    """Return the templates of reports and of the dashboard, with our formats as filters."""
    folders = [PackageLoader("bohb", f"{room}/templates") for room in ("plots", "dashboard")]
    found = Environment(
        loader=ChoiceLoader(folders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters |= {each.__name__: each for each in _FORMATS}
    found.filters |= {"value_text": units.value_text, "sentence": sentence}
    found.globals["DASH"] = units.DASH
    return found


def render(template: str, **values: Any) -> str:
    """Return a template with these values."""
    return environment().get_template(template).render(values)


def sentence(text: str) -> str:
    """Return a text with a capital letter."""
    return text[:1].upper() + text[1:]


def asset(name: str) -> str:
    """Return the text of a script or style sheet that reports and the dashboard share."""
    return (resources.files("bohb.plots") / "static" / name).read_text(encoding="utf-8")
