"""A study seen by another of its values: every table and plot can then show that value instead of the loss."""

from __future__ import annotations

import copy
from dataclasses import replace

from bohb.core.goals import Goals, Objective
from bohb.core.history import History
from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument


def metrics(history: History) -> tuple[str, ...]:
    """Return the values that a study can be seen by: its objectives and constraints, if it has named ones."""
    return () if len(history.goals.names) < 2 else history.goals.names


def seen_by(history: History, name: str) -> History:
    """Return a history whose losses are another value of the same results. It is for reading only.

    name: an objective or a constraint of the study.
    """
    if name not in metrics(history):
        raise InvalidArgument(f"metric={name!r} is not a value of this study; there are {metrics(history)}")
    objective = next((each for each in history.goals.objectives if each.name == name), Objective(name))

    def seen(outcome: Outcome) -> Outcome:
        return replace(outcome, loss=objective.loss(outcome.values[name])) if outcome.ok else outcome

    still = copy.copy(history)
    still.goals = Goals((objective,))
    still.outcomes = {number: seen(outcome) for number, outcome in history.outcomes.items()}
    return still
