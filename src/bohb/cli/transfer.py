"""`bohb export` and `bohb import`: studies in other formats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli.target import find, history, target_options
from bohb.cli.text import emit, json_option, note
from bohb.errors import InvalidArgument, JournalError
from bohb.journal.location import shown_journal
from bohb.units import counted

if TYPE_CHECKING:
    from bohb.studyfile.load import StudyFile


@click.command("export")
@target_options
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A .jsonl file or a directory.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "hpbandster"]),
    help="jsonl: all events as text; hpbandster: configs.json and results.json. Default: from --out.",
)
@json_option
def export(target: str | None, study: str | None, out: Path, form: str | None, as_json: bool) -> None:
    """Export a study as text or as HpBandSter logs.

    \b
    Examples:
      bohb export study.db --out study.jsonl
      bohb export study.db --out logs/ --format hpbandster
    """
    place = find(target, study)
    form = form or ("jsonl" if out.suffix == ".jsonl" else "hpbandster")
    if form == "jsonl":
        from bohb.journal import SqlJournal, export_jsonl

        with SqlJournal(place.journal, place.study, read_only=True) as journal:
            events = export_jsonl(journal, out)
        emit(as_json, {"file": str(out), "events": events}, f"{counted(events, 'event')} written to {out}")
        return
    from bohb.integrations.hpbandster import write_hpbandster

    configs, runs = write_hpbandster(history(place), out)
    text = f"{counted(configs, 'configuration')} and {counted(runs, 'run')} written to {out}"
    emit(as_json, {"directory": str(out), "configurations": configs, "runs": runs}, text)


@click.command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("studyfile", type=click.Path(path_type=Path), required=False)
@click.option("--journal", help="For a .jsonl file: the journal to write to.")
@click.option("--study", help="For a .jsonl file: name of the study in the journal; default: as exported.")
@json_option
def import_(source: Path, studyfile: Path | None, journal: str | None, study: str | None, as_json: bool) -> None:
    """Import an exported study or HpBandSter logs.

    A .jsonl file becomes a study in a journal. A directory with HpBandSter logs becomes observations of the study of a
    study file: the model uses them, including crashed runs, and the brackets start from scratch.

    \b
    Examples:
      bohb import study.jsonl --journal copy.db
      bohb import old_logs/ study.toml && bohb run study.toml
    """
    if source.is_dir():
        if studyfile is None or study is not None:
            raise InvalidArgument(f"{source} is a directory: name the study file whose model should use its results")
        data = _import_hpbandster(source, studyfile, journal)
        text = f"{counted(data['observations'], 'observation')} ({data['failed']} failed) added to {data['journal']}"
        emit(as_json, data, text)
        return
    if journal is None or studyfile is not None:
        raise InvalidArgument(f"{source} is a file: name the journal to write to with --journal")
    data = _import_jsonl(source, journal, study)
    emit(as_json, data, f"{counted(data['events'], 'event')} of study {data['study']!r} stored in {data['journal']}")


def _import_jsonl(source: Path, target: str, study: str | None) -> dict[str, Any]:
    from bohb.core.history import History
    from bohb.journal import SqlJournal, import_jsonl

    found = import_jsonl(source)
    History().extend(found.events)  # refuse inconsistent events before the journal is created
    name, shown = study or found.study, shown_journal(target)
    with SqlJournal(target, name) as journal:
        if len(journal.read()) > 0:
            raise JournalError(f"{shown} already has a study {name!r}; choose another name with --study")
        journal.append(found.events, 0)
    return {"journal": shown, "study": name, "events": len(found.events)}


def _import_hpbandster(source: Path, studyfile: Path, target: str | None) -> dict[str, Any]:
    from bohb.cli.ask import study_arguments
    from bohb.integrations.hpbandster import observations, read_hpbandster
    from bohb.journal import SqlJournal
    from bohb.optimizer.ask_tell import BOHB
    from bohb.studyfile.load import load

    runs = read_hpbandster(source)
    file: StudyFile = load(studyfile)
    space = file.space()
    place = target or file.journal
    with SqlJournal(place, file.study) as journal:
        existing = journal if len(journal.read()) > 0 else None
        study = BOHB(space, **study_arguments(file), journal=existing)  # nothing is stored before everything is checked
        budgets = study.history.budgets
        events = observations(runs, space, budgets, len(study.history.observed))
        if existing is None:
            journal.append([*study.events, *events], 0)
        else:
            journal.append(events, study.history.n_events)
    foreign = Counter(event.budget for event in events if event.budget not in budgets)
    if foreign:
        known = ", ".join(f"{budget:g}" for budget in budgets)
        others = ", ".join(f"{budget:g}" for budget in foreign)
        note(f"note: there are results on budgets {others}, which the study does not have ({known})")
    failed = sum(event.loss is None for event in events)
    return {"journal": shown_journal(place), "study": file.study, "observations": len(events), "failed": failed}


COMMANDS = (export, import_)
