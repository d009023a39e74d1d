"""One trial: what it ran, why, what became of it, what it printed and left behind."""

from __future__ import annotations

import json
import math

from bohb.analysis.clock import finished, started
from bohb.analysis.why import why
from bohb.core.trial import Outcome, Trial
from bohb.dashboard.files import Log, StoredFile
from bohb.dashboard.layout import Page, facts, figure, section, table
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.pages.parts import badge, config_table, origin_word, trial_link
from bohb.dashboard.rows import seconds, state
from bohb.dashboard.studies import View
from bohb.dashboard.words import DASH, count, duration, link_to, moment, number, since, size

_CHARACTERS = 100_000  # of a traceback or of `info`
_POINTS = 50  # rows of a learning curve


def trial_page(view: View, trial: Trial, log: Log | None, files: tuple[list[StoredFile], bool], now: float) -> Page:
    """Everything about one trial."""
    outcome = view.history.outcomes.get(trial.number)
    heading = el("h1", f"Trial {trial.number} ", badge(state(view.history, trial.number)))
    main = markup(
        _neighbours(view, trial),
        _failure(outcome),
        el("div", _facts(view, trial, outcome, now), _configuration(trial), class_="two"),
        _why(view, trial),
        _curve(view, trial, outcome),
        _lineage(view, trial),
        _info(outcome),
        _output(outcome, log),
        _checkpoint(trial, *files),
    )
    return Page(
        f"Trial {trial.number} of {short(view.name, 100)}",
        main,
        study=view.name,
        tab="Trials",
        version_url=link_to("/api/version", study=view.name, trial=trial.number),
        version=trial_version(view, trial.number),
        now=now,
        figures=outcome is not None and len(outcome.curve) > 0,
        heading=heading,
    )


def trial_version(view: View, trial: int) -> str:
    """What changes when this trial's page does: its own state, and its rung's."""
    history = view.history
    place = history.trials[trial]
    halving = history.brackets[place.bracket]
    budgets = len(view.lineage[place.config_id])
    return f"{state(history, trial)}-{place.attempt}-{halving.rung}-{halving.finished}-{budgets}"


def _neighbours(view: View, trial: Trial) -> Html:
    before, after = trial.number - 1, trial.number + 1
    links = [trial_link(view.name, before, "‹ previous trial")] if before in view.history.trials else []
    links += [trial_link(view.name, after, "next trial ›")] if after in view.history.trials else []
    links.append(el("a", "all trials", href=link_to("/trials", study=view.name)))
    return el("nav", el("ul", [el("li", link) for link in links]), aria_label="Neighbouring trials", class_="pager")


def _facts(view: View, trial: Trial, outcome: Outcome | None, now: float) -> Html:
    history, n = view.history, trial.number
    spent: object = duration(seconds(history, n)) if outcome else since(history.started.get(n), now)
    continued = "" if trial.previous_budget is None else f" (continued from {number(trial.previous_budget)})"
    rows: list[tuple[str, object]] = [
        ("Loss", el("strong", number(outcome.loss if outcome else None))),
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
        rows.append(("Worker", el("span", short(outcome.worker, 100), class_="user")))
    return section("What ran", facts(rows))


def _configuration(trial: Trial) -> Html:
    return section("Configuration", config_table(trial.config, "trial"))


def _failure(outcome: Outcome | None) -> Html | None:
    if outcome is None or outcome.ok:
        return None
    trace = None
    if outcome.traceback:
        trace = el("details", el("summary", "Traceback"), el("pre", _cut(outcome.traceback), tabindex="0"), open=True)
    return section("What went wrong", el("p", _cut(outcome.error or "no message"), class_="trouble user"), trace)


def _why(view: View, trial: Trial) -> Html:
    explained = why(view.history, trial.number)
    links = []
    if explained.from_trial is not None:
        links.append(trial_link(view.name, explained.from_trial, f"promoted from trial {explained.from_trial}"))
    if explained.promoted_to is not None:
        links.append(trial_link(view.name, explained.promoted_to, f"went on as trial {explained.promoted_to}"))
    sentences = [el("li", sentence, class_="user") for sentence in explained.sentences]
    return section("Why", el("ul", sentences), el("p", [markup(link, " ") for link in links]) if links else None)


def _curve(view: View, trial: Trial, outcome: Outcome | None) -> Html | None:
    if outcome is None or not outcome.curve:
        return None
    rows: list[list[object]] = [[number(step), number(loss)] for step, loss in _thinned(outcome.curve)]
    shown = count(len(outcome.curve), "point") + (f", {_POINTS} shown" if len(outcome.curve) > _POINTS else "")
    numbers = table(f"Reported losses: {shown}", ["Step", "Loss"], rows)
    return section(
        "Learning curve",
        figure(link_to("/api/curve", study=view.name, number=trial.number), "Reported loss over steps", titled=False),
        el("details", el("summary", "As a table"), numbers),
    )


def _thinned(curve: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Evenly spaced points of a curve, the last one included."""
    every = max(1, math.ceil(len(curve) / _POINTS))
    return list(reversed(curve[::-1][::every]))


def _lineage(view: View, trial: Trial) -> Html | None:
    numbers = view.lineage[trial.config_id]
    if len(numbers) == 1:
        return None
    rows: list[list[object]] = []
    for n in numbers:
        other, outcome = view.history.trials[n], view.history.outcomes.get(n)
        name: object = el("strong", f"Trial {n} (this one)") if n == trial.number else trial_link(view.name, n)
        loss = number(outcome.loss if outcome else None)
        rows.append([name, number(other.budget), badge(state(view.history, n)), loss])
    return section("The same configuration", table("On all its budgets", ["Trial", "Budget", "Status", "Loss"], rows))


def _info(outcome: Outcome | None) -> Html | None:
    if outcome is None or not outcome.info:
        return None
    text = json.dumps(outcome.info, indent=2, ensure_ascii=False, default=str)
    return section("What the objective noted", el("pre", _cut(text), tabindex="0"))


def _output(outcome: Outcome | None, log: Log | None) -> Html:
    kept = outcome.output if outcome is not None else None
    if log is not None:
        note = f"The last part of {size(log.size)}." if log.cut else f"{size(log.size)}, from the study's logs."
        text = log.text
    elif kept:
        note, text = "The end of it, as the journal keeps it.", kept
    else:
        return section("Output", el("p", "No output was kept for this trial.", class_="quiet"))
    return section("Output", el("p", note, class_="note"), el("pre", text, class_="log", tabindex="0"))


def _checkpoint(trial: Trial, files: list[StoredFile], more: bool) -> Html:
    if not files:
        nothing = "No checkpoint of this configuration is stored (any more)."
        return section("Checkpoint", el("p", nothing, class_="quiet"))
    rows: list[list[object]] = [[el("td", short(file.name, 200), class_="user"), size(file.size)] for file in files]
    caption = f"Files of configuration {trial.config_id}" + (f", the first {len(files)} of them" if more else "")
    return section("Checkpoint", table(caption, ["File", "Size"], rows))


def _cut(text: str) -> str:
    return text if len(text) <= _CHARACTERS else text[:_CHARACTERS] + "\n[…]"
