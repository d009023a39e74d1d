"""The studies of all journals that a dashboard shows, kept up to date and shared between requests."""

from __future__ import annotations

import copy
import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bohb.analysis.overview import Overview
from bohb.analysis.verdicts import best_on_budget
from bohb.core.history import History
from bohb.core.trial import Trial
from bohb.errors import BohbError, InvalidArgument, JournalError
from bohb.journal import SqlJournal
from bohb.journal.location import files_directory, path_of, shown_journal
from bohb.journal.records import no_collector
from bohb.optimizer.ask_tell import BOHB
from bohb.units import DASH, printable, short

KEPT = 4  # studies whose histories stay in memory, those that were used last
AT_ONCE = 1000  # events that are read at once: more would need more memory, fewer more time
PATIENCE = 0.7  # seconds for reading before a page shows what is known so far


class UnknownStudy(BohbError):
    """The journal has no study of this name."""


class Snapshot:
    """A study at one moment. It does not change while the journal grows and somebody holds its history.

    name: the study's name.
    history: everything that has happened up to now.
    unread: number of further events in the journal, while a large study is being read.
    lock: must be held by whatever encodes configurations, which is left until somebody needs it. Snapshots share it.
    """

    def __init__(self, name: str, history: History, unread: int = 0, lock: threading.RLock | None = None) -> None:
        self.name = name
        self.history = history
        self.unread = unread
        self.lock = lock or threading.RLock()

    @property
    def version(self) -> int:
        """A number that changes whenever the study does."""
        return self.history.n_events

    @cached_property
    def overview(self) -> Overview:
        """The facts of the study that do not depend on the time of day."""
        return Overview(self.history)

    def text(self, number: int) -> str:
        """Return what the search looks into: configuration, error, worker and `info` of a trial, in lower case."""
        outcome = self.history.outcomes.get(number)
        parts = [f"{name}={value}" for name, value in self.history.trials[number].config.items()]
        if outcome is not None:
            parts += [outcome.error or "", outcome.worker or ""]
            parts += [f"{name}={value}" for name, value in outcome.info.items()]
        return " ".join(parts)[:10_000].casefold()

    def of_configuration(self, trial: Trial) -> list[int]:
        """Return the trials of the same configuration."""
        return [n for n, other in self.history.trials.items() if other.config_id == trial.config_id]


@dataclass(frozen=True, slots=True)
class Entry:
    """What the list of studies shows about one of them.

    trials: numbers of trials, as `Overview.counts` has them.
    trouble: why the study cannot be read; empty if it can.
    """

    version: int
    trials: dict[str, int] = field(default_factory=dict)
    best: str = DASH
    started: float | None = None
    last_event: float | None = None
    trouble: str = ""


