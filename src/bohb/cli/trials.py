"""`bohb trials`: the trials of a study as a table, CSV, JSON or Parquet."""

from __future__ import annotations

import csv
import importlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli.target import find, history, target_options
from bohb.cli.text import counted, duration, json_option, note, number, table, value_text
from bohb.core.trial import Origin, Status
from bohb.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from bohb.core.history import History

RUNNING, WAITING = "running", "waiting"  # besides the statuses of an outcome
STATUSES = (*(status.value for status in Status), RUNNING, WAITING)
ORIGINS = tuple(origin.value for origin in Origin)


@dataclass(slots=True)
class Row:
    """A trial with its outcome, if it has one."""

    number: int
    status: str
    loss: float | None
    budget: float
    bracket: int
    rung: int
    origin: str
    config_id: int
    seed: int
    previous_budget: float | None
    attempt: int
    from_trial: int | None
    reuses: int | None
    config: dict[str, Any]
    reason: dict[str, Any]
    started: float | None = None
    finished: float | None = None
    cost: float | None = None
    worker: str | None = None
    error: str | None = None
    info: dict[str, Any] = field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long it ran."""
        return None if self.started is None or self.finished is None else self.finished - self.started


_COPIED = (
    "number", "budget", "bracket", "rung", "config_id", "seed", "previous_budget", "attempt", "from_trial", "reuses",
)  # fmt: skip
_PLAIN = [f.name for f in fields(Row) if f.name not in ("config", "reason", "info")]


@click.command()
@target_options
@click.option("--status", type=click.Choice(STATUSES), multiple=True, help="Only these; may be given several times.")
@click.option("--origin", type=click.Choice(ORIGINS), multiple=True, help="Only these; may be given several times.")
@click.option("--budget", type=float, multiple=True, help="Only these; may be given several times.")
@click.option("--sort", default="number", help="A column, such as loss or lr; -loss for the largest first.")
@click.option("--limit", type=click.IntRange(1), help="No more than this many.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json", "parquet"]),
    default="table",
    help="csv and parquet have one column per hyperparameter.",
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file, not to stdout.")
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
    """The trials of a study, one per row.

    \b
    Examples:
      bohb trials study.db --sort loss --limit 10
      bohb trials study.db --status crashed --status timeout
      bohb trials study.db --budget 81 --origin model --sort -lr
      bohb trials study.db --format csv > trials.csv
      bohb trials study.db --format parquet --out trials.parquet
    """
    wanted = [
        row
        for row in rows_of(history(find(target, study)))
        if (not status or row.status in status)
        and (not origin or row.origin in origin)
        and (not budget or row.budget in budget)
    ]
    _write(sorted_rows(wanted, sort)[:limit], "json" if as_json else form, out)


def rows_of(seen: History) -> list[Row]:
    """Return a row for every trial of a study, in the order of their numbers."""
    rows = []
    for trial in seen.trials.values():
        row = Row(
            status=WAITING if trial.number in seen.lost else RUNNING,
            loss=None,
            origin=trial.origin.value,
            config=trial.config,
            reason=trial.reason,
            started=seen.started[trial.number],
            **{name: getattr(trial, name) for name in _COPIED},
        )
        outcome = seen.outcomes.get(trial.number)
        if outcome is not None:
            row.status, row.loss, row.error, row.info = outcome.status.value, outcome.loss, outcome.error, outcome.info
            row.started = row.started if outcome.started is None else outcome.started
            row.finished, row.cost, row.worker = outcome.finished, outcome.cost, outcome.worker
        rows.append(row)
    return rows


def _write(rows: list[Row], form: str, out: Path | None) -> None:
    if form == "parquet":
        _write_parquet(rows, out)
    else:
        text = {"table": _table, "csv": _csv, "json": _json}[form](rows)
        if out is None:
            click.echo(text)
            return
        out.write_text(text + "\n", encoding="utf-8")
    note(f"{counted(len(rows), 'trial')} written to {out}")


def sorted_rows(rows: list[Row], sort: str) -> list[Row]:
    """The rows by a column or a hyperparameter; those that have no value there come last."""
    name, backwards = sort.removeprefix("-"), sort.startswith("-")
    known = {*_PLAIN, "seconds", *(key for row in rows for key in row.config)}
    if rows and name not in known:
        raise InvalidArgument(f"--sort={sort!r}: there is no column {name!r}; there are {', '.join(sorted(known))}")

    def value(row: Row) -> Any:
        return row.config.get(name) if name in row.config or not hasattr(row, name) else getattr(row, name)

    have = [row for row in rows if value(row) is not None]
    numbers = all(isinstance(value(row), int | float) for row in have)
    have.sort(key=value if numbers else lambda row: str(value(row)), reverse=backwards)
    return have + [row for row in rows if value(row) is None]


def _names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row.config))


def _table(rows: list[Row]) -> str:
    names = _names(rows)
    head = ["trial", "status", "loss", "budget", "bracket", "rung", "origin", "time", *names]
    body = [
        [
            str(row.number),
            row.status,
            number(row.loss),
            number(row.budget),
            str(row.bracket),
            str(row.rung),
            row.origin,
            duration(row.seconds),
            *(value_text(row.config[name]) if name in row.config else "–" for name in names),
        ]
        for row in rows
    ]
    return table(head, body, left=("status", "origin"))


def _json(rows: list[Row]) -> str:
    return json.dumps([{**_flat(row), "config": row.config, "reason": row.reason, "info": row.info} for row in rows])


def _flat(row: Row) -> dict[str, Any]:
    return {**{name: getattr(row, name) for name in _PLAIN}, "seconds": row.seconds}


def _wide(rows: list[Row]) -> list[dict[str, Any]]:
    """One column per value; hyperparameters as `config.name`, so that none can hide a column of ours."""
    names = _names(rows)
    return [{**_flat(row), **{f"config.{name}": row.config.get(name) for name in names}} for row in rows]


def _csv(rows: list[Row]) -> str:
    wide = _wide(rows)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_harmless(name) for name in (wide[0] if wide else [*_PLAIN, "seconds"]))
    writer.writerows([_harmless(value) for value in record.values()] for record in wide)
    return stream.getvalue().rstrip("\n")


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet will not take for a formula."""
    if isinstance(value, list | dict):
        value = json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _write_parquet(rows: list[Row], out: Path | None) -> None:
    if out is None:
        raise InvalidArgument("--format parquet needs --out FILE, for it is not text")
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("--format parquet needs the package 'pyarrow': pip install pyarrow") from error
    wide = _wide(rows)
    columns = {name: _alike([record[name] for record in wide]) for name in wide[0]} if wide else {}
    parquet.write_table(pyarrow.table(columns), out)


def _alike(values: list[Any]) -> list[Any]:
    """A column of one type: as it is, or as text if types are mixed."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and not kinds & {list, dict}:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


COMMANDS = (trials,)
