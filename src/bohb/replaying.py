"""Exact replay: does every decision of a stored study follow from the events before it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bohb.core.events import Event, RungCut, TrialFinished, TrialStarted
from bohb.errors import InvalidArgument
from bohb.journal import Journal, MemoryJournal, SqlJournal, open_journal
from bohb.optimizer import BOHB


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay.

    decisions: how many decisions were made again.
    difference: where the first one differs, or None.
    """

    decisions: int
    difference: str | None

    @property
    def exact(self) -> bool:
        """Whether every decision was made again just so."""
        return self.difference is None


def replay(source: str | Path | Journal | Iterable[Event], study: str = "study") -> Replay:
    """Make every decision of a study again from the events before it, and report the first difference.

    source: a journal (a path, a URL or an object), or the events themselves.
    """
    if isinstance(source, str | Path):
        journal = open_journal(source, study, read_only=True)
        events = list(journal.read(0))
        if isinstance(journal, SqlJournal):
            journal.close()
    else:
        events = list(source.read(0) if hasattr(source, "read") else source)
    if not events:
        raise InvalidArgument(f"there is nothing to replay: {source!r} has no events")
    memory = MemoryJournal(events[:1])
    optimizer = BOHB.from_journal(memory, clock=lambda: 0.0)
    decisions = 0
    position = 1
    while position < len(events):
        event = events[position]
        size = 1
        if isinstance(event, TrialStarted | RungCut):
            expected = optimizer.next_events()
            size = max(1, len(expected))
            stored = events[position : position + size]
            if [_decided(e) for e in expected] != [_decided(e) for e in stored]:
                return Replay(decisions, f"event {position}: stored {stored}, decided {expected}")
            decisions += 1
        optimizer.absorb(events[position : position + size])
        position += size
    return Replay(decisions, None)


def _decided(event: Event) -> object:
    """What was decided in an event: all of it but the time."""
    if isinstance(event, TrialStarted):
        return event.trial
    if isinstance(event, TrialFinished):
        return event.number, event.outcome.status, event.outcome.loss
    return event
