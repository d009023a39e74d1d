"""From times of day to seconds at work: the pauses between sessions do not count."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bohb.core.columns import finished, started
from bohb.core.history import History


@dataclass(frozen=True, slots=True)
class WorkClock:
    """When the study was at work.

    origin: the time of day at which it began, None if no time was ever recorded.
    pauses: (from, to) in times of day, in order: nobody worked on the study in between.
    """

    origin: float | None
    pauses: tuple[tuple[float, float], ...] = ()

    def seconds(self, time: float | None) -> float | None:
        """Seconds at work at a time of day; None where either is unknown."""
        if time is None or self.origin is None:
            return None
        idle = sum(min(time, end) - start for start, end in self.pauses if start < time) if self.pauses else 0.0
        return max(0.0, time - self.origin - idle)


def work_clock(history: History) -> WorkClock:
    """The clock of a study.

    A pause is a stretch in which no trial ran and at whose end a session began; several runners at once, whose
    sessions overlap, make none.
    """
    spans = sorted(span for number in history.trials if (span := _span(history, number)) is not None)
    sessions = sorted(session.time for session in history.sessions)
    first = [start for start, _ in spans[:1]] + sessions[:1]
    if not first:
        return WorkClock(None)
    origin = min(first)
    busy = np.array(spans, dtype=float).reshape(-1, 2)
    reached = np.maximum.accumulate(busy[:, 1]) if len(busy) else busy[:, 1]
    pauses = []
    for session in sessions[1:]:
        before = int(np.searchsorted(busy[:, 0], session, side="left"))  # spans that began before this session
        end = float(reached[before - 1]) if before else origin
        end = max(end, *(s for s in sessions if s < session), origin)
        if end < session:
            pauses.append((end, session))
    return WorkClock(origin, tuple(pauses))


def _span(history: History, number: int) -> tuple[float, float] | None:
    """From when to when a trial kept somebody busy; without an end while it runs."""
    begin = started(history, number)
    if begin is None:
        return None
    if number in history.pending and number not in history.lost:
        return begin, math.inf
    end = finished(history, number)
    return begin, begin if end is None else max(begin, end)
