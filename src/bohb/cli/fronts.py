"""`bohb front`: the results that no other dominates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from bohb.cli.bounds import Bounds, bound_options, within
from bohb.cli.inspect import result
from bohb.cli.target import find, history, target_options
from bohb.cli.text import emit, json_option, table, value_text
from bohb.units import counted, number, printable

if TYPE_CHECKING:
    from bohb.core.history import History
    from bohb.core.results import Result


@click.command()
@target_options
@click.option("--budget", type=float, help="The front on this budget instead of the largest one.")
@bound_options
@json_option
def front(
    target: str | None, study: str | None, budget: float | None, max_bounds: Bounds, min_bounds: Bounds, as_json: bool
) -> None:
    """Show the results that no other dominates.

    This is the front of a study with several objectives. Only results that keep the constraints count. With one
    objective, the front is the best result.

    \b
    Examples:
      bohb front study.db
      bohb front study.db --max latency=10        of these, the fast ones
      bohb front study.db --json
    """
    place = find(target, study)
    seen = history(place)
    found = seen.front if budget is None else seen.fronts.get(budget, [])
    if budget is not None and not seen.goals.several and budget in seen.best:
        found = [seen.best[budget]]
    kept = within(sorted(found, key=lambda each: each.loss), max_bounds, min_bounds)
    emit(as_json, [result(seen.goals, each) for each in kept], _text(seen, place.name, found, kept))


def _text(seen: History, name: str, found: Sequence[Result], kept: Sequence[Result]) -> str:
    goals = seen.goals
    if not found:
        kind = "result that keeps the constraints" if goals.constraints else "result"
        return f"{name} has no {kind} yet"
    if not kept:
        return f"none of {counted(len(found), 'result')} on the front keeps these bounds"
    names = list(goals.names)
    head = ["trial", "budget", *names, "configuration"]
    rows = []
    for each in kept:
        values = each.values or {goals.label: goals.shown(each.loss)}
        config = ", ".join(f"{key}={value_text(value)}" for key, value in each.config.items())
        rows.append([str(each.trial.number), number(each.budget), *(number(values.get(key)) for key in names), config])
    better = ", ".join(f"{o.name} {'maximised' if o.maximised else 'minimised'}" for o in goals.objectives)
    bounds = "".join(f", {goal.name} {goal}" for goal in goals.constraints)
    return f"{printable(better + bounds)}\n{table(head, rows, left=['configuration'])}"


COMMANDS = (front,)
