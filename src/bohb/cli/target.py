"""The study that a command works on: named by a journal or a study file, and read from the journal."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.errors import InvalidArgument, JournalError
from bohb.journal import stored_events, study_names
from bohb.journal.location import shown_journal

if TYPE_CHECKING:
    from bohb.core.history import History

DEFAULT = "study.toml"


@dataclass(frozen=True, slots=True)
class Target:
    """A study: its journal, and its name in the journal."""

    journal: str
    study: str

    @property
    def name(self) -> str:
        """How messages name the study."""
        return f"study {self.study!r} in {shown_journal(self.journal)}"

    @property
    def is_file(self) -> bool:
        """Whether the journal is a file of this machine."""
        return not self.journal.startswith("postgresql")


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the option that name a study."""
    function = click.option("--study", help="Name of the study, if the journal holds several.")(function)
    return click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")(function)


def find(target: str | None, study: str | None) -> Target:
    """Return the study that the arguments of a command name; the default is that of study.toml."""
    journal, named = find_journal(target)
    study = study or named
    return Target(journal, study or only_study(journal))


def find_journal(target: str | None) -> tuple[str, str | None]:
    """Return the journal that the argument of a command names, and the study if it is a study file."""
    if target is None and not Path(DEFAULT).exists():
        raise InvalidArgument(f"there is no {DEFAULT} here; name a journal such as study.db, or a study file")
    journal = given = target or DEFAULT
    study = None
    if given.endswith(".toml"):
        from bohb.studyfile.load import load

        file = load(given)
        journal, study = file.journal, file.study
    if "://" not in journal and not Path(journal).exists():
        if journal is not given:
            raise JournalError(f"the study of {given} has no journal yet; 'bohb run {given}' starts it in {journal}")
        raise JournalError(f"there is no journal {journal}; check the path, or start a study with 'bohb run'")
    return journal, study


def only_study(journal: str) -> str:
    """Return the name of the only study in a journal."""
    names = study_names(journal)
    if len(names) == 1:
        return names[0]
    if not names:
        raise JournalError(f"{shown_journal(journal)} holds no study yet")
    which = ", ".join(names)
    raise InvalidArgument(f"{shown_journal(journal)} holds {len(names)} studies; choose one with --study: {which}")


def history(target: Target) -> History:
    """Read and fold a study."""
    from bohb.core.history import History
    from bohb.journal.records import no_collector

    events = stored_events(target.journal, target.study)
    if not events:
        names = ", ".join(study_names(target.journal)) or "none"
        raise JournalError(f"there is no {target.name}; its studies are: {names}")
    with no_collector():
        folded = History().extend(events)
        gc.freeze()  # a command keeps all of it until it ends: collecting it takes time and frees nothing
        return folded
