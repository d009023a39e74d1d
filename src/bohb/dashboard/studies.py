"""The studies of a journal, kept up to date and shared between requests."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bohb.analysis.summary import Summary, summary
from bohb.core.events import Event, ResultLate, SessionStarted, StudyCreated, TrialFinished, TrialLost, TrialStarted
from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import Outcome, Trial
from bohb.errors import BohbError, JournalError
from bohb.journal import SqlJournal
from bohb.journal.records import no_collector
from bohb.units import short


class UnknownStudy(BohbError):
    """The journal has no study of this name."""


class View:
    """A snapshot of a study. It does not change while the journal grows, so that pages need no lock.

    name: the study's name.
    history: everything that has happened up to now.
    last_activity: the time of the last event, in seconds since the epoch.
    texts: cached search texts of finished trials, shared by all views of a study.
    """

    def __init__(
        self, name: str, history: History, last_activity: float | None, texts: dict[int, str] | None = None
    ) -> None:
        self.name = name
        self.history = history
        self.last_activity = last_activity
        self._texts = {} if texts is None else texts

    @property
    def version(self) -> int:
        """A number that changes whenever the study does."""
        return self.history.n_events

    @cached_property
    def summary(self) -> Summary:
        """The study in a few numbers."""
        return summary(self.history)

    @cached_property
    def texts(self) -> dict[int, str]:
        """The text that the search looks into, by trial: configuration, error, worker and `info`, in lower case."""
        outcomes, known = self.history.outcomes, self._texts
        for n, trial in self.history.trials.items():
            if n in outcomes and n not in known:  # a finished trial does not change
                known[n] = _text(trial, outcomes[n])
        return {n: known.get(n) or _text(trial, None) for n, trial in self.history.trials.items()}

    @cached_property
    def lineage(self) -> dict[int, list[int]]:
        """The trials of each configuration, by config_id."""
        found: dict[int, list[int]] = {}
        for number, trial in self.history.trials.items():
            found.setdefault(trial.config_id, []).append(number)
        return found


@dataclass(frozen=True, slots=True)
class Card:
    """What the list of studies shows about one of them.

    trouble: why the study cannot be read; empty if it can.
    """

    version: int
    started: float | None = None
    last_activity: float | None = None
    trials: int = 0
    running: int = 0
    failed: int = 0
    best: Result | None = None
    goals: Goals = PLAIN
    trouble: str = ""


class _Live:
    """A study that is kept up to date: its read-only journal and its history so far."""

    def __init__(self, target: str | Path, name: str, suffix: str = "") -> None:
        self.name = name
        self._suffix = suffix
        self._lock = threading.Lock()
        self._journal = SqlJournal(target, name, read_only=True)
        self._history = History()
        self._last: float | None = None
        self._texts: dict[int, str] = {}
        self._view: View | None = None
        self._closed = False

    @property
    def length(self) -> int:
        """The number of events read so far."""
        return self._history.n_events

    def view(self) -> View | None:
        """Return the current state of the study; None after `close`."""
        with self._lock:
            if self._closed:
                return None
            events = self._journal.read(self._history.n_events)
            if events or self._view is None:
                with no_collector():
                    self._history.extend(events)
                self._last = max(filter(None, (self._last, _latest(events))), default=None)
                self._view = View(self.name + self._suffix, self._history.snapshot(), self._last, self._texts)
            return self._view

    def close(self) -> None:
        """Stop reading the journal."""
        with self._lock:
            self._closed = True
            self._journal.close()


class Library:
    """All studies of a journal. The histories of the most recently used ones stay in memory.

    target: the journal's file or address.
    suffix: the end of the names that pages use for its studies.
    keep: the number of histories kept in memory.
    """

    def __init__(self, target: str | Path, suffix: str = "", keep: int = 4) -> None:
        self.target = target
        self.suffix = suffix
        self.keep = keep
        self._lock = threading.Lock()
        self._index: SqlJournal | None = None
        self._file: tuple[int, int] | None = None
        self._live: OrderedDict[str, _Live] = OrderedDict()
        self._cards: dict[str, Card] = {}

    def lengths(self) -> dict[str, int]:
        """Return the number of events of every study, by name, sorted by name."""
        with self._lock:
            self._notice_another_file()
            try:
                if self._index is None:
                    self._index = SqlJournal(self.target, read_only=True)
                    self._file = self._identity()
                return self._index.lengths()
            except JournalError:
                self._forget()
                raise

    def view(self, name: str) -> View:
        """Return the current state of a study. Raises UnknownStudy, or JournalError if the journal cannot be read."""
        while True:
            length = self.lengths().get(name)
            if length is None:
                raise UnknownStudy(f"this journal has no study named {short(name, 250)!r}")
            live = self._followed(name, length)
            try:
                view = live.view()
            except BohbError:
                self._drop(live)
                raise
            if view is not None:  # None: another request evicted it
                return view

    def card(self, name: str, version: int) -> Card:
        """Return what the list shows about a study; cached until the study changes."""
        card = self.known_card(name, version)
        if card is None:
            card = self._cards[name] = self._new_card(name, version)
        return card

    def known_card(self, name: str, version: int) -> Card | None:
        """Return the cached card, if it is current. Cards with trouble are not cached, since trouble may pass."""
        card = self._cards.get(name)
        return card if card is not None and card.version == version and not card.trouble else None

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._forget()

    def _new_card(self, name: str, version: int) -> Card:
        try:
            view = self.view(name)
        except BohbError as error:
            return Card(version, trouble=str(error))
        history = view.history
        return Card(
            view.version,
            history.created.time if history.created else None,
            view.last_activity,
            len(history.trials),
            len(history.running),
            history.n_failed,
            history.incumbent,
            history.goals,
        )

    def _followed(self, name: str, length: int) -> _Live:
        with self._lock:
            live = self._live.pop(name, None)
            if live is not None and live.length > length:  # a repair cut it back, or it was started again
                live.close()
                live = None
            if live is None:
                live = _Live(self.target, name, self.suffix)
            self._live[name] = live
            evicted = [self._live.popitem(last=False)[1] for _ in range(len(self._live) - self.keep)]
        for old in evicted:  # outside the lock: closing waits for a read in progress
            old.close()
        return live

    def _drop(self, live: _Live) -> None:
        """Forget a study whose journal failed, so that the next request opens it again."""
        with self._lock:
            if self._live.get(live.name) is live:
                del self._live[live.name]
        live.close()

    def _notice_another_file(self) -> None:
        """Reopen everything if the file was removed or replaced, since open connections still see the old one."""
        if self._index is not None and self._identity() != self._file:
            self._forget()
            self._cards.clear()

    def _identity(self) -> tuple[int, int] | None:
        path = None if self._index is None else self._index.path
        try:
            found = None if path is None else os.stat(path)
        except OSError:
            return (-1, -1)
        return None if found is None else (found.st_dev, found.st_ino)

    def _forget(self) -> None:
        for journal in (self._index, *self._live.values()):
            if journal is not None:
                journal.close()
        self._index = None
        self._live.clear()


def _latest(events: Iterable[Event]) -> float | None:
    """Return the latest time in any of these events."""
    times = []
    for event in events:
        match event:
            case StudyCreated() | SessionStarted() | TrialStarted() | TrialLost():
                times.append(event.time)
            case TrialFinished() | ResultLate():
                times.append(event.outcome.finished)
    return max(filter(None, times), default=None)


def _text(trial: Trial, outcome: Outcome | None) -> str:
    parts = [f"{name}={value}" for name, value in trial.config.items()]
    if outcome is not None:
        parts += [outcome.error or "", outcome.worker or ""]
        parts += [f"{name}={value}" for name, value in outcome.info.items()]
    return " ".join(parts)[:10_000].casefold()
