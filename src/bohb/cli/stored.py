"""`bohb export`, `import`, `track`, `replay`, `repair`, `rename`, `delete`, `note`: what is done to stored studies."""

from __future__ import annotations

import logging
import os
import select
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli import shared
from bohb.cli.shared import Target, command, emit, on_study
from bohb.core.history import History
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import SqlJournal, export_jsonl, import_jsonl, last_good, only_study
from bohb.journal import repair as cut_back
from bohb.journal.copy import delete_study, rename_study
from bohb.journal.location import shown_journal
from bohb.studyfile.load import load
from bohb.units import counted, printable

if TYPE_CHECKING:
    from bohb.integrations.trackers import Name

TRACKERS = ("mlflow", "tensorboard", "wandb")
_SHOWN = 5  # differences that are printed


@command("export")
@on_study
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A .jsonl file or a directory.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "hpbandster"]),
    help="jsonl: all events as text; hpbandster: configs.json and results.json. Default: from --out.",
)
def export(place: Target, out: Path, form: str | None, as_json: bool) -> None:
    """Export a study as text or as HpBandSter logs.

    \b
    Examples:
      bohb export study.db --out study.jsonl
      bohb export study.db --out logs/ --format hpbandster
    """
    form = form or ("jsonl" if out.suffix == ".jsonl" else "hpbandster")
    if form == "jsonl":
        with SqlJournal(place.journal, place.study, read_only=True) as journal:
            events = export_jsonl(journal, out)
        emit(as_json, {"file": str(out), "events": events}, f"{counted(events, 'event')} written to {out}")
        return
    from bohb.integrations.hpbandster import write_hpbandster

    configs, runs = write_hpbandster(place.history(), out)
    text = f"{counted(configs, 'configuration')} and {counted(runs, 'run')} written to {out}"
    emit(as_json, {"directory": str(out), "configurations": configs, "runs": runs}, text)


@command("import")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("studyfile", type=click.Path(path_type=Path), required=False)
@click.option("--journal", help="For a .jsonl file: the journal to write to.")
@click.option("--study", help="For a .jsonl file: name of the study in the journal; default: as exported.")
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
    from bohb.integrations.hpbandster import read_hpbandster
    from bohb.optimizer.ask_tell import BOHB

    file = load(studyfile)
    space = file.space()
    place = target or file.journal
    with SqlJournal(place, file.study) as journal:
        existing = journal if len(journal.read()) > 0 else None
        study = BOHB(space, **study_arguments(file), journal=existing)  # nothing is stored before everything is checked
        budgets = study.history.budgets
        events = read_hpbandster(source, space, budgets, len(study.history.observed))
        if existing is None:
            journal.append([*study.events, *events], 0)
        else:
            journal.append(events, study.history.n_events)
    foreign = Counter(event.budget for event in events if event.budget not in budgets)
    if foreign:
        known = ", ".join(f"{budget:g}" for budget in budgets)
        others = ", ".join(f"{budget:g}" for budget in foreign)
        shared.note(f"note: there are results on budgets {others}, which the study does not have ({known})")
    failed = sum(event.loss is None for event in events)
    return {"journal": shown_journal(place), "study": file.study, "observations": len(events), "failed": failed}


@command()
@click.argument("tracker", type=click.Choice(TRACKERS))
@shared.target_options
@click.option("--to", help="MLflow tracking URI, TensorBoard log directory, or directory for W&B files.")
@click.option("--name", help="MLflow experiment or W&B project; default: the name of the study.")
@click.option("--once", is_flag=True, help="Send what has finished, then exit.")
@click.option("--attached", is_flag=True, hidden=True)  # exits when stdin is closed; the journal need not exist yet
def track(
    tracker: Name,
    target: str | None,
    study: str | None,
    to: str | None,
    name: str | None,
    once: bool,
    attached: bool,
    as_json: bool,
) -> None:
    """Send finished trials to MLflow, TensorBoard or W&B.

    Reads the journal and never writes to it, so a tracker that is down cannot disturb the study. Each trial is sent
    once, even if this command is stopped and started again. Ctrl-C ends it.

    \b
    Examples:
      bohb track mlflow study.db --to sqlite:///mlflow.db
      bohb track tensorboard study.db --to runs
      bohb track wandb study.toml --once
    """
    from bohb.integrations.listening import Listener, TrackerUnavailable, follow
    from bohb.integrations.trackers import tracker_named

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    # We retry ourselves: the library's retries take minutes, silently.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    if attached and (target is None or study is None):
        raise InvalidArgument("--attached needs a journal and --study: they may not exist yet")
    place = Target(str(target), str(study)) if attached else shared.find(target, study)
    listener = Listener(place.journal, tracker_named(tracker, to, name), place.study)
    try:
        if once:
            listener.read()
            listener.send()
        else:
            until_stdin_closes = lambda seconds: bool(select.select([sys.stdin], [], [], seconds)[0])  # noqa: E731
            follow(listener, until_stdin_closes if attached else time.sleep, shared.note, patient=attached)
    except KeyboardInterrupt:
        pass
    finally:
        try:
            listener.close()
        except TrackerUnavailable as error:
            shared.note(str(error))
    data = {"tracker": tracker, "study": place.study, "sent": listener.sent, "waiting": listener.waiting}
    emit(as_json, data, f"{counted(listener.sent, 'trial')} sent to {tracker}, {listener.waiting} waiting")
    sys.exit(1 if listener.waiting else 0)


