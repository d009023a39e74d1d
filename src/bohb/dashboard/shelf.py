"""The studies of all journals that a dashboard shows, by the names in its addresses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bohb.dashboard.studies import Card, Library, UnknownStudy, View
from bohb.errors import BohbError, InvalidArgument
from bohb.journal import SqlJournal
from bohb.journal.location import files_directory, path_of, shown_journal
from bohb.optimizer.ask_tell import BOHB
from bohb.units import short


class Shelf:
    """The studies of one or several journals.

    With several journals, the name of a study ends with that of its journal: `digits in other.db`.

    journals: their files or addresses.
    directory: where the studies' files are, if they were run with `directory=`.
    """

    def __init__(self, journals: Sequence[str | Path], directory: Path | None = None) -> None:
        if not journals:
            raise InvalidArgument("journals=[] is empty; name at least one journal")
        names = _distinct_names(journals)
        suffixes = [f" in {name}" for name in names] if len(names) > 1 else [""]
        self.journals = dict(zip(names, (Library(*pair) for pair in zip(journals, suffixes, strict=True)), strict=True))
        self._directory = directory

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study; raises JournalError if no journal can be read."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number of events of every study, and why some of several journals cannot be read."""
        found: dict[str, int] = {}
        troubles: dict[str, str] = {}
        for name, library in self.journals.items():
            try:
                found |= {study + library.suffix: length for study, length in library.lengths().items()}
            except BohbError as error:
                troubles[name] = str(error)
                if len(troubles) == len(self.journals):
                    raise
        return found, troubles

    def view(self, name: str) -> View:
        """Return the current state of a study. Raises UnknownStudy, or JournalError if the journal cannot be read."""
        library, study = self._place(name)
        return library.view(study)

    def views(self, names: Sequence[str]) -> list[View]:
        """Return the current states of several studies, and keep at least as many histories in memory."""
        for library in self.journals.values():
            library.keep = max(library.keep, len(names))
        return [self.view(name) for name in names]

    def card(self, name: str, version: int) -> Card:
        """Return what the list shows about a study; cached until the study changes."""
        library, study = self._place(name)
        return library.card(study, version)

    def known_card(self, name: str, version: int) -> Card | None:
        """Return the cached card, if it is current."""
        library, study = self._place(name)
        return library.known_card(study, version)

    def files(self, name: str) -> Path | None:
        """Return the directory of a study's files; None if there is none."""
        library, study = self._place(name)
        return files_directory(path_of(library.target), study, self._directory)

    def note(self, name: str, text: str, trial: int | None, tags: Sequence[str]) -> None:
        """Add a note to a study or to one of its trials; the study may be running."""
        library, study = self._place(name)
        with SqlJournal(library.target, study) as journal:
            BOHB.from_journal(journal).note(text, trial=trial, tags=tags)

    def close(self) -> None:
        """Close all files."""
        for library in self.journals.values():
            library.close()

    def _place(self, name: str) -> tuple[Library, str]:
        """Return the journal of a study, and its name there."""
        for library in self.journals.values():
            if name.endswith(library.suffix):
                return library, name.removesuffix(library.suffix)
        raise UnknownStudy(f"no journal has a study named {short(name, 250)!r}")


def _distinct_names(journals: Sequence[str | Path]) -> list[str]:
    """Return a name for each journal: of a file its name, with as many folders as tell it from the others."""
    paths = [path_of(journal) for journal in journals]
    names = [shown_journal(str(j)) if path is None else path.name for j, path in zip(journals, paths, strict=True)]
    for depth in range(2, 1 + max((len(path.parts) for path in paths if path is not None), default=0)):
        names = [
            name if path is None or names.count(name) == 1 else str(Path(*path.parts[-depth:]))
            for name, path in zip(names, paths, strict=True)
        ]
    if len(set(names)) < len(names):
        shown = [shown_journal(str(journal)) for journal in journals]
        raise InvalidArgument(f"journals={shown} names one journal twice")
    return names
