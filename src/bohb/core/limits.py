"""Limits: when a study ends; and the moment at which somebody asks for a trial."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from bohb.arguments import COUNT, MOMENT, NUMBER, POSITIVE, SECONDS, argument, check
from bohb.units import clock

if TYPE_CHECKING:  # the command line needs the list of limits, and should start quickly
    from bohb.core.history import History
    from bohb.core.trial import Outcome


@dataclass(frozen=True, slots=True)
class Limits:
    """The study stops at the first of these; all but `until` and the last count from its beginning, over all sessions.

    `max_seconds` and `until` are deadlines: no trial is started that is unlikely to end in time, the last brackets are
    chosen so that they reach the largest budget in time, and trials that still run at the deadline are stopped.

    max_brackets: brackets opened.
    max_trials: trials started, without forgotten failures.
    max_seconds: working time.
    until: a time of day at which this session ends; in seconds since the epoch. `bohb.minimize` also takes "18:00"
        (today, or tomorrow if it has passed), "2026-05-01 18:00" and datetimes, in local time unless they have a time
        zone.
    max_cost: budget spent, in full evaluations; a promoted configuration counts for what it adds to its last budget.
    max_reported_cost: the sum of the costs that the objective reports.
    target_loss: a loss on the largest budget, or a value of the first objective with the sign that the user gave it;
        only results that keep the constraints count.
    patience: full evaluations spent since the incumbent last changed.
    max_initial_failures: failed trials of this session while no trial ever succeeded; a broken objective need not use
        up the budget.
    """

    max_brackets: int | None = argument(None, COUNT, "limits.max_brackets")
    max_trials: int | None = argument(None, COUNT, "limits.max_trials")
    max_seconds: float | None = argument(None, SECONDS, "limits.max_seconds")
    until: float | None = argument(None, MOMENT, "limits.until")
    max_cost: float | None = argument(None, POSITIVE, "limits.max_cost")
    max_reported_cost: float | None = argument(None, POSITIVE, "limits.max_reported_cost")
    target_loss: float | None = argument(None, NUMBER, "limits.target_loss")
    patience: float | None = argument(None, POSITIVE, "limits.patience")
    max_initial_failures: int | None = argument(10, COUNT, "limits.max_initial_failures", none=True)

    def __post_init__(self) -> None:
        check(self)

    @property
    def timed(self) -> bool:
        """Whether there is a deadline."""
        return self.max_seconds is not None or self.until is not None

    def deadline(self, seconds: float, time: float) -> str:
        """Return the name and value of the deadline that comes first."""
        if self.until is not None and self.seconds_left(seconds, time) == self.until - time:
            return f"until={clock(self.until)}"
        return f"max_seconds={self.max_seconds:g}"

    def seconds_left(self, seconds: float, time: float) -> float:
        """Return the seconds until the deadline; infinity without one.

        seconds, time: the working time of the study so far, and the time of day.
        """
        return min((self.max_seconds or math.inf) - seconds, (self.until or math.inf) - time)

    @property
    def bounded(self) -> bool:
        """Whether anything ends the study."""
        return any(getattr(self, f.name) is not None for f in fields(self) if f.name != "max_initial_failures")

    def or_one_round(self, history: History) -> Limits:
        """Return the limits; without any, one round of Hyperband."""
        return self if self.bounded else replace(self, max_brackets=len(history.schedule.round))


UNLIMITED = Limits(max_initial_failures=None)


@dataclass(frozen=True, slots=True)
class Now:
    """The moment at which somebody asks for a trial, and who asks.

    time: the time of day.
    elapsed: how long the study has been running, in seconds.
    session: the session that acts.
    workers: number of trials that its runner runs at once; None if unknown: then a deadline changes no bracket.
    alone: whether no other runner works on the study, so that this one may change brackets.
    client: the program that asks; None if it has no name.
    """

    time: float | None = None
    elapsed: float | None = None
    session: int | None = None
    workers: int | None = None
    alone: bool = True
    client: str | None = None


def reason_to_stop(limits: Limits, history: History, seconds: float, time: float = 0.0) -> str | None:
    """Return why no further trial should start, or None.

    seconds, time: the working time of the study so far, and the time of day.
    """
    full = history.budgets[-1]
    spent = history.budget_spent / full
    checks = [
        _reached("max_trials", limits.max_trials, len(history.trials) - len(history.forgotten)),
        _reached("max_seconds", limits.max_seconds, seconds),
        None if limits.until is None or time < limits.until else f"until={clock(limits.until)} reached",
        _reached("max_cost", limits.max_cost, spent * (1 + 1e-12)),
        _reached("max_reported_cost", limits.max_reported_cost, history.cost_reported),
        _reached("patience", limits.patience, (history.budget_spent - history.spent_at_improvement) / full),
    ]
    checks.append(_target_reached(limits.target_loss, history))
    checks.append(_all_failed(limits.max_initial_failures, history))
    return next((reason for reason in checks if reason), None)


def _target_reached(target: float | None, history: History) -> str | None:
    best, goals = history.best.get(history.budgets[-1]), history.goals
    if target is None or best is None or not best.feasible or best.loss > goals.minimised(target):
        return None
    return f"target_loss={target:g} reached: {goals.shown(best.loss):g}"


def _reached(name: str, limit: float | None, value: float) -> str | None:
    return None if limit is None or value < limit else f"{name}={limit:g} reached"


def _all_failed(limit: int | None, history: History) -> str | None:
    """Return that the first trials of this session failed, with their most common cause; None if they did not."""
    n = len(history.outcomes) - history.n_before_session
    if limit is None or n < limit or history.n_failed < len(history.outcomes):
        return None
    cause = common_cause(itertools.islice(history.outcomes.values(), history.n_before_session, None))
    return (
        f"the first {n} trials all failed, {cause}; fix the objective and run again (these failures will not count), "
        "or raise max_initial_failures"
    )


def common_cause(outcomes: Iterable[Outcome]) -> str:
    """Return the most common error of failed trials and how many have it."""
    causes = Counter(outcome.error or outcome.status.value for outcome in outcomes if not outcome.ok)
    cause, n = max(sorted(causes.items()), key=lambda item: item[1])
    return f"{'for example' if n == 1 else f'{n} of them'} with: {cause}"  # most texts may have numbers of their own


def given_limits(limits: Limits) -> dict[str, float]:
    """Return the limits that differ from their defaults, by name."""
    known = ((limit, getattr(limits, limit.name)) for limit in fields(limits))
    return {limit.name: value for limit, value in known if value != limit.default}
