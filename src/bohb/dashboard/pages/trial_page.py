"""One trial: its configuration, why it ran, its result, its output and its checkpoint."""

from __future__ import annotations

import json

from bohb.analysis.trials import finished, notes_of, seconds, started, state
from bohb.analysis.why import why
from bohb.core.history import History
from bohb.core.trial import Outcome, Trial
from bohb.dashboard.files import Stored, checkpoint_section, output_section
from bohb.dashboard.layout import Page, facts, figure, link_to, moment, section, since
from bohb.dashboard.note_form import note_form
from bohb.dashboard.pages.parts import badge, config_table, notes_section, origin_word, trial_link
from bohb.dashboard.studies import Snapshot
from bohb.plots.markup import Markup, details, element, joined, table
from bohb.plots.menus import row, scale_menu
from bohb.plots.theme import thinned
from bohb.units import DASH, counted, duration, number, short

_CHARACTERS = 100_000  # shown of a traceback or of `info`
_POINTS = 50  # rows of a learning curve


def trial_page(view: Snapshot, trial: Trial, files: Stored, now: float, editable: bool = False) -> Page:
    """Return everything about one trial.

    editable: whether notes can be added.
    """
    outcome = view.history.outcomes.get(trial.number)
    main = joined(
        _neighbours(view, trial),
        _failure(outcome),
        element(
            "div",
            _facts(view, trial, outcome, now),
            section("Configuration", config_table(trial.config, "trial")),
            class_="two",
        ),
        notes_section(view.history, trial.number, note_form(view.name, trial.number) if editable else None),
        _why(view, trial),
        _beliefs(view, trial),
        _curve(view, trial, outcome),
        _lineage(view, trial),
        _info(outcome),
        output_section(outcome, files.log),
        checkpoint_section(trial, files.files, files.more),
    )
    return Page(
        f"Trial {trial.number} of {short(view.name, 100)}",
        main,
        study=view.name,
        tab="Trials",
        version_url=link_to("/api/version", study=view.name, trial=trial.number),
        version=trial_version(view, trial.number),
        figures=proposed_by_process(view, trial) or (outcome is not None and len(outcome.curve) > 0),
        heading=element("h1", f"Trial {trial.number} ", badge(state(view.history, trial.number))),
    )


def trial_version(view: Snapshot, trial: int) -> str:
    """Return a text that changes when the page of this trial does: with its own state and that of its rung."""
    history = view.history
    place = history.trials[trial]
    halving = history.brackets[place.bracket]
    budgets = len(view.lineage[place.config_id])
    notes = len(notes_of(history, trial))
    return f"{state(history, trial)}-{place.attempt}-{halving.rung}-{halving.finished}-{budgets}-{notes}"


def _neighbours(view: Snapshot, trial: Trial) -> Markup:
    before, after = trial.number - 1, trial.number + 1
    links = [trial_link(view.name, before, "‹ previous trial")] if before in view.history.trials else []
    links += [trial_link(view.name, after, "next trial ›")] if after in view.history.trials else []
    links.append(element("a", "all trials", href=link_to("/trials", study=view.name)))
    items = element("ul", [element("li", link) for link in links])
    return element("nav", items, aria_label="Neighbouring trials", class_="pager")


def _facts(view: Snapshot, trial: Trial, outcome: Outcome | None, now: float) -> Markup:
    history, n = view.history, trial.number
    spent: object = duration(seconds(history, n)) if outcome else since(history.started.get(n), now)
    continued = "" if trial.previous_budget is None else f" (continued from {number(trial.previous_budget)})"
    rows: list[tuple[str, object]] = [
        *_results(history, outcome),
        ("Budget", number(trial.budget) + continued),
        ("Bracket, rung", f"{trial.bracket}, {trial.rung}"),
        ("Origin", origin_word(trial.origin)),
        ("Configuration number", trial.config_id),
        ("Seed", trial.seed),
        ("Attempt", trial.attempt),
        ("Started", moment(started(history, n))),
        ("Finished", moment(finished(history, n)) if outcome else DASH),
        ("Duration", spent),
    ]
    if outcome is not None and outcome.cost is not None:
        rows.append(("Reported cost", number(outcome.cost)))
    if outcome is not None and outcome.worker:
        rows.append(("Worker", element("span", short(outcome.worker, 100), class_="user")))
    return section("Summary", facts(rows))


