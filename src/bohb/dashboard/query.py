"""The trials table: which trials match a filter, in which order, and what its columns are.

A filter consists of conditions and words, all of which must hold: `lr < 1e-3 status = failed gelu`. The value of `=`
and `!=` may be a list: `trial = 3,5`. Words are looked for in the configuration, `info`, the error and the worker.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

from bohb.analysis.trials import CONFIG, INFO, NOTES, VALUES, loss_column, named_column, sorted_trials
from bohb.analysis.trials import columns as all_columns
from bohb.core.history import History
from bohb.core.trial import Status
from bohb.dashboard.studies import Snapshot
from bohb.errors import InvalidArgument

MOST_ROWS = 10_000  # that a page gets at once
_SHOWN_INFO = 6  # entries of `info` that are shown at first
_CONDITION = re.compile(r"""("[^"]*"|[^\s"<>=!]+)\s*(<=|>=|!=|==|=|<|>)\s*("[^"]*"|[^\s"]+)""")
_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TITLES = {"number": "Trial", "seconds": "Duration", "config_id": "Configuration", "cost": "Reported cost"}
_SHOWN = ("number", "status", "budget", "bracket", "rung", "origin", "seconds", "started")
_HIDDEN = ("worker", "error", "attempt", "seed", "config_id", "cost")
_KINDS = {"number": "trial", "status": "status", "seconds": "duration", "started": "moment"}
Value = Callable[[History, int], Any]


@dataclass(frozen=True, slots=True)
class Query:
    """What the reader wants to see; invalid parameters of an address are ignored, but not an invalid filter.

    q: the filter; empty: all trials.
    sort: a column, `config.name` for a hyperparameter; order: "asc" or "desc".
    """

    q: str = ""
    sort: str = "number"
    order: str = "desc"

    @staticmethod
    def of(parameters: Mapping[str, str]) -> Query:
        """Read a query from the parameters of an address."""
        order = "asc" if parameters.get("order") == "asc" else "desc"
        return Query(parameters.get("q", "")[:2000], parameters.get("sort", "number")[:200], order)

    def parameters(self) -> dict[str, str]:
        """Return the query as parameters of an address, without those that have their default."""
        default = asdict(Query())
        return {name: value for name, value in asdict(self).items() if value != default[name]}


class Column(NamedTuple):
    """A column of the table.

    name: as filters and addresses name it.
    kind: how values are shown: "trial", "status", "duration", "moment" or "value".
    shown: whether it is shown unless the reader chooses otherwise.
    """

    name: str
    title: str
    kind: str
    shown: bool
    value: Value


def columns(history: History) -> list[Column]:
    """Return the columns of the table in their usual order."""
    result = loss_column(history.goals)
    known = all_columns(history)
    results = [name for name in known if name.startswith(VALUES)] or [result]
    configs = [name for name in known if name.startswith(CONFIG)]
    infos = [name for name in known if name.startswith(INFO)]
    notes = [name for name in NOTES if name in known]
    shown = [_SHOWN[0], *results, *_SHOWN[1:], *configs, *infos[:_SHOWN_INFO], *notes]
    names = dict.fromkeys([*shown, *infos, *_HIDDEN])
    titles = {**_TITLES, **({results[0]: history.goals.label.capitalize()} if len(results) == 1 else {})}
    return [Column(n, titles.get(n) or _title(n), _KINDS.get(n, "value"), n in shown, known[n]) for n in names]


def _title(name: str) -> str:
    return name.capitalize() if (bare := _bare(name)) == name else bare


def _bare(name: str) -> str:
    """Return the name of a column as readers write it, without a prefix."""
    return next((name.removeprefix(prefix) for prefix in (CONFIG, INFO, VALUES) if name.startswith(prefix)), name)


def matching(view: Snapshot, query: Query) -> list[int]:
    """Return all trials that match a query, in its order. Raises InvalidArgument for a filter that makes no sense."""
    conditions = [_condition(view.history, *found) for found in _CONDITION.findall(query.q)]
    words = _CONDITION.sub(" ", query.q).casefold().replace('"', " ").replace(",", " ").split()
    numbers = [n for n in view.history.trials if all(holds(n) for holds in conditions)]
    if words := [word for word in words if word != "and"]:
        numbers = [n for n in numbers if (text := view.text(n)) and all(word in text for word in words)]
    return sorted_trials(view.history, numbers, query.sort, query.order == "desc")


def _condition(history: History, name: str, sign: str, text: str) -> Callable[[int], bool]:
    """Return a function that says whether a trial fulfils a condition; one without the value never does."""
    value, text = _named(history, name.strip('"')), text.strip('"')
    if sign in _ORDERS:
        limit, compare = _number(text), _ORDERS[sign]
        if limit is None:
            raise InvalidArgument(f"{name} {sign} {text}: {text!r} is not a number")
        return lambda n: isinstance(found := value(history, n), int | float) and compare(found, limit)
    wanted = [part.strip().casefold() for part in text.split(",")]
    numbers = {number for part in wanted if (number := _number(part)) is not None}
    failed = {status.value for status in Status if status is not Status.OK} if "failed" in wanted else set[str]()

    def equal(found: object) -> bool:
        if isinstance(found, int | float) and not isinstance(found, bool):
            return found in numbers
        return str(found).casefold() in wanted or found in failed

    return lambda n: (found := value(history, n)) is not None and equal(found) == (sign != "!=")


def _named(history: History, name: str) -> Value:
    """Return the column that a reader means by a name, with or without its prefix."""
    if (found := named_column(history, name)) is not None:
        return all_columns(history)[found]
    names = ["trial" if column.kind == "trial" else _bare(column.name) for column in columns(history)]
    close = get_close_matches(name, names, 1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
    raise InvalidArgument(f"there is no column {name[:80]!r}; {hint}"[:1000])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def rows(view: Snapshot, numbers: list[int], shown: list[Column]) -> list[list[Any]]:
    """Return the values of these trials, as JSON has them: floats have six digits."""
    digits = [12 if column.kind == "moment" else 6 for column in shown]
    cells = list(zip(shown, digits, strict=True))
    return [[_plain(column.value(view.history, n), of) for column, of in cells] for n in numbers]


def _plain(value: Any, digits: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)
    return value if value is None or isinstance(value, int | bool) else str(value)[:500]


def table(view: Snapshot, query: Query) -> dict[str, Any]:
    """Return the columns, and at most `MOST_ROWS` rows that match, as JSON."""
    found, shown = matching(view, query), columns(view.history)
    best = view.history.incumbent
    return {
        "columns": [column[:4] for column in shown],
        "rows": rows(view, found[:MOST_ROWS], shown),
        "found": len(found),
        "total": len(view.history.trials),
        "best": None if best is None else best.trial.number,
    }
