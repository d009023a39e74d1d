"""Elements that several pages show."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bohb.analysis.trials import notes_of
from bohb.analysis.verdicts import best_text
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import Origin
from bohb.dashboard.layout import link_to, moment, section
from bohb.plots.markup import Markup, details, element, joined
from bohb.units import DASH, counted, number, short, value_text

_ORIGINS = {
    Origin.RANDOM: "drawn at random from the space",
    Origin.MODEL: "proposed by the model",
    Origin.GIVEN: "given by the user",
    Origin.PROMOTED: "promoted from the rung below",
}
_STATES = {
    "ok": "finished with a result",
    "running": "being evaluated",
    "waiting": "lost its worker and waits to be started again",
    "diverged": "the result was NaN or infinite",
    "crashed": "raised an exception, exited or was killed by a signal",
    "timeout": "exceeded its time limit",
    "memory": "exceeded its memory limit",
    "device_memory": "needed more memory than its device has",
    "bad_result": "returned something that is not a result",
    "lost": "its workers disappeared repeatedly",
}


def badge(state: str) -> Markup:
    """Return the state of a trial as a coloured word."""
    kind = state if state in ("ok", "running", "waiting") else "failed"
    return element("span", state.replace("_", " "), class_=f"badge {kind}", title=_STATES.get(state, ""))


def origin_word(origin: Origin) -> Markup:
    """Return how the configuration of a trial was chosen."""
    return element("span", origin.value, title=_ORIGINS[origin])


def trial_link(study: str, trial: int, text: str | None = None) -> Markup:
    """Return a link to the page of a trial."""
    return element("a", text or f"Trial {trial}", href=link_to("/trial", study=study, number=trial))


def config_table(config: dict[str, Any], name: str) -> Markup:
    """Return a configuration as a table, and as JSON to copy, which has all digits."""
    rows = [
        element(
            "tr",
            element("th", short(key, 60), scope="row", class_="user"),
            element("td", short(value_text(value), 2000), class_="user"),
        )
        for key, value in config.items()
    ]
    text = json.dumps(config, indent=2, ensure_ascii=False, default=str)
    return element(
        "div",
        element("table", element("caption", "Configuration"), element("tbody", rows), class_="config"),
        element("button", "Copy as JSON", type="button", data_copy=f"config-{name}", hidden=True),
        details("As JSON", element("pre", text, id=f"config-{name}", tabindex="0")),
        class_="configuration",
    )


def field(label: str, name: str, control: Markup) -> Markup:
    """Return a control of a form under its label."""
    return element("div", element("label", label, for_=name), control, class_="field")


def choice(label: str, name: str, options: Iterable[object], chosen: str | None, first: str | None) -> Markup:
    """Return a menu of options, which may be a mapping from values to texts.

    first: the text of the option that chooses none of them, if there is one.
    """
    texts = options if isinstance(options, Mapping) else {value: value for value in options}
    choices = [element("option", first, value="")] if first else []
    for value, text in texts.items():
        choices.append(element("option", short(text, 60), value=value, selected=str(value) == chosen))
    return field(label, name, element("select", choices, name=name, id=name))


def config_line(config: dict[str, Any], limit: int = 100) -> str:
    """Return a configuration in one line."""
    return short(", ".join(f"{name}={short(value_text(value), 30)}" for name, value in config.items()), limit)


def notes_section(history: History, trial: int | None = None, form: Markup | None = None) -> Markup | None:
    """Return the user's notes and tags on a trial, or on the study itself; None without any and without a form.

    form: adds a note.
    """
    items = [
        element(
            "li",
            element("span", short(note.text, 2000), class_="user"),
            [joined(" ", element("span", short(tag, 60), class_="badge user")) for tag in note.tags],
            " ",
            element("small", moment(note.time)),
        )
        for note in notes_of(history, trial)
    ]
    # The list is there even if it is empty: when the first note appears, the form below must not be replaced.
    return section("Notes", element("ul", items, class_="notes"), form) if items or form else None


def shown_best(goals: Goals, best: Result | None) -> Markup:
    """Return a result as `0.123 on budget 27`."""
    if best is None:
        return element("span", DASH)
    values = element("strong", best_text(goals, best), class_="user")
    return joined(values, f" on budget {number(best.budget)}{best.caveat}")


def study_state(trials: Mapping[str, int]) -> Markup:
    """Return the state that the journal records; a runner that was killed leaves its trials as running."""
    if running := trials.get("running"):
        return element("span", f"{running} running", class_="badge running", title=counted(running, "running trial"))
    if trials.get("started"):
        return element("span", "idle", class_="badge", title="no trial is running")
    return element("span", "not started", class_="badge", title="no trial has been started yet")
