"""Where the events of a study are kept: in memory, in a SQLite file or in a PostgreSQL database.

May import the core; never what decides or runs. Names that need SQLAlchemy are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bohb.journal.base import Journal, SharedJournal
from bohb.journal.jsonl import Imported, export_jsonl, import_jsonl
from bohb.journal.memory import MemoryJournal

if TYPE_CHECKING:
    from bohb.journal.recovery import last_good, repair
    from bohb.journal.sql import SqlJournal, open_journal, study_names

__all__ = [
    "Imported",
    "Journal",
    "MemoryJournal",
    "SharedJournal",
    "SqlJournal",
    "export_jsonl",
    "import_jsonl",
    "last_good",
    "open_journal",
    "repair",
    "study_names",
]
_HOMES = {
    "SqlJournal": "sql",
    "last_good": "recovery",
    "open_journal": "sql",
    "repair": "recovery",
    "study_names": "sql",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
