"""extrapolate: read runs at several sizes, and recommend a configuration for another size."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bohb.analysis.extrapolation import Extrapolation, Kind, SizedRun, extrapolated
from bohb.core.history import History
from bohb.core.space.scales import Numeric
from bohb.errors import InvalidArgument
from bohb.running.study import load

_Read = tuple[list[SizedRun], dict[str, Kind]]


def extrapolate(
    runs: Any,
    at: Mapping[str, float],
    *,
    config: Sequence[str] | None = None,
    loss: str = "loss",
    cost: str | None = None,
    moves: Collection[str] | None = None,
) -> Extrapolation:
    """Recommend a configuration for a size that was never trained, from runs at smaller sizes.

    runs: studies or tables of runs, one or a list. A study is a `Study` or the path of its journal, alone or in a pair
        with its scale variables: ("small.db", {"params": 1e8}); {"a.db": {"params": 1e8}, …} is a list of such pairs. A
        table is a CSV file, a data frame or a dict of columns.
    at: the scale variables of the target, such as {"params": 1e9, "tokens": 2e10}. In a study without a pair they are
        looked for in each trial: in `info`, among the constants of the space, and as "budget".
    config: for tables, the columns of the hyperparameters.
    loss, cost: for tables, the columns of the loss and of the cost of a run.
    moves: the hyperparameters whose optimum follows the size; by default the numbers on a log scale, in a table all
        positive numbers. The others are taken from the best run of the nearest size.

    Failed runs and losses that are not finite do not count. Losses have to be positive.
    """
    if not isinstance(at, Mapping) or not at:
        raise InvalidArgument(f'at={at!r} must name the scale variables of the target, such as {{"params": 1e9}}')
    target = {name: _positive(f"at[{name!r}]", value) for name, value in at.items()}
    found: list[SizedRun] = []
    kinds: dict[str, Kind] = {}
    for source, scale in _sources(runs):
        new, known = _table(source, target, config, loss, cost) if _is_table(source) else _study(source, scale, target)
        for name, kind in known.items():
            if kinds.setdefault(name, kind) != kind:
                kinds[name] = "choice" if "choice" in (kind, kinds[name]) else "linear"
        found += new
    for run in found:
        if run.loss <= 0:
            raise InvalidArgument(
                f"loss={run.loss!r} must be positive: the loss is modelled as a power law of the size"
            )
    return extrapolated(found, target, kinds, moves)


def _positive(what: str, value: Any) -> float:
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = math.nan
    if isinstance(value, bool) or not 0 < found < math.inf:
        raise InvalidArgument(f"{what}={value!r} must be a positive number")
    return found


def _sources(runs: Any) -> Iterator[tuple[Any, Mapping[str, float] | None]]:
    """Yield every study or table with its scale variables, None if they are not given beside it."""
    if isinstance(runs, Mapping) and runs and all(isinstance(scale, Mapping) for scale in runs.values()):
        yield from runs.items()
    elif isinstance(runs, tuple) and len(runs) == 2 and isinstance(runs[1], Mapping):
        yield runs
    elif isinstance(runs, list | tuple):
        yield from chain.from_iterable(map(_sources, runs))
    else:
        yield runs, None


def _is_table(source: Any) -> bool:
    is_file = isinstance(source, str | Path) and Path(source).suffix.lower() == ".csv"
    return is_file or isinstance(source, Mapping) or hasattr(source, "columns")


def _rows(source: Any) -> list[dict[str, Any]]:
    if isinstance(source, str | Path):
        try:
            with open(source, newline="", encoding="utf-8") as file:
                return [{name: _parsed(text) for name, text in row.items()} for row in csv.DictReader(file)]
        except OSError as error:
            raise InvalidArgument(f"the table {source} cannot be read: {error.strerror}") from error
    if hasattr(source, "to_dicts"):  # polars
        return list(source.to_dicts())
    if hasattr(source, "to_dict"):  # pandas
        return list(source.to_dict("records"))
    names = list(source)
    return [dict(zip(names, values, strict=True)) for values in zip(*(source[name] for name in names), strict=True)]


def _parsed(text: str | None) -> Any:
    try:
        return float(text or "nan")
    except ValueError:
        return text


def _table(source: Any, at: Mapping[str, float], config: Sequence[str] | None, loss: str, cost: str | None) -> _Read:
    rows = _rows(source)
    if not config:
        raise InvalidArgument(
            'config= must name the columns of the hyperparameters, such as config=["lr", "batch_size"]'
        )
    for name in (*config, *at, loss, *([cost] if cost else [])):
        if rows and name not in rows[0]:
            raise InvalidArgument(f"the table has no column {name!r}; its columns are {', '.join(map(str, rows[0]))}")
    finished = [row for row in rows if _is_number(row[loss]) and math.isfinite(row[loss])]
    found = [
        SizedRun(
            {name: of for name in config if (of := row[name]) is not None and not (_is_number(of) and math.isnan(of))},
            {name: _positive(name, row[name]) for name in at},
            float(row[loss]),
            _positive(cost, row[cost]) if cost else None,
        )
        for row in finished
    ]
    kinds: dict[str, Kind] = {}
    for name in config:
        values = [run.config[name] for run in found if name in run.config]
        numbers = bool(values) and all(map(_is_number, values))
        kinds[name] = "choice" if not numbers else "log" if min(values) > 0 else "linear"
    return found, kinds


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str) and hasattr(value, "__float__")


def _study(source: Any, scale: Mapping[str, float] | None, at: Mapping[str, float]) -> _Read:
    study = load(source) if isinstance(source, str | Path) else source
    history: History | None = getattr(study, "history", None)
    if history is None:
        raise InvalidArgument(f"runs={source!r:.80} must be a study, the path of a journal, a table or a list of them")
    if not history.goals.single:
        raise InvalidArgument(
            "a study with several objectives or constraints cannot be extrapolated; it has no one loss"
        )
    given = {name: _positive(name, value) for name, value in (scale or {}).items()}
    found = []
    for result in history.results:
        if "budget" in at or result.budget == history.budgets[-1]:
            known = {**result.outcome.info, **result.config, "budget": result.budget, **given}
            for name in at:
                if name not in known:
                    raise InvalidArgument(
                        f"the scale variable {name!r} of trial {result.trial.number} is unknown; give it beside the "
                        f"study, as in (study, {{{name!r}: 1e8}}), or return it in `info`"
                    )
            sizes = {name: _positive(name, known[name]) for name in at}
            cost = result.outcome.cost if result.outcome.cost is not None else result.outcome.seconds
            config = {name: value for name, value in result.config.items() if name not in at}
            found.append(SizedRun(config, sizes, history.goals.shown(result.loss), cost))
    kinds: dict[str, Kind] = {}
    for dimension in history.space.dimensions:
        log = isinstance(dimension, Numeric) and dimension.log
        kinds[dimension.name] = "log" if log else "linear" if isinstance(dimension, Numeric) else "choice"
    return found, kinds
