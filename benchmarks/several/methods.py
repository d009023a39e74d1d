"""The methods by name, by ask and tell: our own, and rivals in their own processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

import bohb
from benchmarks.methods import space_of
from benchmarks.problem import Suggestion
from benchmarks.rivals import connect as connect_rival
from benchmarks.several.problems import Problem, Values
from bohb.errors import NoTrialReady, StudyDone
from bohb.journal import MemoryJournal

OURS: Mapping[str, dict[str, Any]] = {
    "best": {"preset": "best"},
    "bohb": {"preset": "paper"},
    "random": {"preset": "paper", "random_fraction": 1, "one_budget": True},
}
RIVALS = ("optuna-motpe", "optuna-nsga2", "smac-parego", "synetune-moasha")
NO_CONSTRAINTS = ("smac-parego", "synetune-moasha")  # they know no constraints


class Method(Protocol):
    """A method that is used by ask and tell."""

    def ask(self) -> Suggestion | None:
        """Return the next evaluation; None if there is none."""
        ...

    def tell(self, number: int, values: Values) -> None:
        """Receive the result of an evaluation."""
        ...

    def close(self) -> None:
        """Close processes and files."""
        ...


def connect(name: str, problem: Problem, seed: int, full_evaluations: float) -> Method:
    """Return a method that is ready to work on a problem."""
    if name in OURS:
        return Ours(problem, seed, OURS[name])
    goals = {"objectives": 1 if problem.bound is not None else 2, "constraints": int(problem.bound is not None)}
    return Rival(connect_rival(name, problem, seed, math.ceil(full_evaluations), goals=goals), problem.bound)


class Ours:
    """This package."""

    def __init__(self, problem: Problem, seed: int, settings: Mapping[str, Any]) -> None:
        arguments = dict(settings)
        budgets = problem.budgets[-1:] if arguments.pop("one_budget", False) else problem.budgets
        self._bound = problem.bound
        if self._bound is None:
            arguments["objectives"] = ["error", "second"]
        else:
            arguments["constraints"] = {"second": f"<= {self._bound!r}"}
        self._optimizer = bohb.BOHB(
            space_of(problem.parameters), budgets=budgets, eta=3, seed=seed, journal=MemoryJournal(), **arguments
        )

    def ask(self) -> Suggestion | None:
        try:
            trial = self._optimizer.ask()
        except (NoTrialReady, StudyDone):
            return None
        return Suggestion(trial.number, trial.config, trial.budget, trial.previous_budget)

    def tell(self, number: int, values: Values) -> None:
        if self._bound is None:
            self._optimizer.tell(number, {"losses": {"error": values.error, "second": values.second}})
        else:
            self._optimizer.tell(number, {"loss": values.error, "second": values.second})

    def close(self) -> None:
        """Do nothing; there is nothing to close."""


class Rival:
    """A rival's process. A constraint reaches it as a value that must not be positive."""

    def __init__(self, connection: Any, bound: float | None) -> None:
        self._connection, self._bound = connection, bound
        self.ask, self.close = connection.ask, connection.close

    def tell(self, number: int, values: Values) -> None:
        if self._bound is None:
            self._connection.tell_several(number, [values.error, values.second], [], values.cost)
        else:
            self._connection.tell_several(number, [values.error], [values.second - self._bound], values.cost)
