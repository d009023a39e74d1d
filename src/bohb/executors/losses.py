"""What lost trials tell: which places to avoid for a while, and which trial has to run alone."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Collection
from dataclasses import dataclass, field

from bohb.core.trial import Trial

FIRST_SECONDS = 1.0  # that a place is avoided; each further time is twice as long, up to LONGEST_SECONDS
LONGEST_SECONDS = 60.0


@dataclass(slots=True)
class _Record:
    """The losses at a place since a trial last ended there."""

    trials: set[int] = field(default_factory=set)
    times: int = 0  # that it was avoided
    until: float = -math.inf


class Places:
    """The places that have lost trials since a trial last ended there."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def works(self, place: str) -> None:
        """Record that a place works."""
        self._records.pop(place, None)

    def lost(self, place: str, number: int, began: bool) -> bool:
        """Record that a place has lost a trial; return whether the trial may be to blame.

        It is not if it had not begun, or if the place has lost another trial as well. Then the place is avoided.
        """
        record = self._records.setdefault(place, _Record())
        record.trials.add(number)
        if began and len(record.trials) == 1:
            return True
        now = time.monotonic()
        if now >= record.until:  # otherwise this trial was lost together with the one before
            record.until = now + min(LONGEST_SECONDS, FIRST_SECONDS * 2**record.times)
            record.times += 1
        return False

    def avoided(self) -> set[str]:
        """Return the places that should not be used now."""
        now = time.monotonic()
        return {place for place, record in self._records.items() if now < record.until}


SUSPECT_AFTER = 2  # deaths of the guard during which a trial ran


class WaitingTrials:
    """A queue of trials. All running trials are lost with their guard, and nobody knows which of them has killed it.

    A trial that ran during two deaths of the guard is a suspect: it runs alone, so that a third death has a culprit.
    """

    def __init__(self) -> None:
        self._queue: deque[Trial] = deque()
        self._guard_deaths: Counter[int] = Counter()  # by the number of the trial
        self._alone = False  # whether a suspect runs

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, trial: Trial) -> None:
        """Add a trial at the end."""
        self._queue.append(trial)

    def startable(self, running: int) -> bool:
        """Whether the first trial may start beside `running` others."""
        if not self._queue:
            return False
        return running == 0 or not (self._alone or self._suspect(self._queue[0].number))

    def take(self) -> Trial:
        """Return the first trial, which starts now."""
        trial = self._queue.popleft()
        self._alone = self._suspect(trial.number)
        return trial

    def ended(self, number: int) -> None:
        """Record that a trial has ended by itself: it has not killed the guard."""
        self._guard_deaths.pop(number, None)

    def guard_died(self, running: Collection[int]) -> bool:
        """Record that the guard died while these trials ran; return whether one of them is the culprit for certain."""
        self._guard_deaths.update(running)
        return len(running) == 1

    def _suspect(self, number: int) -> bool:
        return self._guard_deaths[number] >= SUSPECT_AFTER
