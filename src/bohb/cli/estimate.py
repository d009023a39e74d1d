"""How long a plan takes: the schedule itself, played with a number of workers and a clock that only counts."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from bohb.core.schedule.brackets import Bracket
from bohb.core.schedule.halving import Halving, Promote


def makespan(plan: Sequence[Bracket], workers: int, seconds: float, continued: bool) -> float:
    """The seconds until the last trial ends, by the rule of §4.2 (`decide`).

    seconds: what one evaluation on the largest budget takes; smaller budgets take less in proportion.
    continued: whether a promoted trial only adds to what its configuration had.
    """
    per_unit = seconds / plan[-1].rungs[-1].budget
    opened: list[Halving] = []
    running: list[tuple[float, int, Halving]] = []  # (end, number, bracket)
    now, number = 0.0, 0
    while True:
        while len(running) < workers:
            bracket = _next(opened, plan)
            if bracket is None:
                break
            spent = _budget(bracket, continued)
            bracket.start(number)
            heapq.heappush(running, (now + spent * per_unit, number, bracket))
            number += 1
        if not running:
            return now
        now, done, bracket = heapq.heappop(running)
        bracket.finish(done, float(done))


def _next(opened: list[Halving], plan: Sequence[Bracket]) -> Halving | None:
    """The bracket that starts a trial: the smallest waiting budget, or a new bracket if none has one ready."""
    ready = [bracket for bracket in opened if bracket.ready]
    if ready:
        return min(ready, key=lambda bracket: bracket.budget)
    if len(opened) == len(plan):
        return None
    opened.append(Halving(plan[len(opened)]))
    return opened[-1]


def _budget(bracket: Halving, continued: bool) -> float:
    """What the next trial of a bracket spends."""
    promoted = continued and isinstance(bracket.next_action(), Promote)
    return bracket.budget - (bracket.bracket.rungs[bracket.rung - 1].budget if promoted else 0.0)
