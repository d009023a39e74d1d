"""Exact replay: does every decision of a stored study follow from the events before it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bohb.core.custom_sampler import Sampler, sampler_name
from bohb.core.events import BracketPlanned, Event, RungCut, StudyCreated, TrialFinished, TrialStarted
from bohb.core.history import History
from bohb.core.policy import Now, Starter, restart_lost
from bohb.core.settings import TPE, Settings
from bohb.errors import InvalidArgument
from bohb.journal import Journal, SqlJournal, open_journal
from bohb.optimizer.blas import one_thread


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


def replay(
    source: str | Path | Journal | Iterable[Event], study: str = "study", sampler: Sampler | None = None
) -> Replay:
    """Make every decision of a study again from the events before it, and report the first difference.

    source: a journal (a path, a URL or an object), or the events themselves.
    sampler: the function that proposed the configurations, if the study was created with one.
    """
    events = _events(source, study)
    if not events:
        raise InvalidArgument(f"there is nothing to replay: {source!r} has no events")
    _check_sampler(events[0], sampler)
    history = History()
    starter = Starter(history, sampler)
    decisions = position = 0
    while position < len(events):
        taken = events[position : position + 1]
        if isinstance(taken[0], TrialStarted | RungCut | BracketPlanned):
            with one_thread(history.settings):
                decided = starter.next_events(Now())
            taken = events[position : position + len(decided)] if decided else taken
            # Once a limit is reached, only trials that lost their worker are started, whatever else is ready.
            if not _same(decided, taken) and not _same(restart_lost(history, Now()), taken):
                return Replay(decisions, f"event {position}: stored {taken}, decided {decided}")
            decisions += 1
        history.extend(taken)
        position += len(taken)
    return Replay(decisions, None)


def _check_sampler(created: Event, sampler: Sampler | None) -> None:
    """Refuse what would be another sampler than the study's."""
    stored = Settings.from_json(created.settings).sampler if isinstance(created, StudyCreated) else TPE
    given = TPE if sampler is None else sampler_name(sampler)
    if stored != given:
        raise InvalidArgument(
            f"the configurations of this study were proposed by the sampler {stored!r}, not by {given!r}; only the "
            "same function can propose them again: replay(…, sampler=…)"
        )


def _events(source: str | Path | Journal | Iterable[Event], study: str) -> list[Event]:
    if isinstance(source, str | Path):
        journal = open_journal(source, study, read_only=True)
        try:
            return list(journal.read(0))
        finally:
            if isinstance(journal, SqlJournal):
                journal.close()
    return list(source) if isinstance(source, Iterable) else list(source.read(0))


def _same(decided: list[Event], stored: list[Event]) -> bool:
    return [_decided(event) for event in decided] == [_decided(event) for event in stored]


def _decided(event: Event) -> object:
    """What was decided in an event: all of it but the time."""
    if isinstance(event, TrialStarted):
        return event.trial
    if isinstance(event, TrialFinished):
        return event.number, event.outcome.status, event.outcome.loss
    return event
