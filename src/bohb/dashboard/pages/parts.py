"""Pieces that several pages show."""

from __future__ import annotations

from typing import Any

from bohb.core.trial import Origin
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.words import config_json, link_to, number, value_text

_ORIGINS = {
    Origin.RANDOM: ("random", "drawn at random from the space"),
    Origin.MODEL: ("model", "proposed by the model"),
    Origin.GIVEN: ("given", "handed in by the user"),
    Origin.PROMOTED: ("promoted", "survived the rung below"),
}
_STATES = {
    "ok": ("ok", "finished with a loss"),
    "running": ("running", "somebody works on it"),
    "waiting": ("waiting", "lost its worker and waits to be started again"),
    "diverged": ("diverged", "the loss was NaN or infinite"),
    "crashed": ("crashed", "it raised, exited or was killed by a signal of its own making"),
    "timeout": ("timeout", "it ran past its time limit"),
    "memory": ("memory", "it grew past its memory limit"),
    "bad_result": ("bad result", "it returned something that is no loss"),
    "lost": ("lost", "its worker kept disappearing"),
}


def badge(state: str) -> Html:
    """How a trial stands, in a word and a colour."""
    word, meaning = _STATES.get(state, (state, ""))
    kind = state if state in ("ok", "running", "waiting") else "failed"
    return el("span", word, class_=f"badge {kind}", title=meaning)


def origin_word(origin: Origin) -> Html:
    """Why a trial ran."""
    word, meaning = _ORIGINS[origin]
    return el("span", word, title=meaning)


def trial_link(study: str, trial: int, text: str | None = None) -> Html:
    """A link to a trial's page."""
    return el("a", text or f"Trial {trial}", href=link_to("/trial", study=study, number=trial))


def config_table(config: dict[str, Any], name: str) -> Html:
    """A configuration to read, and as JSON to copy."""
    rows = [
        el("tr", el("th", short(key, 60), scope="row", class_="user"), el("td", _value(value), class_="user"))
        for key, value in config.items()
    ]
    return el(
        "div",
        el("table", el("caption", "Configuration", class_="quiet"), el("tbody", rows), class_="config"),
        el("button", "Copy as JSON", type="button", data_copy=f"config-{name}", hidden=True),
        el("details", el("summary", "As JSON"), el("pre", config_json(config), id=f"config-{name}", tabindex="0")),
        class_="configuration",
    )


def config_line(config: dict[str, Any], limit: int = 100) -> str:
    """A configuration in one line."""
    return short(", ".join(f"{name}={short(value_text(value), 30)}" for name, value in config.items()), limit)


def loss_on_budget(loss: float, budget: float) -> Html:
    """`0.123 on budget 27`."""
    return markup(el("strong", number(loss)), f" on budget {number(budget)}")


def _value(value: object) -> str:
    return repr(value) if isinstance(value, float) else short(value_text(value), 2000)
