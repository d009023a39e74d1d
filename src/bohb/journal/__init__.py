"""Where the events of a study are kept."""

from bohb.journal.base import Journal
from bohb.journal.memory import MemoryJournal

__all__ = ["Journal", "MemoryJournal"]
