"""The trials table: search, filters, sorted columns, one page at a time."""

from __future__ import annotations

from bohb.analysis.clock import started
from bohb.core.trial import Origin, Trial
from bohb.dashboard.layout import Page, table
from bohb.dashboard.markup import Html, el, markup, short
from bohb.dashboard.pages.parts import badge, config_line, origin_word, trial_link
from bohb.dashboard.rows import SIZES, STATES, Query, Selection, seconds, select, state
from bohb.dashboard.studies import View
from bohb.dashboard.words import count, duration, link_to, moment, number, since, value_text

_COLUMNS = (
    ("number", "Trial"),
    ("status", "Status"),
    ("loss", "Loss"),
    ("budget", "Budget"),
    ("bracket", "Bracket / rung"),
    ("origin", "Origin"),
    ("started", "Started"),
    ("seconds", "Duration"),
)
_DOWN_FIRST = ("number", "started", "seconds")  # newest and longest first
MOST_PARAMETERS = 8  # as columns of their own; the rest share one


def trials_page(view: View, query: Query, now: float) -> Page:
    """The trials that answer the query."""
    selection = select(view, query)
    main = markup(_filters(view, query), _found(view, query, selection, now))
    return Page(
        f"Trials of {short(view.name, 100)}",
        main,
        study=view.name,
        tab="Trials",
        version_url=link_to("/api/version", study=view.name),
        version=str(view.version),
        now=now,
        heading=el("h1", "Trials"),
    )


def _found(view: View, query: Query, selection: Selection, now: float) -> Html:
    total = len(view.history.trials)
    if not total:
        return el("p", "No trial was started yet.", class_="lead", id="found")
    found = f"{selection.total:,} of {count(total, 'trial')}" if query.filtered else count(total, "trial")
    status = el("p", found, class_="lead", id="found")
    if not selection.total:
        everything = el("a", "show all", href=link_to("/trials", study=view.name), data_soft=True)
        return markup(status, el("p", "Nothing matches; ", everything, "."))
    names = [scale.name for scale in view.history.space.dimensions][:MOST_PARAMETERS]
    rest = len(view.history.space.dimensions) > len(names)
    columns = [_header(view, query, column, label) for column, label in _COLUMNS]
    columns += [_header(view, query, f"p:{name}", short(name, 24), name) for name in names]
    columns += [el("th", "Other hyperparameters", scope="col")] if rest else []
    rows = [_row(view, view.history.trials[n], names, rest, now) for n in selection.numbers]
    listing = table(f"Trials, page {selection.page} of {selection.pages}", list(columns), rows, class_="trials")
    return markup(status, listing, _pager(view, query, selection))


def _header(view: View, query: Query, column: str, label: str, name: str | None = None) -> Html:
    """A column's head: a link that sorts by it, or turns the order round."""
    current = query.sort == column
    first = "desc" if column in _DOWN_FIRST else "asc"
    order = {"asc": "desc", "desc": "asc"}[query.order] if current else first
    href = link_to("/trials", study=view.name, **query.parameters(sort=column, order=order, page=1))
    sort = {"asc": "ascending", "desc": "descending"}[query.order] if current else None
    link = el("a", label, href=href, data_soft=True, title=name, class_="user")
    return el("th", link, scope="col", aria_sort=sort)


def _row(view: View, trial: Trial, names: list[str], rest: bool, now: float) -> list[object]:
    history, n = view.history, trial.number
    outcome = history.outcomes.get(n)
    took: object = duration(seconds(history, n)) if outcome else since(history.started.get(n), now)
    best = history.incumbent is not None and history.incumbent.trial.number == n
    cells: list[object] = [
        el("th", trial_link(view.name, n, str(n)), " ★" if best else None, scope="row", title="best" if best else None),
        badge(state(history, n)),
        el("td", number(outcome.loss if outcome else None), class_="number"),
        el("td", number(trial.budget), class_="number"),
        f"{trial.bracket} / {trial.rung}",
        origin_word(trial.origin),
        moment(started(history, n)),
        el("td", took, class_="number"),
    ]
    cells += [el("td", short(value_text(trial.config.get(name, "–")), 24), class_="user") for name in names]
    if rest:
        others = {name: value for name, value in trial.config.items() if name not in names}
        cells.append(el("td", config_line(others, 80), class_="user wide"))
    return cells


def _filters(view: View, query: Query) -> Html:
    """A plain form: it works without scripts; with them it answers as one types."""
    budgets = [f"{budget:g}" for budget in sorted({t.budget for t in view.history.trials.values()})]
    brackets = [str(index) for index in range(len(view.history.brackets))]
    kept = {"study": view.name, "sort": query.sort, "order": query.order, "config": query.config}
    return el(
        "form",
        [el("input", type="hidden", name=name, value=value) for name, value in kept.items() if value],
        _field(
            "Search", el("input", type="search", name="q", id="q", value=query.q, placeholder="value, error, worker")
        ),
        _choice("Status", "status", STATES, query.status),
        _choice("Origin", "origin", tuple(Origin), query.origin),
        _choice("Budget", "budget", budgets, query.budget),
        _choice("Bracket", "bracket", brackets, query.bracket),
        _choice("Rows", "size", [str(size) for size in SIZES], str(query.size), everything=False),
        el("div", el("button", "Show", type="submit"), class_="field"),
        action="/trials",
        method="get",
        class_="filters",
        role="search",
        data_soft=True,
        data_keep=True,
    )


def _field(label: str, control: Html, name: str = "q") -> Html:
    return el("div", el("label", label, for_=name), control, class_="field")


def _choice(label: str, name: str, options: object, chosen: str, everything: bool = True) -> Html:
    assert isinstance(options, list | tuple)
    choices = [el("option", "all", value="")] if everything else []
    choices += [
        el("option", str(value).replace("_", " "), value=str(value), selected=str(value) == chosen) for value in options
    ]
    return _field(label, el("select", choices, name=name, id=name), name)


def _pager(view: View, query: Query, selection: Selection) -> Html | None:
    if selection.pages == 1:
        return None
    page, pages = selection.page, selection.pages
    steps = (("« First", 1), ("‹ Previous", page - 1), ("Next ›", page + 1), ("Last »", pages))
    items = []
    for label, target in steps:
        possible = 1 <= target <= pages and target != page
        href = link_to("/trials", study=view.name, **query.parameters(page=target)) if possible else None
        items.append(
            el("li", el("a", label, href=href, data_soft=possible, aria_disabled=None if possible else "true"))
        )
    items.insert(2, el("li", f"page {page:,} of {pages:,}"))
    return el("nav", el("ul", items), aria_label="Pages of the table", class_="pager")
