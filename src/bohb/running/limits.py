"""Limits: when a study ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from bohb.core.history import History
from bohb.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Limits:
    """The study stops at the first of these; all count from its beginning, over all sessions.

    max_brackets: brackets opened.
    max_trials: trials started.
    max_seconds: time at work; trials that run then are finished.
    max_cost: budget spent, in full evaluations; a promoted configuration counts for what it adds to its last budget.
    max_reported_cost: the sum of the costs that the objective reports.
    target_loss: a loss on the largest budget.
    patience: full evaluations spent since the incumbent last changed.
    max_initial_failures: failed trials before the first success; a broken objective need not burn the budget.
    """

    max_brackets: int | None = None
    max_trials: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    max_reported_cost: float | None = None
    target_loss: float | None = None
    patience: float | None = None
    max_initial_failures: int | None = 10

    def __post_init__(self) -> None:
        """Every limit but the target is a positive number."""
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
                raise InvalidArgument(f"{field.name}={value!r} must be a number")
            if field.name != "target_loss" and value <= 0:
                raise InvalidArgument(f"{field.name}={value!r} must be positive; leave it out for no limit")

    @property
    def bounded(self) -> bool:
        """Whether anything ends the study."""
        return any(getattr(self, f.name) is not None for f in fields(self) if f.name != "max_initial_failures")


def reason_to_stop(limits: Limits, history: History, seconds: float) -> str | None:
    """Why no further trial should start, or None.

    seconds: how long the study has been at work.
    """
    full = history.budgets[-1]
    spent = history.budget_spent / full
    checks = [
        _reached("max_trials", limits.max_trials, len(history.trials)),
        _reached("max_seconds", limits.max_seconds, seconds),
        _reached("max_cost", limits.max_cost, spent * (1 + 1e-12)),
        _reached("max_reported_cost", limits.max_reported_cost, history.cost_reported),
        _reached("patience", limits.patience, (history.budget_spent - history.spent_at_improvement) / full),
    ]
    best = history.best.get(full)
    if limits.target_loss is not None and best is not None and best.loss <= limits.target_loss:
        checks.append(f"target_loss={limits.target_loss:g} reached: {best.loss:g}")
    n = limits.max_initial_failures
    if n is not None and n <= history.n_failed == len(history.outcomes):
        checks.append(_all_failed(history))
    return next((reason for reason in checks if reason), None)


def _reached(name: str, limit: float | None, value: float) -> str | None:
    return None if limit is None or value < limit else f"{name}={limit:g} reached"


def _all_failed(history: History) -> str:
    """The first trials all failed: name their most common cause."""
    causes = [outcome.error or outcome.status.value for outcome in history.outcomes.values()]
    common = max(sorted(set(causes)), key=causes.count) if causes else "unknown"
    return (
        f"the first {len(causes)} trials all failed, {causes.count(common)} of them with: {common} "
        "(raise max_initial_failures to go on regardless)"
    )
