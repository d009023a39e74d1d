"""The trials that wait for a worker; one that may have killed the guard of all workers runs alone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection

from bohb.core.trial import Trial

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

    def clear(self) -> None:
        """Forget all trials."""
        self._queue.clear()

    def _suspect(self, number: int) -> bool:
        return self._guard_deaths[number] >= SUSPECT_AFTER
