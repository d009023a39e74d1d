"""Checks a stored study of several runners: nobody wrote about a trial that had gone to somebody else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bohb.core.events import Event, ResultLate, SessionStarted, TrialFinished, TrialLost, TrialStarted
from bohb.journal import SqlJournal
from bohb.journal.database import ROWS


class Row(NamedTuple):
    """A stored event, and who wrote it.

    session: the session that last began with this epoch; None for programs without one.
    epoch: the number of the writer.
    """

    position: int
    session: int | None
    epoch: int
    event: Event


class Attempt(NamedTuple):
    """An attempt of a trial, and who started it."""

    attempt: int
    epoch: int
    position: int


def rows_of(url: str, study: str = "study") -> list[Row]:
    """Read a study with its writers."""
    sessions: dict[int, int] = {}
    found = []
    with SqlJournal(url, study, read_only=True) as journal, journal.database.transaction(reads=True) as database:
        stored = database.execute(ROWS, of=study, first=0, last=10**9)
        events = journal.read()
    for (position, epoch, *_), event in zip(stored, events, strict=True):
        if isinstance(event, SessionStarted):
            sessions[epoch] = event.index
        found.append(Row(position, sessions.get(epoch), epoch, event))
    return found


def violations(rows: Iterable[Row]) -> list[str]:
    """Return every event that its writer must not have written; none for a log as of one runner after the other.

    A session whose lease has gone to another may still say that its results are late, and start new trials.
    """
    return _Log().read(rows)


class _Log:
    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.epochs: dict[int, int] = {}  # of each session
        self.running: dict[int, Attempt] = {}
        self.given_up: dict[tuple[int, int], int] = {}  # the epoch of those who had started attempts that were lost
        self.attempts: dict[int, int] = {}  # how often each trial was started
        self.finished: set[int] = set()
        self.decided = 0.0  # when the latest trial was started: turns do not overlap

    def read(self, rows: Iterable[Row]) -> list[str]:
        for place, row in enumerate(rows):
            if row.position != place:
                self.wrong.append(f"position {row.position} stands at {place}")
            found = self.check(row)
            if found:
                self.wrong.append(f"event {row.position} of session {row.session}, epoch {row.epoch}: {found}")
        return self.wrong

    def check(self, row: Row) -> str:
        match row.event:
            case SessionStarted(index=index):
                before = self.epochs.setdefault(index, row.epoch)
                if before != row.epoch:
                    return f"session {index} had begun with epoch {before}"
                if index != len(self.epochs) - 1:
                    return f"session {index} begins as the {len(self.epochs)}th"
            case TrialStarted():
                return self._started(row, row.event)
            case TrialFinished(number=number):
                return self._finished(row, number)
            case TrialLost(number=number, attempt=attempt):
                return self._lost(row, number, attempt)
            case ResultLate(number=number, attempt=attempt):
                if self.given_up.get((number, attempt)) != row.epoch:
                    return f"attempt {attempt} of trial {number} was not taken from this writer"
        return ""

    def _started(self, row: Row, event: TrialStarted) -> str:
        number, attempt = event.trial.number, event.trial.attempt
        running, earlier, decided = self.running.get(number), self.attempts.get(number, 0), self.decided
        self.running[number], self.attempts[number] = Attempt(attempt, row.epoch, row.position), attempt
        self.decided = max(decided, event.time or decided)
        if running is not None or number in self.finished:
            return f"trial {number} starts although it {'has finished' if running is None else 'runs'}"
        if attempt != earlier + 1:
            return f"attempt {attempt} of trial {number} follows attempt {earlier}"
        if event.session is not None and event.session != row.session:
            return f"trial {number} is started in the name of session {event.session}"
        if event.time is not None and event.time < decided:
            return f"trial {number} was decided {decided - event.time:.3f} s before one that is stored earlier"
        return ""

    def _finished(self, row: Row, number: int) -> str:
        running = self.running.pop(number, None)
        self.finished.add(number)
        if running is None:
            taken = any(epoch == row.epoch and lost == number for (lost, _), epoch in self.given_up.items())
            return f"trial {number} ends, which {'had gone to another' if taken else 'does not run'}"
        if running.epoch != row.epoch:
            return f"trial {number} ends, which belongs to epoch {running.epoch}"
        return ""

    def _lost(self, row: Row, number: int, attempt: int) -> str:
        running = self.running.get(number)
        if running is None or running.attempt != attempt:
            return f"attempt {attempt} of trial {number} is given up, which does not run"
        del self.running[number]
        self.given_up[number, attempt] = running.epoch
        return ""


def taken_over(rows: Iterable[Row]) -> int:
    """Return how many attempts were given up by somebody else than their runner."""
    owners: dict[tuple[int, int], int] = {}
    taken = 0
    for row in rows:
        if isinstance(row.event, TrialStarted):
            owners[row.event.trial.number, row.event.trial.attempt] = row.epoch
        elif isinstance(row.event, TrialLost):
            taken += owners[row.event.number, row.event.attempt] != row.epoch
    return taken
