"""What a command looks at: a journal or a study file, and one study in it; read as quickly as can be."""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from bohb.cli.glance import Glance
from bohb.errors import BohbError, InvalidArgument, JournalError

if TYPE_CHECKING:
    from bohb.core.history import History

DEFAULT = "study.toml"
_COLUMNS = "position, epoch, kind, key, body, crc"


@dataclass(frozen=True, slots=True)
class Target:
    """A study: where its journal is, and its name there."""

    journal: str
    study: str

    @property
    def name(self) -> str:
        """For people."""
        return f"study {self.study!r} in {shown_journal(self.journal)}"

    @property
    def is_file(self) -> bool:
        """Whether the journal is a file of this machine."""
        return not self.journal.startswith("postgresql")

    @property
    def files(self) -> Path | None:
        """Where checkpoints and logs are by default; None for a server."""
        name = quote(self.study, safe="").replace(".", "%2E")
        return None if "://" in self.journal else Path(f"{self.journal}.files", name)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the option that name a study."""
    function = click.option("--study", help="The study's name, where a journal holds several.")(function)
    return click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")(function)


def find(target: str | None, study: str | None) -> Target:
    """Return the study that the arguments of a command name; the default is that of study.toml."""
    if target is None and not Path(DEFAULT).exists():
        raise InvalidArgument(f"there is no {DEFAULT} here; name a journal such as study.db, or a study file")
    journal = given = target or DEFAULT
    if given.endswith(".toml"):
        from bohb.studyfile.load import load

        file = load(given)
        journal, study = file.journal, study or file.study
    if "://" not in journal and not Path(journal).exists():
        if journal is not given:
            raise JournalError(f"the study of {given} has no journal yet; 'bohb run {given}' starts it in {journal}")
        raise JournalError(f"there is no journal {journal}; check the path, or start a study with 'bohb run'")
    return Target(journal, study or _only_study(journal))


def _only_study(journal: str) -> str:
    names = study_names(journal)
    if len(names) == 1:
        return names[0]
    if not names:
        raise JournalError(f"{shown_journal(journal)} holds no study yet")
    which = ", ".join(names)
    raise InvalidArgument(f"{shown_journal(journal)} holds {len(names)} studies; choose one with --study: {which}")


def shown_journal(journal: str) -> str:
    """A journal's name without a password."""
    if "://" not in journal:
        return journal
    before, _, host = journal.rpartition("@")
    return f"{before.partition('://')[0]}://…@{host}" if before else journal


def study_names(journal: str) -> list[str]:
    """The studies of a journal."""
    if "://" not in journal:
        try:
            with closing(_connected(journal)) as connection:
                return sorted(name for (name,) in connection.execute("SELECT study FROM study"))
        except sqlite3.Error:
            pass  # the careful reader will say what is wrong
    from bohb.journal import study_names as careful

    return careful(journal)


def glance(target: Target) -> Glance:
    """A quick look at a study."""
    gc.disable()  # nothing here is garbage, and looking for it takes a fifth of the time
    try:
        events = _quick(target) if "://" not in target.journal else None
        found = Glance(_careful(target) if events is None else events)
    finally:
        gc.enable()
    if not found.created:
        raise _missing(target)
    return found


def history(target: Target) -> History:
    """The whole fold of a study, for what needs the search space."""
    from bohb.core.history import History
    from bohb.journal import SqlJournal

    with SqlJournal(target.journal, target.study, read_only=True) as journal:
        events = journal.read()
    if not events:
        raise _missing(target)
    return History().extend(events)


def _missing(target: Target) -> BohbError:
    names = ", ".join(study_names(target.journal)) or "none"
    return JournalError(f"there is no {target.name}; its studies are: {names}")


def _quick(target: Target) -> list[tuple[str, dict[str, Any]]] | None:
    """The events of a SQLite journal by the shortest way; None if anything is odd."""
    of = f"{target.study}\0"
    try:
        with closing(_connected(target.journal)) as connection:
            connection.execute("BEGIN")  # one state of the file for both
            head = connection.execute("SELECT length, crc FROM study WHERE study = ?", [target.study]).fetchone()
            rows = connection.execute(f"SELECT {_COLUMNS} FROM event WHERE study = ? ORDER BY position", [target.study])
            found, crc = rows.fetchall(), 0
        for place, (position, epoch, kind, key, body, stored) in enumerate(found):
            crc = zlib.crc32(f"{of}{position}\0{epoch}\0{kind}\0{key}\0{body}".encode(errors="replace"), crc)
            if position != place or crc != stored or kind not in Glance.KINDS:
                return None
        if head != (len(found), crc):
            return None
        bodies = json.loads("[" + ",".join(row[4] for row in found) + "]")
    except (sqlite3.Error, ValueError, TypeError, RecursionError):
        return None
    return [(row[2], body) for row, body in zip(found, bodies, strict=True)]


def _careful(target: Target) -> list[tuple[str, dict[str, Any]]]:
    """The same through the journal itself, which explains whatever is wrong."""
    from bohb.core.events import to_json
    from bohb.journal import SqlJournal

    with SqlJournal(target.journal, target.study, read_only=True) as journal:
        return [(event.kind, to_json(event)) for event in journal.read()]


def _connected(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=10, isolation_level=None)
