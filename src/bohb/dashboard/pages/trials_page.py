"""The trials table: search, filters, sortable columns, one page at a time, and all of it as CSV."""

from __future__ import annotations

from bohb.analysis.trials import CONFIG, INFO, VALUES, column, seconds, started, state
from bohb.core.trial import Origin, Trial
from bohb.dashboard.layout import Page, link_to, moment, since, study_page
from bohb.dashboard.pages.parts import badge, choice, config_line, field, origin_word, trial_link
from bohb.dashboard.query import SIZES, STATES, Query, Selection, select
from bohb.dashboard.studies import Snapshot
from bohb.plots.markup import Markup, element, joined, table
from bohb.units import DASH, counted, duration, grouped, number, short, value_text

_COLUMNS = (
    ("number", "Trial"),
    ("status", "Status"),
    ("budget", "Budget"),
    ("bracket", "Bracket / rung"),
    ("origin", "Origin"),
    ("started", "Started"),
    ("seconds", "Duration"),
)
_DOWN_FIRST = ("number", "started", "seconds")  # newest and longest first
MOST_PARAMETERS = 8  # with a column each; the others share one
MOST_INFO = 6  # entries of `info` with a column each


def trials_page(view: Snapshot, query: Query, now: float) -> Page:
    """Return the trials that match the query."""
    selection = select(view, query)
    return study_page(view, "Trials", joined(_filters(view, query), _found(view, query, selection, now)))


def _found(view: Snapshot, query: Query, selection: Selection, now: float) -> Markup:
    total = len(view.history.trials)
    if not total:
        return element("p", "No trial has been started yet.", class_="lead", id="found")
    all_trials = counted(total, "trial")
    found = f"{grouped(selection.total)} of {all_trials}" if query.filtered else all_trials
    status = element("p", found, class_="lead", id="found")
    if not selection.total:
        everything = element("a", "show all", href=link_to("/trials", study=view.name), data_soft=True)
        return joined(status, element("p", "Nothing matches; ", everything, "."))
    names = [scale.name for scale in view.history.space.dimensions][:MOST_PARAMETERS]
    rest = len(view.history.space.dimensions) > len(names)
    values = _value_columns(view)
    columns = [_header(view, query, column, label) for column, label in (*_COLUMNS[:1], *values, *_COLUMNS[1:])]
    columns += [_header(view, query, CONFIG + name, short(name, 24), name) for name in names]
    columns += [element("th", "Other hyperparameters", scope="col")] if rest else []
    info = _info_columns(view, selection)
    columns += [_header(view, query, column, label, label) for column, label in info]
    shown = [column for column, _ in values], names, [column for column, _ in info]
    rows = [_row(view, view.history.trials[n], *shown, rest, now) for n in selection.numbers]
    listing = table(columns, rows, f"Trials, page {selection.page} of {selection.pages}", class_="trials")
    address = link_to("/trials.csv", study=view.name, **query.parameters(page=1))
    download = element("p", element("a", "Download as CSV", href=address, download="trials.csv"))
    return joined(status, listing, _pager(view, query, selection), download)


def _value_columns(view: Snapshot) -> list[tuple[str, str]]:
    """Return the columns of the results: the loss as the user knows it, or all named values."""
    goals = view.history.goals
    if goals.plain:
        return [("loss", goals.label.capitalize())]
    one = len(goals.names) == 1
    return [(VALUES + name, short(name.capitalize() if one else name, 24)) for name in goals.names]


def _info_columns(view: Snapshot, selection: Selection) -> list[tuple[str, str]]:
    """Return a column for each entry of `info` that a trial on this page has, as many as there is room for."""
    outcomes = (view.history.outcomes.get(n) for n in selection.numbers)
    names = dict.fromkeys(name for outcome in outcomes if outcome is not None for name in outcome.info)
    return [(INFO + name, short(name, 24)) for name in list(names)[:MOST_INFO]]