class Studies:
    """The studies of one or several journals, by the names that addresses use.

    With several journals, the name of a study ends with that of its journal: `digits in other.db`.

    journals: their files or addresses; a folder stands for all `.db` files in it.
    directory: where the studies' files are, if they were run with `directory=`.
    keep: the number of histories kept in memory.
    """

    def __init__(self, journals: Sequence[str | Path], directory: Path | None = None, keep: int = KEPT) -> None:
        found = [file for journal in journals for file in files_of(journal)]
        names = _distinct_names(found)
        suffixes = [f" in {name}" for name in names] if len(names) > 1 else [""]
        self._indexes = {n: _Index(*pair) for n, pair in zip(names, zip(found, suffixes, strict=True), strict=True)}
        self._directory = directory
        self._keep = keep
        self._lock = threading.Lock()
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self._entries: dict[str, tuple[int, Entry]] = {}  # with the opening of the journal that they belong to

    @property
    def journals(self) -> list[str]:
        """The names of the journals."""
        return list(self._indexes)

    @property
    def n_followed(self) -> int:
        """Number of histories in memory."""
        return len(self._followed)

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study; raises JournalError if no journal can be read."""
        return self.read()[0]

    def read(self) -> tuple[dict[str, int], dict[str, str]]:
        """Return the number of events of every study, and why some of several journals cannot be read."""
        found: dict[str, int] = {}
        troubles: dict[str, str] = {}
        for name, index in self._indexes.items():
            try:
                found |= {study + index.suffix: length for study, length in index.lengths().items()}
            except BohbError as error:
                troubles[name] = str(error)
                if len(troubles) == len(self._indexes):
                    raise
        return found, troubles

    def snapshot(self, name: str, patience: float = PATIENCE) -> Snapshot:
        """Return the current state of a study. Raises UnknownStudy, or JournalError if the journal cannot be read.

        patience: seconds after which a large study is returned as far as it has been read.
        """
        index, study = self._place(name)
        length = index.lengths().get(study)
        if length is None:
            raise UnknownStudy(f"this journal has no study named {short(name, 250)!r}")
        followed = self._follow(name, index, study, length)
        try:
            return followed.snapshot(length, time.monotonic() + patience)
        except BohbError:
            with self._lock:  # the next request opens the journal again
                if self._followed.get(name) is followed:
                    del self._followed[name]
            raise

    def runner(self, name: str) -> str:
        """Return who runs a study that was viewed before; "none" if nobody does."""
        followed = self._followed.get(name)
        return "" if followed is None else followed.runner()

    def snapshots(self, names: Sequence[str]) -> list[Snapshot]:
        """Return the current states of several studies, and keep at least as many histories in memory."""
        self._keep = max(self._keep, len(names))
        return [self.snapshot(name) for name in names]

    def entry(self, name: str, version: int) -> Entry | None:
        """Return what the list shows about a study, cached until it changes; None while a large one is being read."""
        known = self.known_entry(name, version)
        if known is None:
            known = self._new_entry(name, version)
            if known is not None:
                self._entries[name] = self._place(name)[0].opening, known
        return known

    def known_entry(self, name: str, version: int) -> Entry | None:
        """Return the cached entry, if it is current. Those with trouble are not, since trouble may pass."""
        opening, known = self._entries.get(name, (0, Entry(0, trouble="never read")))
        current = known.version == version and opening == self._place(name)[0].opening
        return known if current and not known.trouble else None

    def files(self, name: str) -> Path | None:
        """Return the directory of a study's files; None if there is none."""
        index, study = self._place(name)
        return files_directory(path_of(index.target), study, self._directory)

    def note(self, name: str, text: str, trial: int | None, tags: Sequence[str]) -> None:
        """Add a note to a study or to one of its trials; the study may be running."""
        index, study = self._place(name)
        with SqlJournal(index.target, study) as journal:
            BOHB.from_journal(journal).note(text, trial=trial, tags=tags)

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._followed.clear()
        for index in self._indexes.values():
            index.close()

    def _place(self, name: str) -> tuple[_Index, str]:
        """Return the journal of a study, and its name there."""
        for index in self._indexes.values():
            if name.endswith(index.suffix):
                return index, name.removesuffix(index.suffix)
        raise UnknownStudy(f"no journal has a study named {short(name, 250)!r}")

    def _follow(self, name: str, index: _Index, study: str, length: int) -> _Followed:
        with self._lock:
            known = self._followed.pop(name, None)
            if known is None or known.length > length or known.opening != index.opening:
                # it is new, a repair cut it back, or another file took its place
                known = _Followed(name, SqlJournal(index.target, study, read_only=True), index.opening)
            self._followed[name] = known
            while len(self._followed) > self._keep:
                self._followed.popitem(last=False)
        return known

    def _new_entry(self, name: str, version: int) -> Entry | None:
        try:
            snapshot = self.snapshot(name)
        except BohbError as error:
            return Entry(version, trouble=str(error))
        if snapshot.unread:
            return None
        history, seen = snapshot.history, snapshot.overview
        best = DASH if seen.best is None else best_on_budget(history.goals, seen.best)
        started = history.created.time if history.created else None
        return Entry(snapshot.version, seen.counts, best, started, seen.last_event)


