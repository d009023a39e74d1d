"""The query of the trials table: filters, order and page, as parameters of an address."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from bohb.analysis.trials import sorted_trials, state
from bohb.core.history import History
from bohb.core.trial import STATES as TRIAL_STATES
from bohb.core.trial import Origin, Status
from bohb.dashboard.studies import Snapshot

SIZES = (50, 100, 200)
STATES = ("failed", *TRIAL_STATES)  # "failed" is every ending but ok


@dataclass(frozen=True, slots=True)
class Query:
    """What the reader wants to see.

    q: words that must all occur in the configuration, `info`, the error or the worker.
    status: one of `STATES`; origin, budget, bracket, config: exact values. Empty: all trials.
    sort: a column, `config.name` for a hyperparameter; order: "asc" or "desc".
    page: from 1; size: rows per page.
    """

    q: str = ""
    status: str = ""
    origin: str = ""
    budget: str = ""
    bracket: str = ""
    config: str = ""
    sort: str = "number"
    order: str = "desc"
    page: int = 1
    size: int = SIZES[0]

    def parameters(self, **changes: object) -> dict[str, object]:
        """Return the query as parameters of an address, without those that have their default."""
        changed = asdict(replace(self, **changes))  # type: ignore[arg-type]  # callers pass fields of this class
        return {name: value for name, value in changed.items() if value != _DEFAULTS[name]}

    @property
    def filtered(self) -> bool:
        """Whether trials are filtered at all."""
        return any((self.q, self.status, self.origin, self.budget, self.bracket, self.config))


_DEFAULTS = asdict(Query())


@dataclass(frozen=True, slots=True)
class Selection:
    """The trials on one page of the table.

    numbers: their numbers, in order.
    total: the number of trials on all pages.
    """

    numbers: list[int]
    total: int
    page: int
    pages: int


def parse(parameters: Mapping[str, str]) -> Query:
    """Read a query from the parameters of an address; invalid values are ignored."""
    given = {name: parameters[name][:200] for name in _DEFAULTS if name in parameters}
    page, size = given.pop("page", ""), given.pop("size", "")
    query = Query(**given)  # type: ignore[arg-type]  # the other fields are text
    return replace(
        query,
        status=query.status if query.status in STATES else "",
        origin=query.origin if query.origin in list(Origin) else "",
        order="asc" if query.order == "asc" else "desc",
        page=int(page) if page.isdecimal() and len(page) < 8 and int(page) > 0 else 1,
        size=int(size) if size.isdecimal() and int(size[:6]) in SIZES else SIZES[0],
    )


def select(view: Snapshot, query: Query) -> Selection:
    """Return one page of the trials that match a query; the last one if `query.page` is too large."""
    numbers = matching(view, query)
    pages = max(1, math.ceil(len(numbers) / query.size))
    page = min(query.page, pages)
    return Selection(numbers[(page - 1) * query.size : page * query.size], len(numbers), page, pages)


def matching(view: Snapshot, query: Query) -> list[int]:
    """Return all trials that match a query, in its order."""
    numbers = [n for n in view.history.trials if _matches(view.history, n, query)]
    words = query.q.casefold().split()
    if words:
        texts = view.texts
        numbers = [n for n in numbers if all(word in texts[n] for word in words)]
    return sorted_trials(view.history, numbers, query.sort, query.order == "desc")


def _matches(history: History, number: int, query: Query) -> bool:
    trial = history.trials[number]
    if query.status:
        here = state(history, number)
        failed = query.status == "failed" and number in history.outcomes and here != Status.OK.value
        if here != query.status and not failed:
            return False
    return (
        (not query.origin or trial.origin == query.origin)
        and (not query.budget or f"{trial.budget:g}" == query.budget)
        and (not query.bracket or str(trial.bracket) == query.bracket)
        and (not query.config or str(trial.config_id) == query.config)
    )
