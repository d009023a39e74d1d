"""Tells a trial that kills its worker from an infrastructure that loses trials, and waits while the latter is down."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from bohb.core.trial import Outcome, Status, Trial
from bohb.errors import WorkersUnavailable
from bohb.executors.base import Lost
from bohb.units import duration

log = logging.getLogger("bohb")
FIRST_PAUSE = 0.5  # seconds; each further pause is twice as long, up to LONGEST_PAUSE
LONGEST_PAUSE = 60.0
GIVE_UP_SECONDS = 3600.0  # of nothing but lost trials, after which a session ends with an error


class Ended(NamedTuple):
    """A trial that ended; without an outcome it will be started again.

    counts: whether a loss counts as an attempt of the trial.
    """

    trial: Trial
    outcome: Outcome | None
    reason: str = ""
    counts: bool = True


@dataclass(slots=True)
class Outages:
    """Judges lost trials by what happens to other trials.

    A trial that was lost max_attempts times is held back until another trial ends. That other trial shows that workers
    do work, so that the trial itself is to blame: it fails as `lost`, after another chance if it was lost together with
    others. If instead more different trials are lost in a row than can run at once, the infrastructure is to blame, and
    none of these losses counts.

    held: trials that were lost max_attempts times, with the last reason.
    """

    max_attempts: int
    held: list[tuple[Trial, str]] = field(default_factory=list)
    _lost: set[int] = field(default_factory=set)  # trials that were lost since a trial last ended
    _pardoned: set[int] = field(default_factory=set)  # trials that were given another chance
    _since: float = math.inf  # when the first of them was lost
    _until: float = -math.inf  # the end of the pause
    _pauses: int = 0
    _reason: str = ""

    def ended(self, trial: Trial, outcome: Outcome) -> list[Ended]:
        """Return what to store when a trial has ended by itself: its outcome, and failures of the held trials."""
        judged = self.judge_held()
        self._lost.clear()
        self._since, self._until, self._pauses = math.inf, -math.inf, 0
        return [Ended(trial, outcome), *judged]

    def judge_held(self) -> list[Ended]:
        """Return the failures of the held trials; one that was lost together with others has another chance, once."""
        burst = len(self._lost) > 1
        judged: list[Ended] = []
        for trial, reason in self.held:
            if burst and trial.number not in self._pardoned:
                self._pardoned.add(trial.number)
                judged.append(Ended(trial, None, reason, counts=False))
            else:
                error = f"lost its worker {self.max_attempts} times, at last: {reason}"
                judged.append(Ended(trial, Outcome(Status.LOST, error=error)))
        self.held.clear()
        return judged

    def lost(self, trial: Trial, loss: Lost, losses: int, slots: int) -> list[Ended]:
        """Return what to store when a trial was lost; nothing while it is held.

        losses: how many earlier losses of this trial count.
        slots: number of trials that may run at once.
        """
        now = time.monotonic()
        self._lost.add(trial.number)
        self._since, self._reason = min(self._since, now), loss.reason
        general = len(self._lost) > slots
        if (general or not loss.charged) and now >= self._until:
            self._pause(now)
        if not general and loss.charged and losses + 1 >= self.max_attempts:
            self.held.append((trial, loss.reason))
            return []
        log.warning("trial %d will be started again: %s", trial.number, loss.reason)
        ended = Ended(trial, None, loss.reason, counts=loss.charged and not general)
        if not general:
            return [ended]
        released = [Ended(other, None, reason, counts=False) for other, reason in self.held]
        self.held.clear()
        return [ended, *released]

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
        if waited > GIVE_UP_SECONDS:
            raise WorkersUnavailable(
                f"for {duration(waited)} every trial has lost its worker, at last: {self._reason}; "
                "no trial failed because of this: restore the workers, and the same call continues the study"
            )
