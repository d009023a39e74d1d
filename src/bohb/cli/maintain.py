"""`bohb replay`, `repair`, `rename`, `delete` and `note`: check, mend and tidy what a journal holds."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bohb.cli.target import Target, find, history, only_study, target_options
from bohb.cli.text import emit, json_option
from bohb.errors import InvalidArgument, JournalError
from bohb.units import counted, printable

_SHOWN = 5  # differences that are printed


@click.command()
@target_options
@json_option
def replay(target: str | None, study: str | None, as_json: bool) -> None:
    """Make every decision of a study again and compare.

    Each is made from the stored events before it. Exit code: 1 if a decision makes another choice.

    \b
    Examples:
      bohb replay study.db
      bohb replay study.toml --json
    """
    from bohb.running.replay import TOLERANCE
    from bohb.running.replay import replay as again

    place = find(target, study)
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
    emit(as_json, data, "\n".join(map(printable, lines)))
    if not found.ok:
        sys.exit(1)


@click.command()
@click.argument("journal", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--study", help="Name of the study, if the journal holds several.")
@click.option("--dry-run", is_flag=True, help="Only count the intact events.")
@json_option
def repair(journal: Path, study: str | None, dry_run: bool, as_json: bool) -> None:
    """Truncate a damaged journal after its last intact event.

    The damaged file is kept as a copy with the suffix .bak.

    \b
    Examples:
      bohb repair study.db --dry-run
      bohb repair study.db --study mnist
    """
    from bohb.journal import last_good
    from bohb.journal import repair as cut_back

    name = study or _study(journal)
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


def _study(journal: Path) -> str:
    """Return the only study of a journal, or the default name if the journal cannot be read."""
    try:
        return only_study(str(journal))
    except JournalError:
        return "study"


@click.command()
@click.argument("new")
@target_options
@json_option
def rename(new: str, target: str | None, study: str | None, as_json: bool) -> None:
    """Give a study another name.

    Its checkpoints and logs move with it. A study that is running is refused.

    \b
    Examples:
      bohb rename mnist study.db
      bohb rename mnist-2 study.db --study mnist
    """
    from bohb.journal.copy import rename_study

    place = _existing(target, study)
    rename_study(place.journal, place.study, new)
    emit(as_json, {"from": place.study, "to": new}, printable(f"{place.name} is now {new!r}"))


@click.command()
@target_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete(target: str | None, study: str | None, yes: bool, as_json: bool) -> None:
    """Delete a study from its journal, after asking.

    A copy is kept beside the journal, which 'bohb import' restores, and so are checkpoints and logs. Their names are
    printed. A study that is running is refused.

    \b
    Examples:
      bohb delete study.db --study mnist
      bohb delete study.db --yes
    """
    from bohb.journal.copy import delete_study

    place = _existing(target, study)
    n = len(history(place).outcomes)
    if not yes and not click.confirm(printable(f"Delete {place.name} with {counted(n, 'finished trial')}?"), err=True):
        raise click.ClickException("nothing was deleted")
    kept = [str(path) for path in delete_study(place.journal, place.study)]
    emit(as_json, {"deleted": place.study, "kept": kept}, printable(f"deleted {place.name}; kept {', '.join(kept)}"))


@click.command()
@click.argument("text", default="")
@target_options
@click.option("--trial", type=int, help="The note is about this trial, not about the study.")
@click.option("--tag", "tags", multiple=True, help="A short text to find it by; repeatable.")
@json_option
def note(
    text: str, target: str | None, study: str | None, trial: int | None, tags: tuple[str, ...], as_json: bool
) -> None:
    """Add a note to a study or to one of its trials.

    'bohb status', 'bohb studies' and 'bohb trials' show notes and tags. No decision depends on them, and the study may
    be running.

    \b
    Examples:
      bohb note "first run with the new data" study.db --tag baseline
      bohb note "diverged after the warmup" study.db --trial 17
      bohb note "" study.db --trial 17 --tag suspicious
    """
    from bohb.journal import SqlJournal
    from bohb.optimizer.ask_tell import BOHB

    place = _existing(target, study)
    with SqlJournal(place.journal, place.study) as journal:
        BOHB.from_journal(journal).note(text, trial=trial, tags=tags)
    about = place.name if trial is None else f"trial {trial} of {place.name}"
    emit(as_json, {"trial": trial, "text": text, "tags": list(tags)}, printable(f"noted on {about}"))


def _existing(target: str | None, study: str | None) -> Target:
    """Return a study that exists; for any other, say so before anything is opened for writing."""
    place = find(target, study)
    history(place)
    return place


COMMANDS = (replay, repair, rename, delete, note)
