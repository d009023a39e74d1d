"""`bohb status`, `bohb best`, `bohb front`, `bohb why`: the progress of a study, its results, and its decisions."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from bohb.analysis import verdicts
from bohb.analysis.overview import Overview
from bohb.cli.shared import Bounds, Target, bound_options, command, emit, emit_data, on_study, pairs, table
from bohb.core.confirm import Confirmation, last_confirmed
from bohb.core.history import History
from bohb.core.results import Result
from bohb.core.trial import jsonable
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from bohb.journal.location import shown_journal
from bohb.units import command_line, counted, number, value_text


@command()
@on_study
def status(place: Target, as_json: bool) -> None:
    """Show the progress of a study, and who runs it.

    \b
    Examples:
      bohb status                   the study of ./study.toml, or of the only journal here
      bohb status study.db          the only study in a journal
      bohb status study.db --study mnist --json
    """
    data, text = status_of(place)
    emit(as_json, data, text)


def status_of(place: Target) -> tuple[dict[str, Any], str]:
    """Return the progress of a study as JSON and as text."""
    seen = Overview(place.history(), time.time(), model=False)
    with SqlJournal(place.journal, place.study, read_only=True) as journal:
        by = journal.runner()
    data = {"journal": shown_journal(place.journal), "study": place.study, "runner": by} | seen.data()
    return data, pairs([("study", place.name), *seen.rows(runner=by or "none")])


@command()
@on_study
@click.option("--budget", type=float, help="Best on this budget instead of the largest one.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "args", "toml"]),
    default="text",
    help="text for people; json or toml: the configuration alone; args: options, quoted for xargs or a shell.",
)
@bound_options
def best(place: Target, budget: float | None, form: str, max_bounds: Bounds, min_bounds: Bounds, as_json: bool) -> None:
    """Show the best configuration so far.

    This is the winner of the last 'bohb confirm'. Without one it is the lowest loss on the largest budget that has a
    result. With constraints, results that keep them come first; with several objectives, the first one counts. Lines
    below it say if the largest budget has no such result, if a value lies on the edge of its range, and if the next
    best is within the noise.

    \b
    Examples:
      bohb best study.db
      bohb best study.db --format json > best.json
      bohb best study.db --format args | xargs python train.py --epochs 300
      bohb best study.db --budget 9
      bohb best study.db --max latency=10         the best with a latency of at most 10
    """
    seen = place.history()
    bounded = bool(max_bounds or min_bounds)
    confirmed = None if bounded or budget is not None else last_confirmed(seen.confirmations)
    row = best_within(seen, budget, max_bounds, min_bounds)
    if row is None:
        on = "" if budget is None else f" on budget {budget:g} (it has {', '.join(f'{b:g}' for b in seen.budgets)})"
        what = "no result within these bounds" if bounded and seen.results else "no successful trial"
        raise InvalidArgument(f"{place.name} has {what}{on}{'' if bounded and seen.results else ' yet'}")
    config = row.config if confirmed is None else confirmed.config
    if form != "text" and not as_json:
        emit_data(_config_text(config, form))
        return
    notes = verdicts.remarks(seen, model=not as_json) if confirmed is not None or row is seen.incumbent else []
    lines = [verdicts.headline(seen.goals, row)] if confirmed is None else verdicts.last_verdict(seen)
    text = "\n".join([lines[0], _config_text(config, form), *lines[1:], *notes])
    emit(as_json, best_data(seen, row, confirmed, notes), text)


def best_data(seen: History, row: Result, confirmed: Confirmation | None, notes: list[str]) -> dict[str, Any]:
    """Return the winner of a confirmation as JSON, or else the result in `row`."""
    if confirmed is None:
        return verdicts.result_data(seen.goals, row) | {"remarks": notes}
    trial = confirmed.winner.trial
    data: dict[str, Any] = {"trial": None, "config": confirmed.config}  # a default configuration that no trial had
    if trial is not None:
        data = verdicts.result_data(seen.goals, Result(trial, seen.outcomes[trial.number]))
    return data | {"remarks": notes, "confirmation": verdicts.confirmation_data(confirmed)}


def _config_text(config: Mapping[str, Any], form: str) -> str:
    match form:
        case "json":
            return json.dumps(config)
        case "args":
            return command_line(config)
        case "toml":
            return "\n".join(f"{_key(name)} = {json.dumps(value)}" for name, value in config.items())
        case _:
            return "\n".join(f"  {name} = {value_text(value)}" for name, value in config.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


@command()
@on_study
@click.option("--budget", type=float, help="The front on this budget instead of the largest one.")
@bound_options
def front(place: Target, budget: float | None, max_bounds: Bounds, min_bounds: Bounds, as_json: bool) -> None:
    """Show the results that no other dominates.

    This is the front of a study with several objectives. Only results that keep the constraints count. With one
    objective, the front is the best result.

    \b
    Examples:
      bohb front study.db
      bohb front study.db --max latency=10        of these, the fast ones
      bohb front study.db --json
    """
    seen = place.history()
    found = seen.front if budget is None else seen.front_on(budget)
    notes = verdicts.below_the_largest_budget(seen) if budget is None else []
    kept = within(sorted(found, key=lambda each: each.loss), max_bounds, min_bounds)
    data = [verdicts.result_data(seen.goals, each) for each in kept]
    emit(as_json, data, "\n".join([_front_text(seen, place.name, found, kept), *notes]))


def _front_text(seen: History, name: str, found: Sequence[Result], kept: Sequence[Result]) -> str:
    goals = seen.goals
    if not found:
        kind = "result that keeps the constraints" if goals.constraints else "result"
        return f"{name} has no {kind} yet"
    if not kept:
        return f"none of {counted(len(found), 'result')} on the front keeps these bounds"
    rows = []
    for each in kept:
        values = each.values or {goals.label: goals.shown(each.loss)}
        shown = (number(values.get(key)) for key in goals.names)
        config = ", ".join(f"{key}={value_text(value)}" for key, value in each.config.items())
        rows.append([str(each.trial.number), number(each.budget), *shown, config])
    better = ", ".join(f"{o.name} {'maximised' if o.maximised else 'minimised'}" for o in goals.objectives)
    bounds = "".join(f", {goal.name} {goal}" for goal in goals.constraints)
    head = ["trial", "budget", *goals.names, "configuration"]
    return f"{better}{bounds}\n{table(head, rows, left=['configuration'])}"


def within(results: Sequence[Result], most: Bounds, least: Bounds) -> list[Result]:
    """Return the results whose values keep the bounds. Raises InvalidArgument for a value that no result has."""
    bounds = [(name, bound, 1) for name, bound in most] + [(name, bound, -1) for name, bound in least]
    for name, *_ in bounds:
        if results and all(_value(result, name) is None for result in results):
            every = dict.fromkeys(each for result in results for each in (*result.values, *result.outcome.info))
            known = [each for each in every if any(_value(result, each) is not None for result in results)]
            raise InvalidArgument(f"no result has a number named {name!r}; there are {', '.join(known) or 'none'}")

    def keeps(result: Result) -> bool:
        values = ((_value(result, name), bound, sign) for name, bound, sign in bounds)
        return all(value is not None and sign * value <= sign * bound for value, bound, sign in values)

    return [result for result in results if keeps(result)]


def _value(result: Result, name: str) -> float | None:
    """Return a named value or a number in `info`; None if there is none."""
    value = result.values.get(name, result.outcome.info.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def best_within(seen: History, budget: float | None, most: Bounds, least: Bounds) -> Result | None:
    """Return the best result within bounds, by default on the largest budget that has one."""
    if not (most or least):
        return seen.incumbent if budget is None else seen.best.get(budget)
    kept = [result for result in within(seen.results, most, least) if budget in (None, result.budget)]
    return min(kept, key=lambda result: (not result.feasible, -result.budget, result.loss), default=None)


@command()
@click.argument("trial", type=int)
@on_study
def why(trial: int, place: Target, as_json: bool) -> None:
    """Explain why a trial was sampled, promoted or stopped.

    Shows how its configuration was chosen, its rank in the rung, and which trials were promoted.

    \b
    Examples:
      bohb why 17                   trial 17 of the study of ./study.toml, or of the only journal here
      bohb why 17 study.db
    """
    from bohb.analysis.why import why as explain

    found = explain(place.history(), trial)
    emit(as_json, jsonable(asdict(found)), str(found))
