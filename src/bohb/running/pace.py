"""Pace: how long trials take, how long the rest of a study will take, and how much time is left until a deadline."""

from __future__ import annotations

import math

from bohb.core.cost import CostModel, Encode, encoder, fit_costs, samples
from bohb.core.deadline import TimeLeft
from bohb.core.estimate import remaining
from bohb.optimizer.ask_tell import BOHB
from bohb.running.limits import Limits

_REFIT = 1.1  # the model is fitted again after so many times as many results, and after the first on a budget


class Pace:
    """The time of one session; keeps the model of durations up to date.

    optimizer: the study.
    limits: when the session ends.
    """

    def __init__(self, optimizer: BOHB, limits: Limits) -> None:
        self._optimizer, self._limits = optimizer, limits
        self._costs: CostModel | None = None
        self._encode: Encode | None = None
        self._n = self._budgets = 0  # results that the model was fitted to, and their budgets

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline; infinity without one."""
        return self._limits.seconds_left(self._optimizer.seconds, self._optimizer.time)

    @property
    def costs(self) -> CostModel | None:
        """The model of durations; None while no trial has succeeded."""
        history = self._optimizer.history
        n, budgets = len(history.outcomes), len(history.best)
        if n and (self._costs is None or n >= _REFIT * self._n or budgets > self._budgets):
            self._encode = self._encode or encoder(history.space)
            self._costs, self._n, self._budgets = fit_costs(samples(history), self._encode), n, budgets
        return self._costs

    def left(self, workers: int) -> TimeLeft | None:
        """Return what a decision has to know about the deadline; None without one."""
        seconds = self.seconds_left
        if seconds == math.inf:
            return None
        history, costs = self._optimizer.history, self.costs
        shared = self._optimizer.shared and len(history.sessions) > 1
        return TimeLeft(seconds, workers, costs, remaining(history, costs, self._optimizer.time), alone=not shared)
