"""Reads stored studies: a SQLite file directly, and anything unusual through `SqlJournal`, which explains it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bohb.core.events import Event
from bohb.journal.quick import quick_read, quick_study_names


def stored_names(journal: str) -> list[str]:
    """Return the names of the studies in a journal, sorted."""
    names = None if "://" in journal else quick_study_names(journal)
    if names is not None:
        return names
    from bohb.journal.sql import study_names  # slow to import

    return study_names(journal)


def stored_events(journal: str, study: str) -> Sequence[Event]:
    """Return all events of a study, each one checked; none if there is no such study."""
    events = None if "://" in journal else quick_read(journal, study)
    if events is not None:
        return events
    from bohb.journal.sql import SqlJournal  # slow to import

    with SqlJournal(journal, study, read_only=True) as opened:
        return opened.read()


def study_of(text: str) -> tuple[str, str | None]:
    """Return the journal and the name of the study in "journal::study"; None if only the journal is named."""
    place = text.find("::", text.rfind("]") + 1 if "://" in text else 0)  # an IPv6 address has colons, too
    if place < 0 or ("://" not in text and Path(text).exists()):
        return text, None
    return text[:place], text[place + 2 :] or None


def shown_journal(journal: str) -> str:
    """Return the name of a journal without a password."""
    if "://" not in journal:
        return journal
    before, _, host = journal.rpartition("@")
    return f"{before.partition('://')[0]}://…@{host}" if before else journal