def _results(history: History, outcome: Outcome | None) -> list[tuple[str, object]]:
    """Return the loss as the user knows it, or all named values and whether they keep the constraints."""
    goals = history.goals
    if len(goals.names) == 1 or outcome is None:
        loss = goals.shown(outcome.loss) if outcome else None
        return [(short(goals.label, 30).capitalize(), element("strong", number(loss)))]
    rows: list[tuple[str, object]] = [
        (short(name, 30), element("strong", number(outcome.values.get(name)))) for name in goals.names
    ]
    if goals.constraints and outcome.ok:
        rows.append(("Constraints", "kept" if history.violation(outcome) == 0 else "violated"))
    return rows


def _failure(outcome: Outcome | None) -> Markup | None:
    if outcome is None or outcome.ok:
        return None
    trace = None
    if outcome.traceback:
        text = element("pre", short(outcome.traceback, _CHARACTERS), tabindex="0")
        trace = element("details", element("summary", "Traceback"), text, open=True)
    message = element("p", short(outcome.error or "no message", _CHARACTERS), class_="trouble user")
    return section("What went wrong", message, trace)


def _why(view: Snapshot, trial: Trial) -> Markup:
    explained = why(view.history, trial.number)
    links = []
    if explained.from_trial is not None:
        links.append(trial_link(view.name, explained.from_trial, f"promoted from trial {explained.from_trial}"))
    if explained.promoted_to is not None:
        links.append(trial_link(view.name, explained.promoted_to, f"continued as trial {explained.promoted_to}"))
    sentences = [element("li", sentence, class_="user") for sentence in explained.sentences]
    shown = element("p", [joined(link, " ") for link in links]) if links else None
    return section("Why it ran", element("ul", sentences), shown)


def proposed_by_process(view: Snapshot, trial: Trial) -> bool:
    """Whether the Gaussian process proposed the configuration of a trial."""
    return view.history.trials[trial.config_id].explains == "process"


def _beliefs(view: Snapshot, trial: Trial) -> Markup | None:
    if not proposed_by_process(view, trial):
        return None
    name = short(view.history.goals.label, 30)
    note = (
        f"The expected {name} on the largest budget along each hyperparameter, if all others stay as in this "
        "configuration, given all results that are known now. The band has two standard deviations. The diamond is "
        "what the process expected when it proposed this configuration, and the star is what was measured."
    )
    url = link_to("/api/process", study=view.name, number=trial.number)
    menu = row(scale_menu("process"))
    return section(
        "What the model believes", figure(url, f"Expected {name}", note, menus=menu, titled=False, class_="wide")
    )


def _curve(view: Snapshot, trial: Trial, outcome: Outcome | None) -> Markup | None:
    if outcome is None or not outcome.curve:
        return None
    points = [outcome.curve[i] for i in thinned(len(outcome.curve), _POINTS).tolist()]
    rows = [[number(step), number(loss)] for step, loss in points]
    shown = counted(len(outcome.curve), "point") + (f", {_POINTS} shown" if len(outcome.curve) > _POINTS else "")
    name = short(view.history.goals.label, 30)
    numbers = table(["Step", name.capitalize()], rows, f"Reported values: {shown}")
    return section(
        "Learning curve",
        figure(
            link_to("/api/curve", study=view.name, number=trial.number),
            f"Reported {name} over steps",
            menus=row(scale_menu("curve")),
            titled=False,
        ),
        details("As a table", numbers),
    )


def _lineage(view: Snapshot, trial: Trial) -> Markup | None:
    numbers = view.lineage[trial.config_id]
    if len(numbers) == 1:
        return None
    rows = []
    for n in numbers:
        other, outcome = view.history.trials[n], view.history.outcomes.get(n)
        name = element("strong", f"Trial {n} (this one)") if n == trial.number else trial_link(view.name, n)
        loss = number(view.history.goals.shown(outcome.loss) if outcome else None)
        rows.append([name, number(other.budget), badge(state(view.history, n)), loss])
    listing = table(
        ["Trial", "Budget", "Status", short(view.history.goals.label, 30).capitalize()],
        rows,
        "Trials of this configuration",
    )
    return section("All budgets of this configuration", listing)


def _info(outcome: Outcome | None) -> Markup | None:
    if outcome is None or not outcome.info:
        return None
    text = json.dumps(outcome.info, indent=2, ensure_ascii=False, default=str)
    return section("Info from the objective", element("pre", short(text, _CHARACTERS), tabindex="0"))
