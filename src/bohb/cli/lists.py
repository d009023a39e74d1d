"""`bohb trials`, `studies`, `compare`, `extrapolate`: trials as a table, and several studies together."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from bohb.analysis import trials as rows_of
from bohb.analysis.questions import Comparison, comparison, configurations_beside
from bohb.cli.shared import Target, command, emit, emit_data, find_journal, note, on_study, table
from bohb.core.history import History
from bohb.core.trial import STATES, Origin
from bohb.errors import InvalidArgument, MissingExtra
from bohb.journal import SqlJournal, study_names
from bohb.journal.location import shown_journal, study_of
from bohb.units import DASH, counted, duration, number, printable, short, value_text

_ORIGINS = [origin.value for origin in Origin]
_NOTE = 40  # characters of a note in the table; CSV and JSON have all of it
_STUDY_NOTE = 60
_COLUMNS = 80  # of a terminal, in which all tables fit
_LABEL = 20  # characters of the name of a hyperparameter
_VALUE = 12  # characters of the value of a hyperparameter
_BESIDE = 4  # configurations beside each other


@command()
@on_study
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
def trials(
    place: Target,
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
    found = place.history()
    wanted = [
        n
        for n, trial in found.trials.items()
        if (not status or rows_of.state(found, n) in status)
        and (not origin or trial.origin in origin)
        and (not budget or trial.budget in budget)
    ]
    rows = rows_of.sorted_trials(found, wanted, _column(found, sort), descending=sort.startswith("-"))[:limit]
    _write(found, rows, "json" if as_json else form, out)


def _column(history: History, sort: str) -> str:
    """Return the column that `--sort` names: by its full name, as the table calls it, or a hyperparameter."""
    name = sort.removeprefix("-")
    found = rows_of.named_column(history, name)
    if found is None and history.trials:
        known = ", ".join((*rows_of.ALIASES, *rows_of.columns(history)))
        raise InvalidArgument(f"--sort={sort!r}: there is no column {name!r}; there are {known}")
    return found or "number"


def _write(history: History, rows: list[int], form: str, out: Path | None) -> None:
    if form == "parquet":
        _write_parquet(history, rows, out)
    else:
        text = {"table": _table, "csv": rows_of.csv_text, "json": _json}[form](history, rows)
        if out is None:
            emit_data(text)
            return
        out.write_text(text + "\n", encoding="utf-8")
    note(f"{counted(len(rows), 'trial')} written to {out}")


def _table(history: History, rows: list[int]) -> str:
    goals, seen = history.goals, rows_of.NOTES
    names = list(dict.fromkeys(name for trial in history.trials.values() for name in trial.config))
    noted = [name for name in seen if history.notes and any(seen[name](history, n) for n in rows)]
    values = [rows_of.COLUMNS["loss"] if goals.plain else rows_of.column(rows_of.VALUES + name) for name in goals.names]
    body = []
    for n in rows:
        trial = history.trials[n]
        body.append(
            [
                str(n),
                rows_of.state(history, n),
                *(number(value(history, n)) for value in values),
                number(trial.budget),
                str(trial.bracket),
                str(trial.rung),
                trial.origin.value,
                duration(rows_of.seconds(history, n)),
                *(value_text(trial.config[name]) if name in trial.config else DASH for name in names),
                *(short(seen[name](history, n) or DASH, _NOTE) for name in noted),
            ]
        )
    head = ["trial", "status", *goals.names, "budget", "bracket", "rung", "origin", "time", *names, *noted]
    return table(head, body, left=("status", "origin", *noted))


def _json(history: History, rows: list[int]) -> str:
    named = rows_of.fixed_columns(history)
    records = []
    for n in rows:
        trial, outcome = history.trials[n], history.outcomes.get(n)
        record = {name: value(history, n) for name, value in named.items()}
        record |= {"config": trial.config, "explains": trial.explains, "reason": trial.reason}
        record["info"] = outcome.info if outcome else {}
        if not history.goals.plain:
            record["values"] = outcome.values if outcome else {}
        records.append(record)
    return json.dumps(records)


def _write_parquet(history: History, rows: list[int], out: Path | None) -> None:
    if out is None:
        raise InvalidArgument("--format parquet needs --out FILE, because it is not text")
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("--format parquet needs the package 'pyarrow': pip install pyarrow") from error
    columns = {name: rows_of.one_type(values) for name, values in rows_of.table(history, rows).items()}
    parquet.write_table(pyarrow.table(columns), out)


@command()
@click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")
def studies(target: str | None, as_json: bool) -> None:
    """List the studies in a journal, with their notes.

    \b
    Examples:
      bohb studies                  those in the journal of ./study.toml
      bohb studies study.db
      bohb studies postgresql+psycopg://user@host/name --json
    """
    journal, _ = find_journal(target)
    with SqlJournal(journal, read_only=True) as opened:
        found, noted = opened.finished(), opened.notes()
    rows = []
    for name, n in found.items():
        notes = [note for note in noted.get(name, ()) if note.number is None]
        tags = ", ".join(dict.fromkeys(tag for note in notes for tag in note.tags))
        text = next((note.text for note in reversed(notes) if note.text.strip()), "")
        rows.append((name, str(n), tags, short(" ".join(text.split()), _STUDY_NOTE)))
    width = 4 if any(row[2] or row[3] for row in rows) else 2
    head = ["study", "finished", "tags", "note"][:width]
    emit(as_json, found, table(head, [row[:width] for row in rows], left=["study", "tags", "note"]))


@command()
@click.argument("targets", nargs=-1, required=True, metavar="JOURNAL[::STUDY]...")
def compare(targets: tuple[str, ...], as_json: bool) -> None:
    """Compare studies, also of several journals.

    A journal stands for all of its studies, unless '::' and the name of one follow. Shows their best losses, also at
    equal cost, and their best configurations.

    \b
    Examples:
      bohb compare study.db                       all studies in it
      bohb compare monday.db tuesday.db::resnet
      bohb compare study.toml other.toml --json
    """
    places = [place for target in targets for place in _places(target)]
    if len(places) < 2:
        raise InvalidArgument(f"there is only {places[0].name}; name at least two studies to compare")
    seen = [place.history() for place in places]
    found = comparison(seen)
    named = [{"journal": shown_journal(place.journal), "study": place.study} for place in places]
    data = [name | of for name, of in zip(named, found.data(), strict=True)]
    files = [shown_journal(p.journal) if "://" in p.journal else Path(p.journal).name for p in places]
    labels = [f"{file}::{p.study}" if files.count(file) > 1 else file for file, p in zip(files, places, strict=True)]
    text = _comparison_text(labels, seen, found)
    emit(as_json, {"budget": found.budget, "costs": found.costs, "studies": data}, text)


def _places(target: str) -> list[Target]:
    """Return the studies that an argument names."""
    given, study = study_of(target)
    journal, named = find_journal(given)
    study = study or named
    return [Target(journal, name) for name in ([study] if study else study_names(journal))]


def _comparison_text(labels: Sequence[str], seen: Sequence[History], found: Comparison) -> str:
    parts = [_results(labels, found)]
    tops = {h.budgets[-1] for h in seen}
    if len(tops) > 1:
        listed = ", ".join(number(top) for top in sorted(tops))
        parts.append(f"The largest budgets differ ({listed}): losses on different budgets are not comparable.")
    if found.budget is not None:
        head = ["#", *(number(cost, 3) for cost in found.costs)]
        rows = [(str(n), *row) for n, row in enumerate(found.progress(), 1)]
        title = f"{printable(found.title)} on budget {number(found.budget)} after so many full evaluations:"
        parts.append(f"{title}\n{table(head, rows)}")
    for first in range(0, len(seen), _BESIDE):
        beside = found.studies[first : first + _BESIDE]
        rows = [(short(name, _LABEL), *(short(value, _VALUE) for value in values))
                for name, *values in configurations_beside(beside)]  # fmt: skip
        head = ["best configuration", *(f"#{first + n}" for n in range(1, len(beside) + 1))]
        parts += [table(head, rows, left=["best configuration"])] if rows else []
    return "\n\n".join(parts)


def _results(labels: Sequence[str], found: Comparison) -> str:
    head = ["#", "study", found.title.replace("Best", "best", 1), "budget", "finished", "failed", "cost", "time"]
    rows = [(str(n), *row) for n, row in enumerate(found.results(), 1)]
    widths = [max(map(len, column)) for column in zip(head[:1] + head[2:], *rows, strict=True)]
    left = max(8, _COLUMNS - sum(widths) - 2 * len(widths))
    named = [[row[0], short(printable(label), left), *row[1:]] for label, row in zip(labels, rows, strict=True)]
    return table(head, named, left=["study"]) + "\ncost: in full evaluations"


@command()
@click.argument("runs", nargs=-1, required=True, metavar="JOURNAL[:NAME=VALUE,…]|TABLE.csv...")
@click.option("--at", required=True, metavar="NAME=VALUE,…", help="The scale variables of the target.")
@click.option("--config", metavar="NAME,…", help="Columns of a table that are hyperparameters.")
@click.option("--loss", default="loss", show_default=True, help="Column of a table with the loss.")
@click.option("--cost", help="Column of a table with the cost of a run.")
@click.option(
    "--moves", metavar="NAME,…", help="Hyperparameters that follow the size; default: numbers on a log scale."
)
@click.option(
    "--plot", "out", type=click.Path(dir_okay=False, path_type=Path), help="Draw the valleys to this HTML file."
)
def extrapolate(
    runs: Sequence[str], at: str, config: str | None, moves: str | None, out: Path | None, as_json: bool, **given: Any
) -> None:
    """Recommend a configuration for a larger size.

    The size was never trained; the runs had smaller ones. They are journals with their scale variables, or tables.
    Without them, the scale variables of a study are looked for in the `info` of its trials, among the constants of its
    space, and as its budget.

    \b
    Examples:
      bohb extrapolate small.db:params=1e7 medium.db:params=5e7 large.db:params=2e8 --at params=1e9
      bohb extrapolate width*.db --at width=4096 --plot valleys.html
      bohb extrapolate runs.csv --at params=1e9,tokens=2e10 --config lr,batch_size
    """
    from bohb.running.extrapolate import extrapolate as extrapolated

    names = None if config is None else config.split(",")
    sources = [_source(text) for text in runs]
    following = None if moves is None else moves.split(",")
    found = extrapolated(sources, _numbers(at), config=names, moves=following, **given)
    if out is not None:
        from bohb.plots.model import draw_valleys

        draw_valleys(found).write_html(out, include_plotlyjs=True)
    emit(as_json, found.to_json(), str(found) if out is None else f"{found}\n{out} written")


def _source(text: str) -> str | tuple[str, Mapping[str, float]]:
    """Split a journal from its scale variables."""
    matched = re.fullmatch(r"(.+):([^:/\\]+=[^:/\\]+)", text)
    return text if matched is None else (matched[1], _numbers(matched[2]))


def _numbers(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            raise InvalidArgument(f"{part!r} must be a name and a number, such as params=1e9") from None
    return found
