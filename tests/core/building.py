"""Events by hand: short studies for tests of what events lead to."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from bohb import Origin, Outcome, Space, Status, Trial
from bohb.core.events import Event, StudyCreated, TrialFinished, TrialLost, TrialStarted
from bohb.core.history import History
from bohb.core.settings import Settings

SPACE: dict[str, Any] = {"x": (0.0, 1.0)}
PAPER = Settings()


@cache
def _space(finite: int) -> Space:
    return Space({"x": (1, finite)} if finite else SPACE)


def created(*budgets: float, settings: Settings = PAPER, finite: int = 0, seed: int = 0) -> StudyCreated:
    """A study with η = 3.

    finite: the number of configurations of its space; 0 for infinitely many.
    """
    return StudyCreated(_space(finite).to_json(), budgets or (1, 3), 3, seed, settings.to_json())


def config_of(number: int, finite: int = 0) -> dict[str, Any]:
    """The configuration of a new trial."""
    return {"x": 1 + number % finite} if finite else {"x": (number + 1) / 1000}


def started(number: int, bracket: int = 0, budget: float = 1, rung: int = 0, **fields: Any) -> TrialStarted:
    """A new configuration starts."""
    fields = {"config": config_of(number), "config_id": number, "seed": number, "origin": Origin.RANDOM, **fields}
    return TrialStarted(Trial(number=number, budget=budget, bracket=bracket, rung=rung, **fields))


def promoted(number: int, before: TrialStarted, budget: float = 3, **fields: Any) -> TrialStarted:
    """The configuration of an earlier trial starts on the next rung."""
    trial = before.trial
    links = {"config": trial.config, "config_id": trial.config_id, "seed": trial.seed, "previous_budget": trial.budget}
    links |= {"origin": Origin.PROMOTED, "from_trial": trial.number}
    return started(number, trial.bracket, budget, trial.rung + 1, **links | fields)


def finished(number: int, loss: float = math.inf) -> TrialFinished:
    """A trial ends; without a finite loss it has failed."""
    ok = math.isfinite(loss)
    return TrialFinished(number, Outcome(Status.OK, loss) if ok else Outcome(Status.CRASHED, error="no"))


def lost(number: int, attempt: int = 1, counts: bool = True) -> TrialLost:
    """The worker of a trial disappears."""
    return TrialLost(number, attempt, "gone", counts=counts)


def rung(*losses: float, first: int = 0, bracket: int = 0, budget: float = 1) -> list[Event]:
    """New configurations start on a budget and end with these losses."""
    numbers = range(first, first + len(losses))
    starts = [started(number, bracket, budget) for number in numbers]
    return [*starts, *(finished(number, loss) for number, loss in zip(numbers, losses, strict=True))]


def folded(*events: Event | list[Event]) -> History:
    """Return the history of these events; unless they begin with a study, one with the budgets 1 and 3 is created."""
    found = [event for item in events for event in (item if isinstance(item, list) else [item])]
    if not found or not isinstance(found[0], StudyCreated):
        found.insert(0, created())
    return History().extend(found)
