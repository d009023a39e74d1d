"""The Executor protocol: something that runs trials and returns their results; and the places to avoid for a while."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from bohb.core.trial import Lost, Outcome, Trial
from bohb.errors import InvalidArgument

Objective = Callable[[Trial], Any]


def ran_out_beside_others(outcome: Outcome) -> Lost:
    """Return the result of a trial that others on its device may have left too little memory."""
    reason = f"it ran out of device memory beside others, so it will run alone ({outcome.error})"
    return Lost(reason, charged=False, outage=False)


@dataclass(frozen=True, slots=True)
class Done:
    """A trial that has ended, and its result."""

    trial: Trial
    result: Outcome | Lost


class Executor(Protocol):
    """Three methods and the number of trials that may run at once."""

    @property
    def slots(self) -> int:
        """Number of trials that may run at once; it may change while the study runs."""
        ...

    def submit(self, trial: Trial) -> None:
        """Start a trial without waiting for its result."""
        ...

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed."""
        ...

    def shutdown(self, kill: bool) -> None:
        """Release all processes. With `kill`, stop running trials at once and discard them."""
        ...


def check_objective(objective: object) -> None:
    """Raise InvalidArgument unless the objective can be called."""
    if not callable(objective):
        raise InvalidArgument(f"objective={objective!r} must be callable with one argument, the trial")


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
