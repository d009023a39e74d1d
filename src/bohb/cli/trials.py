"""`bohb trials`: the trials of a study as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bohb.cli.target import find, history, target_options
from bohb.cli.text import as_data, json_option, note, table, value_text
from bohb.core.trial import STATES, Origin
from bohb.errors import InvalidArgument, MissingExtra
from bohb.units import DASH, counted, duration, number, short

if TYPE_CHECKING:
    from bohb.core.goals import Goals
    from bohb.core.history import History
    from bohb.core.trial import Outcome

_ORIGINS = [origin.value for origin in Origin]
_NOTE = 40  # characters of a note in the table; CSV and JSON have all of it
_ALIASES = {"trial": "number", "time": "seconds"}  # what the table calls these columns


@click.command()
@target_options
@click.option("--status", type=click.Choice(STATES), multiple=True, help="Only trials with this status; repeatable.")
@click.option("--origin", type=click.Choice(_ORIGINS), multiple=True, help="Only trials of this origin; repeatable.")
@click.option("--budget", type=float, multiple=True, help="Only trials on this budget; repeatable.")
@click.option("--sort", default="number", help="Column to sort by, such as loss or lr; -loss sorts descending.")
@click.option("--limit", type=click.IntRange(1), help="Maximum number of trials.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    help="csv and parquet have one column per hyperparameter and per entry of info.",
)
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file instead of stdout."
)
@json_option
def trials(
    target: str | None,
    study: str | None,
    status: Sequence[str],
    origin: Sequence[str],
    budget: Sequence[float],
    sort: str,
    limit: int | None,
    form: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """List the trials of a study, one per row.

    \b
    Examples:
      bohb trials study.db --sort loss --limit 10
      bohb trials study.db --status crashed --status timeout
      bohb trials study.db --budget 81 --origin model --sort -lr
      bohb trials study.db --format csv > trials.csv
      bohb trials study.db --format parquet --out trials.parquet
    """
    from bohb.core.columns import sorted_trials, state

    found = history(find(target, study))
    wanted = [
        n
        for n, trial in found.trials.items()
        if (not status or state(found, n) in status)
        and (not origin or trial.origin in origin)
        and (not budget or trial.budget in budget)
    ]
    rows = sorted_trials(found, wanted, _column(found, sort), descending=sort.startswith("-"))[:limit]
    _write(found, rows, "json" if as_json else form, out)


def _column(history: History, sort: str) -> str:
    """Return the column that `--sort` names: by its full name, as the table calls it, or a hyperparameter."""
    from bohb.core.columns import CONFIG, VALUES, columns

    known, name = columns(history), sort.removeprefix("-")
    for full in (name, _ALIASES.get(name, name), VALUES + name, CONFIG + name):
        if full in known:
            return full
    if not history.trials:
        return "number"
    raise InvalidArgument(f"--sort={sort!r}: there is no column {name!r}; there are {', '.join((*_ALIASES, *known))}")


def _write(history: History, rows: list[int], form: str, out: Path | None) -> None:
    if form == "parquet":
        _write_parquet(history, rows, out)
    else:
        text = {"table": _table, "csv": _csv, "json": _json}[form](history, rows)
        if out is None:
            click.echo(as_data(text))
            return
        out.write_text(text + "\n", encoding="utf-8")
    note(f"{counted(len(rows), 'trial')} written to {out}")


def _table(history: History, rows: list[int]) -> str:
    from bohb.core.columns import NOTES, seconds, state

    names = list(dict.fromkeys(name for trial in history.trials.values() for name in trial.config))
    noted = [name for name in NOTES if history.notes and any(NOTES[name](history, n) for n in rows)]
    goals = history.goals
    head = ["trial", "status", *goals.names, "budget", "bracket", "rung", "origin", "time", *names, *noted]
    body = []
    for n in rows:
        trial, outcome = history.trials[n], history.outcomes.get(n)
        body.append(
            [
                str(n),
                state(history, n),
                *(number(_value(goals, outcome, name)) for name in goals.names),
                number(trial.budget),
                str(trial.bracket),
                str(trial.rung),
                trial.origin.value,
                duration(seconds(history, n)),
                *(value_text(trial.config[name]) if name in trial.config else DASH for name in names),
                *(short(NOTES[name](history, n) or DASH, _NOTE) for name in noted),
            ]
        )
    return table(head, body, left=("status", "origin", *noted))


def _value(goals: Goals, outcome: Outcome | None, name: str) -> float | None:
    """Return a named value of a trial; the unnamed loss of a plain study."""
    if outcome is None:
        return None
    return outcome.loss if goals.plain else outcome.values.get(name)


def _json(history: History, rows: list[int]) -> str:
    from bohb.core.columns import COLUMNS, NOTES

    named = COLUMNS | (NOTES if history.notes else {})
    records = []
    for n in rows:
        trial, outcome = history.trials[n], history.outcomes.get(n)
        plain = {name: value(history, n) for name, value in named.items()}
        info = outcome.info if outcome else {}
        record = {**plain, "config": trial.config, "explains": trial.explains, "reason": trial.reason, "info": info}
        records.append(record if history.goals.plain else {**record, "values": outcome.values if outcome else {}})
    return json.dumps(records)


def _csv(history: History, rows: list[int]) -> str:
    from bohb.core.columns import csv_text

    return csv_text(history, rows)


def _write_parquet(history: History, rows: list[int], out: Path | None) -> None:
    from bohb.core.columns import one_type
    from bohb.core.columns import table as columns_of

    if out is None:
        raise InvalidArgument("--format parquet needs --out FILE, because it is not text")
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("--format parquet needs the package 'pyarrow': pip install pyarrow") from error
    columns = {name: one_type(values) for name, values in columns_of(history, rows).items()}
    parquet.write_table(pyarrow.table(columns), out)


COMMANDS = (trials,)
