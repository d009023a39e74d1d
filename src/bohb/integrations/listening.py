"""Forward finished trials to a tracker from a separate process that reads the journal.

The study does not know about it, so a tracker that is slow, down or broken cannot disturb the study. At the start, the
tracker says which trials it already has. A trial is written until the tracker accepts it, and again if it is unknown
whether it did; therefore writing a trial twice must have the same effect as writing it once.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bohb.core.events import TrialFinished
from bohb.core.goals import PLAIN, Goals
from bohb.core.history import History
from bohb.core.trial import Outcome, Trial
from bohb.errors import BohbError, JournalDamaged, JournalError, JournalUnavailable
from bohb.journal import Journal, open_journal

log = logging.getLogger("bohb")
_PAUSE = 1.0  # seconds between two reads of the journal
_LONGEST_PAUSE = 60.0  # seconds between two attempts while a tracker is down


class TrackerUnavailable(BohbError):
    """The tracker cannot be written at the moment; nothing is lost, and a later attempt may succeed."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished trial, as a tracker receives it.

    order: number of trials that had finished, including this one.
    improves: whether it was the new incumbent.
    goals: what the study minimises or maximises.
    """

    trial: Trial
    outcome: Outcome
    order: int
    improves: bool
    goals: Goals = PLAIN

    @property
    def returned(self) -> dict[str, float]:
        """The values that the objective returned, under the user's names and with the user's signs."""
        loss = self.goals.shown(self.outcome.loss)
        return self.outcome.values or ({} if loss is None else {self.goals.label: loss})

    @property
    def metrics(self) -> dict[str, float]:
        """Budget, cost, and the values that the objective returned, as far as they are known."""
        cost = {} if self.outcome.cost is None else {"cost": self.outcome.cost}
        return {"budget": self.trial.budget, **cost, **self.returned}

    @property
    def incumbent_metrics(self) -> dict[str, float]:
        """For the curves of the incumbents: "incumbent_" and the name of each value; empty if this trial is not one."""
        return {f"incumbent_{name}": value for name, value in self.returned.items()} if self.improves else {}

    @property
    def curve(self) -> list[tuple[int, float, float]]:
        """Index, step and loss of the finite points of the learning curve."""
        points = enumerate(self.outcome.curve)
        return [(index, step, loss) for index, (step, loss) in points if math.isfinite(loss)]

    @property
    def times(self) -> tuple[float, float]:
        """When the trial began and ended; a time that is not known is now, or the end."""
        ended = time.time() if self.outcome.finished is None else self.outcome.finished
        return (ended if self.outcome.started is None else self.outcome.started), ended


class Tracker(Protocol):
    """A tracker has three methods; each raises TrackerUnavailable if a later attempt may succeed."""

    def open(self, study: str, history: History) -> set[int]:
        """Start with a study; return the numbers of the trials that the tracker already has completely."""

    def write(self, finished: Finished) -> None:
        """Store a trial; storing it again has no further effect."""

    def close(self) -> None:
        """Finish; nothing more is written for now."""


class Listener:
    """Reads a journal and forwards finished trials to a tracker.

    source, study: the journal, as for `open_journal`; it is opened read-only as soon as it exists.
    tracker: receives the trials.
    """

    def __init__(self, source: str | Path | Journal, tracker: Tracker, study: str = "study") -> None:
        self._source, self._tracker, self._study = source, tracker, study
        self._journal: Journal | None = None
        self._history = History()
        self._known: set[int] | None = None  # the trials that the tracker had when it was opened
        self._queue: deque[Finished] = deque()
        self.sent = 0

    @property
    def begun(self) -> bool:
        """Whether the study has been created."""
        return self._history.created is not None

    @property
    def waiting(self) -> int:
        """Number of trials that are still to be written."""
        return len(self._queue)

    def read(self) -> None:
        """Read which trials have finished since the last call."""
        if self._journal is None:
            self._journal = open_journal(self._source, self._study, read_only=True)
        for event in self._journal.read(self._history.n_events):
            history = self._history
            history.apply(event)
            if isinstance(event, TrialFinished):
                improves = history.incumbent is not None and history.incumbent.trial.number == event.number
                trial, order = history.trials[event.number], len(history.outcomes)
                self._queue.append(Finished(trial, event.outcome, order, improves, history.goals))

    def send(self) -> None:
        """Write the waiting trials; those that the tracker does not accept stay for the next call."""
        if not self.begun:
            return
        if self._known is None:
            self._known = self._tracker.open(self._study, self._history)
        while self._queue:
            if self._queue[0].trial.number not in self._known:
                self._tracker.write(self._queue[0])
                self.sent += 1
            self._queue.popleft()

    def close(self) -> None:
        """Close the journal and the tracker."""
        if self._journal is not None and self._journal is not self._source:
            self._journal.close()
        if self._known is not None:
            self._tracker.close()


def follow(
    listener: Listener,
    pause: Callable[[float], bool | None] = time.sleep,
    say: Callable[[str], None] = log.warning,
    patient: bool = False,
) -> None:
    """Forward trials until `pause` returns True, then the remaining ones if the tracker accepts them.

    pause: waits for the given number of seconds; returns True if the study is over. By default it never is.
    say: is called with a message when the tracker goes down and when it is back.
    patient: whether to wait for a study that does not exist yet.
    """
    seconds, down, over = 0.0, False, False
    while True:
        try:
            listener.read()
        except JournalDamaged:
            raise
        except JournalError as error:  # not there yet, or out of reach for a moment
            if over and patient and not listener.begun:
                return  # the study was never created
            if over or not (patient or isinstance(error, JournalUnavailable)):
                raise
        try:
            listener.send()
            if down:
                say("the tracker is back; nothing was left out")
            seconds, down = _PAUSE, False
        except TrackerUnavailable as error:
            if not down:
                say(f"{error}; {listener.waiting} trials wait, and the study goes on")
            seconds, down = min(2 * seconds or _PAUSE, _LONGEST_PAUSE), True
        if over:
            return
        over = bool(pause(seconds))
