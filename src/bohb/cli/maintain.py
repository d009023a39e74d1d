"""`bohb replay` and `bohb repair`: check the decisions of a study, cut back a damaged journal."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bohb.cli.target import find, only_study, target_options
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


COMMANDS = (replay, repair)
