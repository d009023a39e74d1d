"""The overview of a study: numbers, incumbent, running trials, brackets, budgets and failures."""

from __future__ import annotations

from collections import Counter

from bohb.analysis import verdicts
from bohb.analysis.overview import Overview
from bohb.analysis.trials import Cause, failures
from bohb.analysis.verdicts import best_title
from bohb.core.goals import Goals
from bohb.core.results import Result
from bohb.dashboard.layout import Page, ago, facts, figure, link_to, moment, section, sentence, since, study_page
from bohb.dashboard.note_form import note_form
from bohb.dashboard.pages.parts import (
    config_line,
    config_table,
    notes_section,
    origin_word,
    shown_best,
    study_state,
    trial_link,
)
from bohb.dashboard.studies import Snapshot
from bohb.plots import PLOTS
from bohb.plots.markup import Markup, element, joined, table
from bohb.plots.menus import row, scale_menu
from bohb.units import DASH, counted, duration, grouped, number, short

_Places = Counter[tuple[int, int]]  # numbers of trials by bracket and rung
_RUNNING = 64  # rows of running trials
_BRACKETS = 12
_CAUSES = 5
_FRONT = 30  # rows of the front
_BRACKETS_EXPLAINED = (
    "Each bracket starts many configurations on a small budget. When a rung is full, its best go on to the next rung."
)


def overview_page(view: Snapshot, now: float, editable: bool = False) -> Page:
    """Return the current state of a study.

    editable: whether notes can be added.
    """
    name = short(view.history.goals.label, 30)
    main = joined(
        _numbers(view, now),
        element("div", _incumbent(view), _figure(view, "trajectory", f"Best {name} so far"), class_="two"),
        _confirmation(view),
        notes_section(view.history, form=note_form(view.name) if editable else None),
        _front(view),
        _running(view, now),
        _brackets(view),
        element("div", _budgets(view), _figure(view, "losses", "All results"), class_="two"),
        _failures(view),
    )
    heading = element("h1", short(view.name, 200), class_="user")
    return study_page(view, "Overview", main, figures=True, heading=heading)


def _numbers(view: Snapshot, now: float) -> Markup:
    """Return the facts of the overview; times that pass are kept current by the page's script."""
    seen, created = view.overview, view.history.created
    left = Overview(view.history, now).left
    known: dict[str, object] = dict(seen.facts())
    started = known.pop("Started")
    rows = {
        **known,
        "State": study_state(seen.counts),
        best_title(view.history.goals): shown_best(view.history.goals, seen.best),
        "Time left": DASH if left is None else joined(f"about {duration(left)}, until ", moment(now + left)),
        "Last activity": ago(seen.last_event, now),
        "Started": started if created is None else moment(created.time),
    }
    if seen.failures:
        n, kinds = str(known["Trials failed"]).split(":", 1)
        link = element("a", n, href=link_to("/trials", study=view.name, status="failed"))
        rows["Trials failed"] = joined(link, f":{kinds}")
    return facts(list(rows.items()), aria_label="Summary")


def _incumbent(view: Snapshot) -> Markup:
    best = view.history.incumbent
    if best is None:
        return section(
            "Best configuration",
            element("p", "No trial has finished with a result yet.", class_="quiet"),
        )
    link = trial_link(view.name, best.trial.number, f"trial {best.trial.number}")
    goals = view.history.goals
    name = f"{short(goals.label, 30).capitalize()} " if len(goals.names) == 1 else ""
    where = element("p", name, shown_best(goals, best), ", found by ", link, ".")
    remarks = [element("li", remark, class_="user") for remark in view.overview.remarks]
    listed = element("ul", remarks, class_="remarks") if remarks else None
    return section("Best configuration", where, listed, config_table(best.config, "incumbent"), id="incumbent")


def _confirmation(view: Snapshot) -> Markup | None:
    """Return what new evaluations of the best configurations found; None without any."""
    if not view.history.confirmations:
        return None
    last = view.history.confirmations[-1]
    lines = [element("li", sentence(line) + ".") for line in verdicts.last_verdict(view.history)]
    columns = [sentence(column) for column in verdicts.columns(last)]
    found = table(columns, verdicts.rows(last), "Candidates, evaluated again with new seeds")
    return section("Confirmation", element("ul", lines), found, id="confirmation")


def _front(view: Snapshot) -> Markup | None:
    """Return the front of a study with several objectives, and the constraints against the objective otherwise."""
    goals = view.history.goals
    if goals.single:
        return None
    plot = _figure(view, "front", "Results by their values")
    if not goals.several:
        return plot
    rows = [
        [
            trial_link(view.name, result.trial.number, str(result.trial.number)),
            *(element("td", number(result.values[name]), class_="number") for name in goals.names),
            element("td", config_line(result.config, 120), class_="user wide"),
        ]
        for result in view.history.front[:_FRONT]
    ]
    found = counted(len(view.history.front), "result") + " that no other dominates"
    columns = ["Trial", *(short(name, 24) for name in goals.names), "Configuration"]
    nothing = element("p", "No result keeps the constraints yet.", class_="quiet")
    listing = table(columns, rows, found) if rows else nothing
    return joined(section("Front", listing, id="front"), plot)


