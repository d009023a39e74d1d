"""One study, live: numbers, incumbent, running trials, brackets, failures, and how the loss came down."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.analysis.failures import Cause, failures
from bohb.core.history import Result
from bohb.dashboard.layout import Page, facts, figure, section, table
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.pages.parts import config_line, config_table, loss_on_budget, origin_word, trial_link
from bohb.dashboard.pages.studies import study_state
from bohb.dashboard.studies import View
from bohb.dashboard.words import DASH, ago, count, duration, link_to, moment, number, since

_RUNNING = 64  # rows of running trials
_BRACKETS = 12
_CAUSES = 5


def overview_page(view: View, now: float) -> Page:
    """The study as it stands."""
    main = markup(
        _numbers(view, now),
        el("div", _incumbent(view), _figure(view, "trajectory", "Best loss so far"), class_="two"),
        _running(view, now),
        _brackets(view),
        el("div", _budgets(view), _figure(view, "losses", "All losses"), class_="two"),
        _failures(view),
    )
    heading = el("h1", short(view.name, 200), class_="user")
    return Page(
        view.name,
        main,
        study=view.name,
        tab="Overview",
        version_url=link_to("/api/version", study=view.name),
        version=str(view.version),
        now=now,
        figures=True,
        heading=heading,
    )


def _numbers(view: View, now: float) -> Html:
    numbers, created = view.summary, view.history.created
    best: object = DASH
    if numbers.incumbent is not None:
        best = loss_on_budget(numbers.incumbent.loss, numbers.incumbent.budget)
    failed: object = f"{numbers.failed:,}"
    if numbers.failed:
        failed = el("a", f"{numbers.failed:,}", href=link_to("/trials", study=view.name, status="failed"))
    rows: list[tuple[str, object]] = [
        ("State", study_state(numbers.trials, numbers.running)),
        ("Best loss", best),
        ("Trials finished", f"{numbers.finished:,} of {numbers.trials:,} started"),
        ("Trials failed", failed),
        ("Configurations", f"{numbers.configurations:,}"),
        ("Budget spent", f"{number(numbers.spent_continued, 4)} full evaluations"),
        ("Time at work", duration(numbers.seconds)),
        ("Rate", DASH if not numbers.rate else f"{_per_minute(numbers.rate)} trials per minute"),
        ("Last activity", ago(view.last_activity, now)),
        ("Begun", moment(created.time if created else None)),
    ]
    if numbers.waiting:
        rows.insert(2, ("Waiting for a new worker", count(numbers.waiting, "trial")))
    return facts(rows, aria_label="Summary")


def _per_minute(rate: float) -> str:
    return f"{60 * rate:,.0f}" if rate > 2 else number(60 * rate, 2)


def _incumbent(view: View) -> Html:
    best = view.history.incumbent
    if best is None:
        return section("Best configuration", el("p", "No trial has finished with a loss yet.", class_="quiet"))
    return section("Best configuration", _best(view.name, best), id="incumbent")


def _best(study: str, best: Result) -> Html:
    where = el(
        "p",
        "Loss ",
        loss_on_budget(best.loss, best.budget),
        ", found by ",
        trial_link(study, best.trial.number, f"trial {best.trial.number}"),
        ".",
    )
    return markup(where, config_table(best.config, "incumbent"))


def _running(view: View, now: float) -> Html:
    running = view.history.running
    if not running:
        return section("Running trials", el("p", "No trial is running.", class_="quiet"), id="running")
    rows: list[list[object]] = [
        [
            trial_link(view.name, n, str(n)),
            number(trial.budget),
            f"{trial.bracket} / {trial.rung}",
            origin_word(trial.origin),
            since(view.history.started.get(n), now),
            el("td", config_line(trial.config, 160), class_="user wide"),
        ]
        for n, trial in list(running.items())[:_RUNNING]
    ]
    more = len(running) - len(rows)
    caption = f"{count(len(running), 'trial')} running" + (f", the first {_RUNNING} of them" if more > 0 else "")
    columns: list[object] = ["Trial", "Budget", "Bracket / rung", "Origin", "Elapsed", "Configuration"]
    return section("Running trials", table(caption, columns, rows), id="running")


def _brackets(view: View) -> Html:
    history = view.history
    if not history.brackets:
        return section("Brackets", el("p", "No bracket was opened yet.", class_="quiet"), id="brackets")
    shown = sorted(set(history.open_brackets) | set(range(len(history.brackets))[-_BRACKETS:]))[-3 * _BRACKETS :]
    filled = _filled(view, set(shown))
    cards = [_bracket(view, index, filled) for index in reversed(shown)]
    hidden = len(history.brackets) - len(shown)
    note = el("p", f"{count(hidden, 'earlier bracket')}, all complete, not shown.", class_="quiet") if hidden else None
    explained = el(
        "p",
        "Each bracket starts many configurations on a small budget; when a rung is full, its best go on to the next.",
        class_="note",
    )
    return section("Brackets and rungs", explained, el("ul", cards, class_="brackets"), note, id="brackets")


@dataclass(slots=True)
class _Filled:
    """How far a rung is."""

    started: int = 0
    finished: int = 0


def _filled(view: View, brackets: set[int]) -> dict[tuple[int, int], _Filled]:
    """Counts by bracket and rung, of these brackets alone: a large study has hundreds."""
    found: dict[tuple[int, int], _Filled] = {}
    for number_, trial in view.history.trials.items():
        if trial.bracket in brackets:
            rung = found.setdefault((trial.bracket, trial.rung), _Filled())
            rung.started += 1
            rung.finished += number_ in view.history.outcomes
    return found


def _bracket(view: View, index: int, filled: dict[tuple[int, int], _Filled]) -> Html:
    halving = view.history.brackets[index]
    rungs = [filled.get((index, place), _Filled()) for place in range(len(halving.bracket.rungs))]
    bars = [
        _rung(plan.budget, rung.started if halving.rung > place else plan.size, rung.finished)
        for place, (plan, rung) in enumerate(zip(halving.bracket.rungs, rungs, strict=True))
    ]
    running = sum(rung.started - rung.finished for rung in rungs)
    state = "complete" if halving.done else f"on rung {halving.rung}, {running} running"
    link = el("a", f"Bracket {index}", href=link_to("/trials", study=view.name, bracket=index))
    return el("li", el("h3", link, " ", el("small", state)), el("ol", bars, start="0"))


def _rung(budget: float, planned: int, finished: int) -> Html:
    text = f"{finished} of {planned}"
    label = f"budget {number(budget)}"
    bar = el("progress", value=finished, max=max(planned, 1), aria_label=f"{label}: {text} finished")
    return el("li", el("span", label), bar, el("span", text))


def _budgets(view: View) -> Html:
    rows: list[list[object]] = [
        [
            el("a", number(row.budget), href=link_to("/trials", study=view.name, budget=f"{row.budget:g}")),
            f"{row.finished:,}",
            f"{row.failed:,}",
            number(row.best),
            duration(row.seconds),
        ]
        for row in view.summary.budgets
    ]
    if not rows:
        return section("Budgets", el("p", "No trial has finished yet.", class_="quiet"))
    columns: list[object] = ["Budget", "Finished", "Failed", "Best loss", "Mean duration"]
    return section("Budgets", table("Finished trials by budget", columns, rows))


def _failures(view: View) -> Html | None:
    causes = failures(view.history)
    if not causes:
        return None
    rows = [_cause(view.name, cause) for cause in causes[:_CAUSES]]
    columns: list[object] = ["Trials", "How", "Cause", "First"]
    more = len(causes) - len(rows)
    note = el("p", f"{count(more, 'further cause')} not shown.", class_="quiet") if more > 0 else None
    return section("Failures by cause", table("Failed trials, grouped by cause", columns, rows), note, id="failures")


def _cause(study: str, cause: Cause) -> list[object]:
    return [
        f"{cause.n:,}",
        el("a", cause.status.value.replace("_", " "), href=link_to("/trials", study=study, status=cause.status.value)),
        el("td", short(cause.cause, 200), class_="user wide", title=short(cause.example, 500)),
        trial_link(study, cause.numbers[0], str(cause.numbers[0])),
    ]


def _figure(view: View, plot: str, title: str) -> Html:
    return figure(link_to("/api/figure", study=view.name, plot=plot), title, height=360)
