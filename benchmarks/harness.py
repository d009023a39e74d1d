"""Run one method on one problem, with any number of workers on a simulated clock.

The same loop serves methods in this process and rivals in other processes. It gives every free worker a suggestion,
evaluates it at once, and tells the method the result at its simulated end.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.problem import Evaluation, Method, Problem, Suggestion

Accounting = Literal["whole", "continue"]
Protocol = Literal["authors", "largest"]


@dataclass(frozen=True, slots=True)
class Record:
    """One finished evaluation.

    time: when it ended, on the simulated clock; with one worker, the sum of all costs so far.
    spent: the budget charged for all evaluations that finished by then, including this one.
    cost: its charge, in the unit of the problem's costs.
    """

    time: float
    spent: float
    number: int
    config: dict[str, Any]
    budget: float
    loss: float | None
    cost: float


@dataclass(frozen=True, slots=True, order=True)
class _Running:
    end: float
    order: int
    suggestion: Suggestion = field(compare=False)
    evaluation: Evaluation = field(compare=False)
    charged: float = field(compare=False)  # budget
    cost: float = field(compare=False)


class _Accounts:
    """The costs of configurations so far, and their seeds."""

    def __init__(self, problem: Problem, seed: int, accounting: Accounting) -> None:
        self._problem, self._seed, self._continue = problem, seed, accounting == "continue"
        self._known: dict[str, tuple[int, float]] = {}  # configuration: its seed and its cost from scratch

    def budget(self, suggestion: Suggestion) -> float:
        """Return the budget charged for an evaluation."""
        previous = suggestion.previous if self._continue else None
        return suggestion.budget - (previous or 0.0)

    def evaluate(self, suggestion: Suggestion) -> tuple[Evaluation, float]:
        """Return the evaluation and the cost charged for it.

        A configuration keeps its seed on all its budgets, so that training can be continued.
        """
        key = json.dumps(suggestion.config, sort_keys=True)
        seed, before = self._seed * 1_000_003 + suggestion.number, 0.0
        if suggestion.previous is not None:
            seed, before = self._known.get(key, (seed, before))
        evaluation = self._problem.evaluate(suggestion.config, suggestion.budget, seed)
        if not (math.isfinite(evaluation.cost) and evaluation.cost >= 0):
            raise ValueError(f"cost={evaluation.cost!r} of {suggestion} must be a finite number, at least 0")
        self._known[key] = seed, evaluation.cost
        return evaluation, max(0.0, evaluation.cost - before) if self._continue else evaluation.cost


def simulate(
    method: Method,
    problem: Problem,
    *,
    seed: int,
    full_evaluations: float,
    workers: int = 1,
    accounting: Accounting = "whole",
    max_cost: float | None = None,
) -> list[Record]:
    """Run a method until its budget is spent; return records in the order of their ends.

    full_evaluations: the sum of the charged budgets, in units of the largest one.
    accounting: "whole" charges every evaluation as if from scratch, as the paper's authors did; "continue" charges a
        promoted configuration only for the added budget.
    max_cost: ignore evaluations that end later than this on the simulated clock.
    """
    accounts = _Accounts(problem, seed, accounting)
    limit = full_evaluations * problem.budgets[-1] * (1 + 1e-9)
    started, spent, now = 0.0, 0.0, 0.0
    asking, order = True, itertools.count()
    running: list[_Running] = []
    records: list[Record] = []
    while True:
        while asking and len(running) < workers:
            suggestion = method.ask()
            if suggestion is None:
                break
            charged = accounts.budget(suggestion)
            started += charged
            asking = started <= limit
            if asking:
                evaluation, cost = accounts.evaluate(suggestion)
                heapq.heappush(running, _Running(now + cost, next(order), suggestion, evaluation, charged, cost))
        if not running or (max_cost is not None and running[0].end > max_cost):
            return records
        ended = heapq.heappop(running)
        now, spent = ended.end, spent + ended.charged
        asked = ended.suggestion
        method.tell(asked.number, ended.evaluation)
        loss = ended.evaluation.loss if ended.evaluation.ok else None
        records.append(Record(now, spent, asked.number, asked.config, asked.budget, loss, ended.cost))


def incumbents(records: Iterable[Record], protocol: Protocol = "authors") -> list[Record]:
    """Return the records at which the incumbent changed.

    protocol: with "authors" it changes only for a loss that is lower, on a budget that is at least the same, as in
        the paper's figures; with "largest" a larger budget always wins, then the lower loss, as in `bohb`.
    """
    changes: list[Record] = []
    for record in records:
        if record.loss is None:
            continue
        if changes:
            best = changes[-1]
            assert best.loss is not None
            if record.budget < best.budget:
                continue
            if record.loss >= best.loss and (protocol == "authors" or record.budget == best.budget):
                continue
        changes.append(record)
    return changes


@dataclass(frozen=True, slots=True)
class Point:
    """A new incumbent: when, after how much budget (in full evaluations), and how good it is."""

    time: float
    spent: float
    regret: float
    loss: float
    budget: float


def trajectory(problem: Problem, changes: Sequence[Record]) -> list[Point]:
    """Return the regret of each incumbent."""
    points = []
    for record in changes:
        assert record.loss is not None
        regret = problem.regret(record.config, record.loss)
        points.append(Point(record.time, record.spent / problem.budgets[-1], regret, record.loss, record.budget))
    return points