class _Index:
    """The names of the studies of a journal.

    suffix: the end of the names that pages use for its studies.
    opening: how often the journal was opened; a file that was removed or replaced is opened again, since open
        connections still see the old one.
    """

    def __init__(self, target: str | Path, suffix: str) -> None:
        self.target = target
        self.suffix = suffix
        self.opening = 0
        self._lock = threading.Lock()
        self._journal: SqlJournal | None = None
        self._file: tuple[int, int] | None = None

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study, by name, sorted by name."""
        with self._lock:
            if self._journal is not None and self._identity(self._journal) != self._file:
                self._close()
            try:
                if self._journal is None:
                    self._journal = SqlJournal(self.target, read_only=True)
                    self._file = self._identity(self._journal)
                    self.opening += 1
                return self._journal.lengths()
            except JournalError:
                self._close()
                raise

    def close(self) -> None:
        """Close the journal."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self._journal = None

    @staticmethod
    def _identity(journal: SqlJournal) -> tuple[int, int] | None:
        """Return what tells the journal's file from another one; None for a server."""
        try:
            found = None if journal.path is None else os.stat(journal.path)
        except OSError:
            return (-1, -1)
        return None if found is None else (found.st_dev, found.st_ino)


class _Followed:
    """A study that is kept up to date: its history so far, and its read-only journal, which is closed with it."""

    def __init__(self, name: str, journal: SqlJournal, opening: int) -> None:
        self.name = name
        self.opening = opening
        self._lock = threading.Lock()
        self._journal = journal
        self._history = History()
        self._snapshot: Snapshot | None = None
        self._encoding = threading.RLock()

    @property
    def length(self) -> int:
        """The number of events read so far."""
        return self._history.n_events

    def snapshot(self, length: int, deadline: float) -> Snapshot:
        """Return the state of the study, as far as it can be read by the deadline.

        length: the number of its events, as far as it is known.
        """
        with self._lock:
            while events := self._journal.read(self.length, AT_ONCE):
                self._keep_what_is_seen()
                with no_collector():
                    self._history.extend(events)
                del events  # before more are read
                if time.monotonic() > deadline:
                    break
            if self._snapshot is None:
                unread = max(0, length - self.length)
                self._snapshot = Snapshot(self.name, copy.copy(self._history), unread, self._encoding)
            return self._snapshot

    def runner(self) -> str:
        """Return who runs the study; "none" if nobody does."""
        with self._lock:
            return printable(short(self._journal.runner() or "none", 100))

    def _keep_what_is_seen(self) -> None:
        """Continue with a copy of the history if somebody still looks at it; else in place, which takes less memory."""
        if self._snapshot is None:
            return
        seen = weakref.ref(self._snapshot.history)
        self._snapshot = None
        if seen() is not None:
            with self._encoding:
                self._history, self._encoding = self._history.snapshot(), threading.RLock()


def files_of(journal: str | Path) -> list[str | Path]:
    """Return the journals in a folder, or the journal itself."""
    path = path_of(journal)
    if path is None or not path.is_dir():
        return [journal]
    found: list[str | Path] = [*sorted(path.glob("*.db"))]
    if not found:
        raise InvalidArgument(f"the folder {str(path)!r} has no journal: no file in it ends in .db")
    return found


def _distinct_names(journals: Sequence[str | Path]) -> list[str]:
    """Return a name for each journal: of a file its name, with as many folders as tell it from the others."""
    if not journals:
        raise InvalidArgument("journals=[] is empty; name at least one journal")
    paths = [path_of(journal) for journal in journals]
    shown = [shown_journal(str(journal)) for journal in journals]
    names = [where if path is None else path.name for where, path in zip(shown, paths, strict=True)]
    for depth in range(2, 1 + max((len(path.parts) for path in paths if path is not None), default=0)):
        names = [
            name if path is None or names.count(name) == 1 else str(Path(*path.parts[-depth:]))
            for name, path in zip(names, paths, strict=True)
        ]
    if len(set(names)) < len(names):
        raise InvalidArgument(f"journals={shown} names one journal twice")
    return names
