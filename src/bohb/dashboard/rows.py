"""The trials table: what was asked for, and which trials answer it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from bohb.analysis.clock import finished, started
from bohb.core.history import History
from bohb.core.trial import Origin, Status
from bohb.dashboard.studies import View

SIZES = (50, 100, 200)
STATES = ("running", "waiting", "failed", *(status.value for status in Status))
_PARAMETER = "p:"
Key = Callable[[int], Any]


@dataclass(frozen=True, slots=True)
class Query:
    """What the reader wants to see.

    q: words that must all occur in the configuration, the error or the worker.
    status: one of `STATES`; origin, budget, bracket, config: exactly these. Empty: all.
    sort: a column, or `p:name` for a hyperparameter; order: "asc" or "desc".
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
        """The query as parameters of an address, defaults left out."""
        changed = asdict(replace(self, **changes))  # type: ignore[arg-type]  # by our own callers, with our own fields
        return {name: value for name, value in changed.items() if value != _DEFAULTS[name]}

    @property
    def filtered(self) -> bool:
        """Whether anything is left out."""
        return any((self.q, self.status, self.origin, self.budget, self.bracket, self.config))


_DEFAULTS = asdict(Query())


@dataclass(frozen=True, slots=True)
class Selection:
    """The trials on one page of the table.

    numbers: their numbers, in order.
    total: how many there are on all pages.
    """

    numbers: list[int]
    total: int
    page: int
    pages: int


def parse(parameters: Mapping[str, str]) -> Query:
    """The query of an address; what makes no sense is ignored."""
    given = {name: parameters[name][:200] for name in _DEFAULTS if name in parameters}
    page, size = given.pop("page", ""), given.pop("size", "")
    query = Query(**given)  # type: ignore[arg-type]  # what is left is text
    return replace(
        query,
        status=query.status if query.status in STATES else "",
        origin=query.origin if query.origin in list(Origin) else "",
        order="asc" if query.order == "asc" else "desc",
        page=int(page) if page.isdecimal() and len(page) < 8 and int(page) > 0 else 1,
        size=int(size) if size.isdecimal() and int(size[:6]) in SIZES else SIZES[0],
    )


def select(view: View, query: Query) -> Selection:
    """Filter, sort and cut to one page; the page is the last one if there are fewer."""
    numbers = [n for n in view.history.trials if _matches(view.history, n, query)]
    words = query.q.casefold().split()
    if words:
        texts = view.texts
        numbers = [n for n in numbers if all(word in texts[n] for word in words)]
    numbers = _sorted(view.history, numbers, query)
    pages = max(1, math.ceil(len(numbers) / query.size))
    page = min(query.page, pages)
    return Selection(numbers[(page - 1) * query.size : page * query.size], len(numbers), page, pages)


def state(history: History, number: int) -> str:
    """One word for how a trial stands."""
    outcome = history.outcomes.get(number)
    if outcome is not None:
        return outcome.status.value
    return "waiting" if number in history.lost else "running"


def seconds(history: History, number: int) -> float | None:
    """How long a trial took; None while it runs and where nobody measured it."""
    outcome, begin = history.outcomes.get(number), started(history, number)
    if outcome is None or begin is None or outcome.finished is None or history.trials[number].reuses is not None:
        return None
    end = finished(history, number)
    return None if end is None else max(0.0, end - begin)


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


def _sorted(history: History, numbers: list[int], query: Query) -> list[int]:
    """By the column asked for; trials without a value there come last, whatever the direction."""
    key, down = _key(history, query.sort), query.order == "desc"
    if key is None:
        return sorted(numbers, reverse=down)
    valued = [(value, n) for n in numbers if (value := key(n)) is not None]
    rest = [n for n in numbers if key(n) is None]
    return [n for _, n in sorted(valued, reverse=down)] + rest


def _key(history: History, column: str) -> Key | None:
    if column.startswith(_PARAMETER):
        name = column.removeprefix(_PARAMETER)
        return lambda n: _comparable(history.trials[n].config.get(name))
    keys: dict[str, Key] = {
        "status": lambda n: state(history, n),
        "loss": lambda n: history.outcomes[n].loss if n in history.outcomes else None,
        "budget": lambda n: history.trials[n].budget,
        "bracket": lambda n: (history.trials[n].bracket, history.trials[n].rung),
        "origin": lambda n: history.trials[n].origin.value,
        "config": lambda n: history.trials[n].config_id,
        "started": lambda n: started(history, n),
        "seconds": lambda n: seconds(history, n),
    }
    return keys.get(column)


def _comparable(value: Any) -> tuple[int, Any] | None:
    """Values of one hyperparameter can be of several types: numbers come before text."""
    if value is None:
        return None
    return (0, float(value)) if isinstance(value, int | float) else (1, str(value))
