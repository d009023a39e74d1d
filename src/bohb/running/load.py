"""Studies that a journal holds, without running them."""

from __future__ import annotations

from pathlib import Path

from bohb.core.history import History
from bohb.errors import InvalidArgument, JournalError
from bohb.journal import SqlJournal, stored_events, study_names
from bohb.journal.location import shown_journal
from bohb.running.setup import RunSetup
from bohb.running.study import Study


def load(journal: str | Path, study: str | None = None) -> Study:
    """Return a stored study as it is now; nothing is locked or changed, and a runner may be at work.

    journal: a file such as "study.db", or the URL of a database.
    study: its name, which is needed only if the journal holds several.
    """
    where, shown = str(journal), shown_journal(str(journal))
    if "://" not in where and not Path(where).exists():
        raise JournalError(f"there is no journal {where}; check the path, or start the study first")
    names = study_names(where)
    listed = ", ".join(names) or "none"
    if study is None and len(names) == 1:
        study = names[0]
    if study is None:
        raise InvalidArgument(f"{shown} holds {len(names)} studies; choose one with study=…: {listed}")
    history = History().extend(stored_events(where, study) if study in names else ())
    if history.created is None:
        raise InvalidArgument(f"study={study!r} is not in {shown}; its studies are: {listed}")
    return Study(history, _source=(where, study), setup=RunSetup(where, study))


def studies(journal: str | Path) -> dict[str, int]:
    """Return the names of the studies in a journal, sorted, with the number of finished trials of each.

    journal: a file such as "study.db", or the URL of a database.
    """
    with SqlJournal(journal, read_only=True) as opened:
        return opened.finished()
