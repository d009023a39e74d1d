"""`bohb trials`, `bohb studies`, `bohb compare`: trials and studies as tables."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bohb.cli.options import Target, find_journal, on_study
from bohb.cli.text import as_data, emit, json_option, note, table
from bohb.core.trial import STATES, Origin
from bohb.errors import InvalidArgument, MissingExtra
from bohb.journal import study_names
from bohb.journal.location import shown_journal, study_of
from bohb.units import DASH, counted, duration, number, printable, short, value_text

if TYPE_CHECKING:
    from bohb.analysis.compare import Comparison
    from bohb.core.goals import Goals
    from bohb.core.history import History
    from bohb.core.trial import Outcome

_ORIGINS = [origin.value for origin in Origin]
_NOTE = 40  # characters of a note in the table; CSV and JSON have all of it
_STUDY_NOTE = 60
_ALIASES = {"trial": "number", "time": "seconds"}  # what the table calls these columns
_COLUMNS = 80  # of a terminal, in which all tables fit
_LABEL = 20  # characters of the name of a hyperparameter
_VALUE = 12  # characters of the value of a hyperparameter
_BESIDE = 4  # configurations beside each other


@click.command()
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
@json_option
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
    from bohb.analysis.trials import sorted_trials, state

    found = place.history()
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
    from bohb.analysis.trials import CONFIG, VALUES, columns, loss_column

    known, name = columns(history), sort.removeprefix("-")
    aliases = {**_ALIASES, "loss": loss_column(history.goals)}
    for full in (name, aliases.get(name, name), VALUES + name, CONFIG + name):
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
    from bohb.analysis.trials import NOTES, seconds, state

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
    from bohb.analysis.trials import fixed_columns

    named = fixed_columns(history)
    records = []
    for n in rows:
        trial, outcome = history.trials[n], history.outcomes.get(n)
        plain = {name: value(history, n) for name, value in named.items()}
        info = outcome.info if outcome else {}
        record = {**plain, "config": trial.config, "explains": trial.explains, "reason": trial.reason, "info": info}
        records.append(record if history.goals.plain else {**record, "values": outcome.values if outcome else {}})
    return json.dumps(records)


def _csv(history: History, rows: list[int]) -> str:
    from bohb.analysis.trials import csv_text

    return csv_text(history, rows)


def _write_parquet(history: History, rows: list[int], out: Path | None) -> None:
    from bohb.analysis.trials import one_type
    from bohb.analysis.trials import table as columns_of

    if out is None:
        raise InvalidArgument("--format parquet needs --out FILE, because it is not text")
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise MissingExtra("--format parquet needs the package 'pyarrow': pip install pyarrow") from error
    columns = {name: one_type(values) for name, values in columns_of(history, rows).items()}
    parquet.write_table(pyarrow.table(columns), out)


@click.command()
@click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")
@json_option
def studies(target: str | None, as_json: bool) -> None:
    """List the studies in a journal, with their notes.

    \b
    Examples:
      bohb studies                  those in the journal of ./study.toml
      bohb studies study.db
      bohb studies postgresql+psycopg://user@host/name --json
    """
    from bohb.journal import SqlJournal

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


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="JOURNAL[::STUDY]...")
@json_option
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
    from bohb.analysis.compare import comparison

    places = [place for target in targets for place in _places(target)]
    if len(places) < 2:
        raise InvalidArgument(f"there is only {places[0].name}; name at least two studies to compare")
    seen = [place.history() for place in places]
    found = comparison(seen)
    named = [{"journal": shown_journal(place.journal), "study": place.study} for place in places]
    data = [name | of for name, of in zip(named, found.data(), strict=True)]
    text = _comparison_text(_labels(places), seen, found)
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
        title = f"Best loss on budget {number(found.budget)} after so many full evaluations:"
        parts.append(f"{title}\n{table(head, rows)}")
    for first in range(0, len(seen), _BESIDE):
        parts.append(_configurations(found, range(first, min(first + _BESIDE, len(seen)))))
    return "\n\n".join(part for part in parts if part)


def _labels(places: Sequence[Target]) -> list[str]:
    """Return a name for each study: that of its file, with the study where that is not clear."""
    files = [shown_journal(p.journal) if "://" in p.journal else Path(p.journal).name for p in places]
    return [f"{file}::{p.study}" if files.count(file) > 1 else file for file, p in zip(files, places, strict=True)]


def _results(labels: Sequence[str], found: Comparison) -> str:
    head = ["#", "study", "best loss", "budget", "finished", "failed", "cost", "time"]
    rows = [(str(n), *row) for n, row in enumerate(found.results(), 1)]
    widths = [max(map(len, column)) for column in zip(head[:1] + head[2:], *rows, strict=True)]
    left = max(8, _COLUMNS - sum(widths) - 2 * len(widths))
    named = [[row[0], short(printable(label), left), *row[1:]] for label, row in zip(labels, rows, strict=True)]
    return table(head, named, left=["study"]) + "\ncost: in full evaluations"


def _configurations(found: Comparison, which: range) -> str:
    """Return the best configurations of some studies, beside each other."""
    from bohb.analysis.compare import configurations_beside

    rows = configurations_beside([found.studies[n] for n in which])
    cut = [[short(name, _LABEL), *(short(value, _VALUE) for value in values)] for name, *values in rows]
    head = ["best configuration", *(f"#{n + 1}" for n in which)]
    return table(head, cut, left=["best configuration"]) if cut else ""


COMMANDS = (trials, studies, compare)
