"""The menus above a plot, with which readers of a page choose what it shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from bohb.analysis.importance import importance
from bohb.core.history import History
from bohb.plots.choices import CHOICES, Choice
from bohb.plots.markup import Markup, element
from bohb.plots.registry import Plot
from bohb.units import short

_PAIR = Choice("pair", "Hyperparameters", "")
_PAIRED = 6  # hyperparameters of which a page without a server has all pairs


def menus(plot: Plot, choices: Mapping[str, Iterable[str]]) -> Markup | None:
    """Return a menu for each option of a plot, and one for the scale of its losses; None if it has neither."""
    parts = [
        _menu(choice.label, f"{plot.key}-{choice.name}", values, choice.default, data_option=choice.name)
        for choice, values in ((CHOICES.get(option, _PAIR), values) for option, values in choices.items())
    ]
    return row(*parts, scale_menu(plot.key) if plot.scaled else None) if parts or plot.scaled else None


def row(*parts: Markup | None) -> Markup:
    """Return the menus of one plot side by side."""
    return element("div", parts, class_="filters options", data_menus=True, data_keep=True)


def scale_menu(key: str) -> Markup:
    """Return the menu for the scale of the losses, which the page's script applies.

    key: the beginning of its identifier, unique on the page.
    """
    return _menu("Scale", f"{key}-scale", ("linear", "log"), "automatic", data_scale=True)


def variants(plot: Plot, history: History) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the options of a plot for every single choice, by menu and text, for pages that have no server.

    Two hyperparameters are one choice, among the most important ones: all pairs would make the page too large.
    """
    choices = plot.choices(history)
    found = {
        option: {text: plot.chosen(history, {option: text}) for text in texts if text != CHOICES[option].default}
        for option, texts in choices.items()
        if option not in ("x", "y")
    }
    if "x" in choices:
        table = importance(history, shuffles=0)
        names = choices["x"] if table is None else [each.name for each in table.rows]
        pairs = itertools.combinations(names[:_PAIRED], 2)
        found["pair"] = {f"{x} and {y}": {"x": x, "y": y} for x, y in pairs}
    return found


def _menu(label: str, name: str, values: Iterable[str], default: str, **attributes: object) -> Markup:
    options = [element("option", default, value="")]
    options += [element("option", short(value, 60), value=value) for value in values if value != default]
    chosen = element("select", options, id=name, autocomplete="off", **attributes)
    return element("div", element("label", label, for_=name), chosen, class_="field")
