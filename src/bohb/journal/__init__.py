"""Where the events of a study are kept: in memory, in a SQLite file or in a PostgreSQL database.

May import the core; never what decides or runs.
"""

from bohb.journal.base import Journal, MemoryJournal, SharedJournal
from bohb.journal.copy import Imported, export_jsonl, import_jsonl, last_good, repair
from bohb.journal.sql import SqlJournal, only_study, open_journal, stored_events, study_names

__all__ = [
    "Imported",
    "Journal",
    "MemoryJournal",
    "SharedJournal",
    "SqlJournal",
    "export_jsonl",
    "import_jsonl",
    "last_good",
    "only_study",
    "open_journal",
    "repair",
    "stored_events",
    "study_names",
]