@command()
@on_study
def replay(place: Target, as_json: bool) -> None:
    """Make every decision of a study again and compare.

    Each is made from the stored events before it. Exit code: 1 if a decision makes another choice.

    \b
    Examples:
      bohb replay study.db
      bohb replay study.toml --json
    """
    from bohb.running.replay import TOLERANCE
    from bohb.running.replay import replay as again

    found = again(place.journal, place.study)
    counts = {"exact": found.exact, "within_tolerance": found.within_tolerance, "different": found.different}
    lines = [
        f"{counted(found.decisions, 'decision')} made again: {found.exact} exact, {found.within_tolerance} within "
        f"tolerance, {found.different} different",
        f"A decision within tolerance makes the same choice with numbers at most {TOLERANCE:g} apart, as on another "
        "machine; a different one makes another choice.",
        *found.differences[:_SHOWN],
    ]
    if found.different > _SHOWN:
        lines.append(f"and {found.different - _SHOWN} more; --json lists all of them")
    data = {"decisions": found.decisions, **counts, "differences": list(found.differences)}
    emit(as_json, data, "\n".join(lines))
    if not found.ok:
        sys.exit(1)


@command()
@click.argument("journal", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--study", help="Name of the study, if the journal holds several.")
@click.option("--dry-run", is_flag=True, help="Only count the intact events.")
def repair(journal: Path, study: str | None, dry_run: bool, as_json: bool) -> None:
    """Truncate a damaged journal after its last intact event.

    The damaged file is kept as a copy with the suffix .bak.

    \b
    Examples:
      bohb repair study.db --dry-run
      bohb repair study.db --study mnist
    """
    name = study or "study"
    if study is None:
        try:
            name = only_study(journal)
        except JournalError as error:  # the journal may be too damaged to say
            name = getattr(error, "study", name)
    kept = last_good(journal, name)
    if kept == 0:
        raise InvalidArgument(
            f"{journal} has no intact event of a study {name!r}; nothing was changed. Restore a backup, or "
            "delete the file to start the study again"
        )
    if not dry_run:
        kept = cut_back(journal, name)
    done = "are intact" if dry_run else "kept; the damaged file is kept with the suffix .bak"
    emit(as_json, {"journal": str(journal), "study": name, "events": kept}, f"{counted(kept, 'event')} {done}")


@command()
@click.argument("new")
@on_study
def rename(new: str, place: Target, as_json: bool) -> None:
    """Give a study another name.

    Its checkpoints and logs move with it. A study that is running is refused.

    \b
    Examples:
      bohb rename mnist study.db
      bohb rename mnist-2 study.db --study mnist
    """
    place.history()  # explains a study that does not exist, before anything is opened for writing
    rename_study(place.journal, place.study, new)
    emit(as_json, {"from": place.study, "to": new}, f"{place.name} is now {new!r}")


@command()
@on_study
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(place: Target, yes: bool, as_json: bool) -> None:
    """Delete a study from its journal, after asking.

    A copy is kept beside the journal, which 'bohb import' restores, and so are checkpoints and logs. Their names are
    printed. A study that is running is refused.

    \b
    Examples:
      bohb delete study.db --study mnist
      bohb delete study.db --yes
    """
    n = len(place.history().outcomes)
    if not yes and not click.confirm(printable(f"Delete {place.name} with {counted(n, 'finished trial')}?"), err=True):
        raise click.ClickException("nothing was deleted")
    kept = [str(path) for path in delete_study(place.journal, place.study)]
    emit(as_json, {"deleted": place.study, "kept": kept}, f"deleted {place.name}; kept {', '.join(kept)}")


@command()
@click.argument("text", default="")
@on_study
@click.option("--trial", type=int, help="The note is about this trial, not about the study.")
@click.option("--tag", "tags", multiple=True, help="A short text to find it by; repeatable.")
def note(text: str, place: Target, trial: int | None, tags: tuple[str, ...], as_json: bool) -> None:
    """Add a note to a study or to one of its trials.

    'bohb status', 'bohb studies' and 'bohb trials' show notes and tags. No decision depends on them, and the study may
    be running.

    \b
    Examples:
      bohb note "first run with the new data" study.db --tag baseline
      bohb note "diverged after the warmup" study.db --trial 17
      bohb note "" study.db --trial 17 --tag suspicious
    """
    from bohb.running.study import load as stored

    place.history()  # explains a study that does not exist
    stored(place.journal, place.study).note(text, trial=trial, tags=tags)
    about = place.name if trial is None else f"trial {trial} of {place.name}"
    emit(as_json, {"trial": trial, "text": text, "tags": list(tags)}, f"noted on {about}")
