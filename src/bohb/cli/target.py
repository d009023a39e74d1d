"""What a command looks at: a journal or a study file, and one study in it; read as quickly as can be."""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Callable
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
    def files(self) -> Path | None:
        """Where checkpoints and logs are by default; None for a server."""
        name = quote(self.study, safe="").replace(".", "%2E")
        return None if "://" in self.journal else Path(f"{self.journal}.files", name)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument and the option that name a study."""
    function = click.option("--study", help="The study's name, where a journal holds several.")(function)
    return click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")(function)


def find(target: str | None, study: str | None) -> Target:
    """The study that the arguments of a command name; study.toml unless told otherwise."""
    if target is None and not Path(DEFAULT).exists():
        raise InvalidArgument(f"there is no {DEFAULT} here; name a journal such as study.db, or a study file")
    target = target or DEFAULT
    if target.endswith(".toml"):
        from bohb.studyfile import load

        file = load(target)
        target, study = file.journal, study or file.study
    if "://" not in target and not Path(target).exists():
        raise JournalError(f"there is no journal {target}; check the path, or start the study with 'bohb run'")
    return Target(target, study or _only_study(target))


def _only_study(journal: str) -> str:
    names = study_names(journal)
    if len(names) == 1:
        return names[0]
    if not names:
        raise JournalError(f"{shown_journal(journal)} holds no study yet")
    raise InvalidArgument(f"{shown_journal(journal)} holds {len(names)} studies; choose one with --study: {', '.join(names)}")


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
            return sorted(name for (name,) in _query(journal, "SELECT study FROM study"))
        except sqlite3.Error:
            pass  # the careful reader will say what is wrong
    from bohb.journal import study_names as careful

    return careful(journal)


def glance(target: Target) -> Glance:
    """A quick look at a study."""
    events = _quick(target) if "://" not in target.journal else None
    found = Glance(_careful(target) if events is None else events)
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
    columns = "position, epoch, kind, key, body, crc"
    try:
        rows = _query(target.journal, f"SELECT {columns} FROM event WHERE study = ? ORDER BY position", target.study)
        heads = _query(target.journal, "SELECT length, crc FROM study WHERE study = ?", target.study)
        crc = 0
        for place, (position, epoch, kind, key, body, stored) in enumerate(rows):
            crc = zlib.crc32(f"{target.study}\0{position}\0{epoch}\0{kind}\0{key}\0{body}".encode(errors="replace"), crc)
            if position != place or crc != stored:
                return None
        if heads and heads[0][0] > len(rows):
            return None
        bodies = json.loads("[" + ",".join(row[4] for row in rows) + "]")
    except (sqlite3.Error, ValueError, TypeError, RecursionError):
        return None
    known = all(callable(getattr(Glance, f"_{row[2]}", None)) for row in rows)
    return [(row[2], body) for row, body in zip(rows, bodies, strict=True)] if known else None


def _careful(target: Target) -> list[tuple[str, dict[str, Any]]]:
    """The same through the journal itself, which explains whatever is wrong."""
    from bohb.core.events import to_json
    from bohb.journal import SqlJournal

    with SqlJournal(target.journal, target.study, read_only=True) as journal:
        return [(event.kind, to_json(event)) for event in journal.read()]


def _query(path: str, statement: str, *values: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{quote(os.path.abspath(path))}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()
