"""Waits while workers or servers are down, and tells trials that kill their workers from those that are victims."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.errors import JournalUnavailable, WorkersUnavailable
from bohb.units import duration

T = TypeVar("T")
Ended = tuple[Trial, Outcome | Lost]
"""A trial that has ended; one that was lost will be started again."""
log = logging.getLogger("bohb")
FIRST_PAUSE = 0.5  # seconds; each further pause is twice as long, up to LONGEST_PAUSE
LONGEST_PAUSE = 60.0
GIVE_UP_SECONDS = 3600.0  # of nothing but lost trials, after which a session ends with an error
KILLED_PAUSES = 6  # after which a session ends with an error in which every trial was killed while it ran
COMPLAIN_SECONDS = 60.0  # after which the same trouble is reported again
_SERVER_SECONDS = 1.0  # between two attempts to reach a server


def patiently(shared: bool, act: Callable[[], T]) -> T:
    """Call `act` while a runner starts, and retry while the server is unavailable; a running one waits by itself.

    shared: whether the journal is on a server; otherwise the error is raised at once.
    """
    complained = -math.inf
    while True:
        try:
            return act()
        except JournalUnavailable as error:
            if not shared:
                raise
            if time.monotonic() - complained > COMPLAIN_SECONDS:
                complained = time.monotonic()
                log.error("%s; the study starts when this is resolved", error)
            time.sleep(_SERVER_SECONDS)


@dataclass(slots=True)
class Outages:
    """Judges lost trials by what happens to other trials.

    A trial that was lost max_attempts times is held back until another trial ends. That other trial shows that workers
    do work, so that the trial itself is to blame: it fails as `lost`, after another chance if it was lost together with
    others. If instead more different trials are lost in a row than can run at once, the infrastructure is to blame, and
    none of these losses counts.

    held: trials that were lost max_attempts times, with the last loss.
    """

    max_attempts: int
    held: list[tuple[Trial, Lost]] = field(default_factory=list)
    _lost: set[int] = field(default_factory=set)  # trials that were lost since a trial last ended
    _pardoned: set[int] = field(default_factory=set)  # trials that were given another chance
    _since: float = math.inf  # when the first of them was lost
    _until: float = -math.inf  # the end of the pause
    _pauses: int = 0
    _reason: str = ""
    _only_killed: bool = True  # whether every trial of this session so far began and was killed

    def ended(self, trial: Trial, outcome: Outcome) -> list[Ended]:
        """Return what to store when a trial has ended by itself: its outcome, and failures of the held trials."""
        judged = self.judge_held()
        self._lost.clear()
        self._since, self._until, self._pauses, self._only_killed = math.inf, -math.inf, 0, False
        return [(trial, outcome), *judged]

    def judge_held(self) -> list[Ended]:
        """Return the failures of the held trials; one that was lost together with others has another chance, once."""
        burst = len(self._lost) > 1
        judged: list[Ended] = []
        for trial, loss in self._released():
            if burst and trial.number not in self._pardoned:
                self._pardoned.add(trial.number)
                judged.append((trial, loss))
            else:
                error = f"lost its worker {self.max_attempts} times, at last: {loss.reason}"
                judged.append((trial, Outcome(Status.LOST, error=error)))
        return judged

    def lost(self, trial: Trial, loss: Lost, losses: int, slots: int) -> list[Ended]:
        """Return what to store when a trial was lost; nothing while it is held.

        losses: how many earlier losses of this trial count.
        slots: number of trials that may run at once.
        """
        if not loss.outage:
            log.info("trial %d will be started again: %s", trial.number, loss.reason)
            return [(trial, loss)]
        now = time.monotonic()
        self._lost.add(trial.number)
        self._since, self._reason = min(self._since, now), loss.reason
        self._only_killed = self._only_killed and loss.charged
        general = len(self._lost) > slots
        if (general or not loss.charged) and now >= self._until:
            self._pause(now)
        if not general and loss.charged and losses + 1 >= self.max_attempts:
            self.held.append((trial, loss))
            return []
        log.warning("trial %d will be started again: %s", trial.number, loss.reason)
        again = trial, Lost(loss.reason, loss.charged and not general)
        return [again, *(self._released() if general else ())]

    def _released(self) -> list[tuple[Trial, Lost]]:
        """Return the held trials, which may be started again without a charge, and hold none."""
        held, self.held = self.held, []
        return [(trial, Lost(loss.reason, charged=False)) for trial, loss in held]

    def _pause(self, now: float) -> None:
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._pauses)
        self._pauses += 1
        self._until = now + seconds
        if self._pauses > 1:  # a single pause is too short to be worth a message
            log.error("trials lose their workers (%s); no trial is started for %s", self._reason, duration(seconds))

    @property
    def paused(self) -> bool:
        """Whether no trial should be started now."""
        return time.monotonic() < self._until

    def check(self) -> None:
        """Raise WorkersUnavailable if trials have been lost for too long; call it while no trial runs."""
        waited = time.monotonic() - self._since
        if self._only_killed and self._pauses > KILLED_PAUSES:
            raise WorkersUnavailable(
                f"every trial of this session was killed while it ran, at last: {self._reason}; the objective probably "
                "needs more memory than there is: use fewer workers, or set trial_memory, so that only trials fail "
                "which exceed it. No trial failed because of this, and the same call continues the study"
            )
        if waited > GIVE_UP_SECONDS:
            raise WorkersUnavailable(
                f"for {duration(waited)} every trial has lost its worker, at last: {self._reason}; "
                "no trial failed because of this: restore the workers, and the same call continues the study"
            )
