"""Where the events of a study are kept."""

from bohb.journal.base import Journal
from bohb.journal.jsonl import Imported, export_jsonl, import_jsonl
from bohb.journal.memory import MemoryJournal
from bohb.journal.repair import last_good, repair
from bohb.journal.sql import SqlJournal, open_journal, study_names

__all__ = [
    "Imported",
    "Journal",
    "MemoryJournal",
    "SqlJournal",
    "export_jsonl",
    "import_jsonl",
    "last_good",
    "open_journal",
    "repair",
    "study_names",
]
