"""The progress of a study: its run time without pauses, every finished trial, and the best loss over time."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from bohb.analysis.trials import finished, started
from bohb.core.history import History
from bohb.core.results import Leaders, Result
from bohb.core.trial import Origin, Outcome, Status, Trial


@dataclass(frozen=True, slots=True)
class RunClock:
    """The clock of a study, which stands still in pauses.

    origin: the time at which it began; None if no time was recorded.
    pauses: (start, end) of the pauses, in order.
    """

    origin: float | None
    pauses: tuple[tuple[float, float], ...] = ()

    def seconds(self, time: float | None) -> float | None:
        """Return the run time in seconds until a time; None if that or the origin is unknown."""
        if time is None or self.origin is None:
            return None
        idle = sum(min(time, end) - start for start, end in self.pauses if start < time) if self.pauses else 0.0
        return max(0.0, time - self.origin - idle)


def run_clock(history: History) -> RunClock:
    """Return the clock of a study.

    A pause is a period in which no trial ran and at whose end a session began. Sessions of several runners that
    overlap leave no pause.
    """
    spans = sorted(span for number in history.trials if (span := _span(history, number)) is not None)
    sessions = sorted(session.time for session in history.sessions)
    first = [start for start, _ in spans[:1]] + sessions[:1]
    if not first:
        return RunClock(None)
    origin = min(first)
    starts = [start for start, _ in spans]
    reached = list(accumulate((end for _, end in spans), max))
    pauses = []
    for session in sessions[1:]:
        before = bisect_left(starts, session)  # spans that began before this session
        end = reached[before - 1] if before else origin
        end = max(end, *(s for s in sessions if s < session), origin)
        if end < session:
            pauses.append((end, session))
    return RunClock(origin, tuple(pauses))


def _span(history: History, number: int) -> tuple[float, float] | None:
    """The period in which a trial ran; its end is infinite while it runs."""
    begin = started(history, number)
    if begin is None:
        return None
    if number in history.pending and number not in history.lost:
        return begin, math.inf
    end = finished(history, number)
    return begin, begin if end is None else max(begin, end)


@dataclass(frozen=True, slots=True)
class Span:
    """The time of one trial on its worker, in seconds of run time.

    end: None while it runs.
    worker: the name of the worker. It is known only when the trial has finished; until then, and for workers without a
        name, trials that overlap are spread over "running 1", "running 2" … or "slot 1" …
    status: None while it runs.
    """

    number: int
    worker: str
    start: float
    end: float | None
    status: Status | None
    budget: float


def timeline(history: History) -> list[Span]:
    """Return every trial that ran or runs, ordered by start; without reused results and unknown starts."""
    clock = run_clock(history)
    timed = []
    for number, trial in history.trials.items():
        start = clock.seconds(started(history, number))
        if start is not None and number not in history.lost and trial.reuses is None:
            timed.append((start, number))
    lanes: dict[str, list[float]] = {"running": [], "slot": []}
    spans = []
    for start, number in sorted(timed):
        trial, outcome = history.trials[number], history.outcomes.get(number)
        end = clock.seconds(finished(history, number))
        end = None if end is None else max(start, end)
        named = None if outcome is None else outcome.worker
        kind = "running" if outcome is None else "slot"
        worker = _lane(kind, lanes[kind], start, end) if named is None else named
        status = None if outcome is None else outcome.status
        spans.append(Span(number, worker, start, end, status, trial.budget))
    return spans


def _lane(kind: str, ends: list[float], start: float, end: float | None) -> str:
    """Return the first lane that is free at `start`, and occupy it until `end`."""
    free = next((lane for lane, until in enumerate(ends) if until <= start), len(ends))
    ends[free : free + 1] = [math.inf if end is None else end]
    return f"{kind} {free + 1}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The progress of a study when a trial finished.

    trials: number of finished trials, including this one.
    seconds: run time; None if no time was recorded.
    fresh, continued: budget of the finished trials in full evaluations, if every trial starts from scratch and if a
        promoted configuration continues from its checkpoint.
    """

    trials: int
    seconds: float | None
    fresh: float
    continued: float


class Evaluation(NamedTuple):
    """A finished trial.

    picked: how its configuration was first chosen; the origin is "promoted" on all later rungs.
    at: the progress of the study when it finished; its times never decrease.
    """

    trial: Trial
    outcome: Outcome
    picked: Origin
    at: Moment


def evaluations(history: History) -> list[Evaluation]:
    """Return every finished trial, in the order in which they finished."""
    clock, full = run_clock(history), history.budgets[-1] if history.created is not None else 1.0
    fresh = continued = 0.0
    seconds: float | None = None
    found = []
    for count, (number, outcome) in enumerate(history.outcomes.items(), start=1):
        trial, ended = history.trials[number], clock.seconds(finished(history, number))
        if trial.reuses is None:
            fresh += trial.budget
            continued += trial.budget - (trial.previous_budget or 0.0)
        if ended is not None:
            seconds = ended if seconds is None else max(seconds, ended)
        at = Moment(count, seconds, fresh / full, continued / full)
        found.append(Evaluation(trial, outcome, history.trials[trial.config_id].origin, at))
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """An improvement: the trial and the time."""

    number: int
    loss: float
    budget: float
    at: Moment


@dataclass(frozen=True, slots=True)
class Trajectory:
    """All improvements in order.

    incumbents: the largest budget counts first, then the lowest loss; so the loss can rise with the first result on a
        larger budget. Results that keep the constraints come before all others.
    per_budget: the improvements on each budget, smallest budget first; without constraints these losses only fall.
    end: the current progress.
    """

    incumbents: tuple[Step, ...]
    per_budget: dict[float, tuple[Step, ...]]
    end: Moment


def trajectory(history: History) -> Trajectory:
    """Return the incumbents and the best losses per budget, in the order in which trials finished."""
    rows = evaluations(history)
    incumbents: list[Step] = []
    per_budget: dict[float, list[Step]] = {}
    leaders = Leaders()  # by the loss alone: `Leaders` compares by the violations that it is given
    for trial, outcome, _, at in rows:
        if outcome.loss is None:
            continue
        step = Step(trial.number, outcome.loss, trial.budget, at)
        result = Result(trial, outcome, history.violation(outcome))
        leaders.add(result)
        if leaders.best[trial.budget] is result:
            per_budget.setdefault(trial.budget, []).append(step)
        if leaders.trajectory[-1] is result:
            incumbents.append(step)
    return Trajectory(
        tuple(incumbents),
        {budget: tuple(per_budget[budget]) for budget in sorted(per_budget)},
        rows[-1].at if rows else Moment(0, None, 0.0, 0.0),
    )