def _header(view: Snapshot, query: Query, column: str, label: str, name: str | None = None) -> Markup:
    """Return the head of a column: a link that sorts by it, or reverses the order."""
    current = query.sort == column
    first = "desc" if column in _DOWN_FIRST else "asc"
    order = {"asc": "desc", "desc": "asc"}[query.order] if current else first
    href = link_to("/trials", study=view.name, **query.parameters(sort=column, order=order, page=1))
    sort = {"asc": "ascending", "desc": "descending"}[query.order] if current else None
    link = element("a", label, href=href, data_soft=True, title=name, class_="user")
    return element("th", link, scope="col", aria_sort=sort)


def _row(
    view: Snapshot, trial: Trial, values: list[str], names: list[str], info: list[str], rest: bool, now: float
) -> list[object]:
    history, n = view.history, trial.number
    outcome = history.outcomes.get(n)
    took: object = duration(seconds(history, n)) if outcome else since(history.started.get(n), now)
    best = history.incumbent is not None and history.incumbent.trial.number == n
    link, star = trial_link(view.name, n, str(n)), " ★" if best else None
    cells: list[object] = [
        element("th", link, star, scope="row", title="best" if best else None),
        *(element("td", number(column(name)(history, n)), class_="number") for name in values),
        badge(state(history, n)),
        element("td", number(trial.budget), class_="number"),
        f"{trial.bracket} / {trial.rung}",
        origin_word(trial.origin),
        moment(started(history, n)),
        element("td", took, class_="number"),
    ]
    cells += [element("td", short(value_text(trial.config.get(name, DASH)), 24), class_="user") for name in names]
    if rest:
        others = {name: value for name, value in trial.config.items() if name not in names}
        cells.append(element("td", config_line(others, 80), class_="user wide"))
    for name in info:
        value = column(name)(history, n)
        cells.append(element("td", DASH if value is None else short(value_text(value), 40), class_="user"))
    return cells


def _filters(view: Snapshot, query: Query) -> Markup:
    """Return a form that works without scripts; with them, the table changes as one types."""
    budgets = [f"{budget:g}" for budget in sorted({t.budget for t in view.history.trials.values()})]
    states = {state: state.replace("_", " ") for state in STATES}
    kept = {"study": view.name, "sort": query.sort, "order": query.order, "config": query.config}
    search = element("input", type="search", name="q", id="q", value=query.q, placeholder="value, info, error, worker")
    return element(
        "form",
        [element("input", type="hidden", name=name, value=value) for name, value in kept.items() if value],
        field("Search", "q", search),
        choice("Status", "status", states, query.status, "all"),
        choice("Origin", "origin", Origin, query.origin, "all"),
        choice("Budget", "budget", budgets, query.budget, "all"),
        choice("Bracket", "bracket", range(len(view.history.brackets)), query.bracket, "all"),
        choice("Rows", "size", SIZES, str(query.size), None),
        element("div", element("button", "Show", type="submit"), class_="field"),
        action="/trials",
        method="get",
        class_="filters",
        role="search",
        data_soft=True,
        data_keep=True,
    )


def _pager(view: Snapshot, query: Query, selection: Selection) -> Markup | None:
    if selection.pages == 1:
        return None
    page, pages = selection.page, selection.pages
    steps = (("« First", 1), ("‹ Previous", page - 1), ("Next ›", page + 1), ("Last »", pages))
    items = []
    for label, target in steps:
        possible = 1 <= target <= pages and target != page
        href = link_to("/trials", study=view.name, **query.parameters(page=target)) if possible else None
        link = element("a", label, href=href, data_soft=possible, aria_disabled=None if possible else "true")
        items.append(element("li", link))
    items.insert(2, element("li", f"page {grouped(page)} of {grouped(pages)}"))
    return element("nav", element("ul", items), aria_label="Pages of the table", class_="pager")