def _running(view: Snapshot, now: float) -> Markup:
    running = view.history.running
    if not running:
        return section("Running trials", element("p", "No trial is running.", class_="quiet"), id="running")
    rows = [
        [
            trial_link(view.name, n, str(n)),
            number(trial.budget),
            f"{trial.bracket} / {trial.rung}",
            origin_word(trial.origin),
            since(view.history.started.get(n), now),
            element("td", config_line(trial.config, 160), class_="user wide"),
        ]
        for n, trial in list(running.items())[:_RUNNING]
    ]
    caption = counted(len(running), "running trial") + (f"; the first {_RUNNING}" if len(running) > _RUNNING else "")
    columns = ["Trial", "Budget", "Bracket / rung", "Origin", "Elapsed", "Configuration"]
    return section("Running trials", table(columns, rows, caption), id="running")


def _brackets(view: Snapshot) -> Markup:
    history = view.history
    if not history.brackets:
        return section("Brackets", element("p", "No bracket has been opened yet.", class_="quiet"), id="brackets")
    shown = sorted(set(history.schedule.open) | set(range(len(history.brackets))[-_BRACKETS:]))[-3 * _BRACKETS :]
    places = [(n, (t.bracket, t.rung)) for n, t in history.trials.items() if t.bracket in shown]
    started = Counter(place for _, place in places)
    finished = Counter(place for n, place in places if n in history.outcomes)
    cards = [_bracket(view, index, started, finished) for index in reversed(shown)]
    hidden = len(history.brackets) - len(shown)
    note = f"{counted(hidden, 'earlier bracket')}, all complete, not shown."
    return section(
        "Brackets and rungs",
        element("p", _BRACKETS_EXPLAINED, class_="note"),
        element("ul", cards, class_="brackets"),
        element("p", note, class_="quiet") if hidden else None,
        id="brackets",
    )


def _bracket(
    view: Snapshot, index: int, started: Counter[tuple[int, int]], finished: Counter[tuple[int, int]]
) -> Markup:
    """Return one bracket, with the number of started and finished trials by (bracket, rung)."""
    halving = view.history.brackets[index]
    bars, running = [], 0
    for rung, plan in enumerate(halving.bracket.rungs):
        place = (index, rung)
        running += started[place] - finished[place]
        bars.append(_rung(plan.budget, started[place] if halving.rung > rung else plan.size, finished[place]))
    state = "complete" if halving.done else f"on rung {halving.rung}, {running} running"
    link = element("a", f"Bracket {index}", href=link_to("/trials", study=view.name, bracket=index))
    return element("li", element("h3", link, " ", element("small", state)), element("ol", bars, start="0"))


def _rung(budget: float, planned: int, finished: int) -> Markup:
    text = f"{finished} of {planned}"
    label = f"budget {number(budget)}"
    bar = element("progress", value=finished, max=max(planned, 1), aria_label=f"{label}: {text} finished")
    return element("li", element("span", label), bar, element("span", text))


def _budgets(view: Snapshot) -> Markup:
    goals = view.history.goals
    rows = [
        [
            element("a", number(row.budget), href=link_to("/trials", study=view.name, budget=f"{row.budget:g}")),
            grouped(row.finished),
            grouped(row.failed),
            *(number(value) for value in _best_values(goals, row.best)),
            duration(row.seconds),
        ]
        for row in view.overview.budgets
    ]
    if not rows:
        return section("Budgets", element("p", "No trial has finished yet.", class_="quiet"))
    titles = [best_title(goals)] if len(goals.names) == 1 else [f"Best: {short(name, 24)}" for name in goals.names]
    columns = ["Budget", "Finished", "Failed", *titles, "Mean duration"]
    return section("Budgets", table(columns, rows, "Finished trials by budget"))


def _best_values(goals: Goals, best: Result | None) -> list[float | None]:
    """Return the best result on a budget as the user knows it: one value, or all named ones."""
    if len(goals.names) == 1:
        return [goals.shown(best.loss) if best else None]
    return [best.values.get(name) if best else None for name in goals.names]


def _failures(view: Snapshot) -> Markup | None:
    causes = failures(view.history)
    if not causes:
        return None
    rows = [_cause(view.name, cause) for cause in causes[:_CAUSES]]
    listing = table(["Trials", "Status", "Message", "First trial"], rows, "Failed trials, grouped by cause")
    more = len(causes) - len(rows)
    note = element("p", f"{counted(more, 'further cause')} not shown.", class_="quiet") if more > 0 else None
    explained = "Messages of one cause differ at most in numbers and names; that of the first trial is shown."
    return section("Failures by cause", element("p", explained, class_="note"), listing, note, id="failures")


def _cause(study: str, cause: Cause) -> list[object]:
    status = cause.status.value
    return [
        grouped(cause.n),
        element("a", status.replace("_", " "), href=link_to("/trials", study=study, status=status)),
        element("td", short(cause.example, 200), class_="user wide", title=short(cause.example, 2000)),
        trial_link(study, cause.numbers[0], str(cause.numbers[0])),
    ]


def _figure(view: Snapshot, plot: str, title: str) -> Markup:
    menu = row(scale_menu(plot)) if PLOTS[plot].scaled else None
    return figure(link_to("/api/figure", study=view.name, plot=plot), title, menus=menu, height=360)
