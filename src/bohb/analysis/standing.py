"""Explain how a result compares with the others of its rung where one loss does not decide alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bohb.analysis.lineage import RungTable
from bohb.core.history import History
from bohb.core.trial import Status
from bohb.units import counted


def standing(history: History, number: int, rung: RungTable) -> Iterator[str]:
    """How it compares with the other results of its rung, if one loss does not decide alone."""
    goals, outcome = history.goals, history.outcomes.get(number)
    if goals.single or outcome is None or not outcome.ok:
        return
    if goals.constraints:
        broken = [goal for goal in goals.constraints if goal.violation(outcome.values[goal.name])]
        text = ", ".join(f"{goal.name} {outcome.values[goal.name]:.6g}, not {goal}" for goal in broken)
        yield f"It violates the constraints: {text}." if broken else "It keeps all constraints."
        if broken:
            yield "Results that keep the constraints are promoted first; the others by how little they violate them."
            return
    if goals.several:
        others = [history.outcomes[e.number] for e in rung.entries if e.status is Status.OK and e.number != number]
        mine = goals.losses(outcome.values)
        kept = [goals.losses(other.values) for other in others if history.violation(other) == 0]
        better = sum(_dominates(other, mine) for other in kept)
        among = f"the {counted(len(kept), 'other result')} of its rung" + (
            " that keep them" if goals.constraints else ""
        )
        if better:
            yield f"{better} of {among} dominate it: they are at least as good in all objectives and better in one."
        else:
            yield f"None of {among} dominates it, so it is on the front of its rung."
        yield "Promotion goes by fronts; within one, results that are far apart from each other come first."


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and tuple(a) != tuple(b)
