"""`bohb status`, `bohb best`, `bohb front`, `bohb why`: the progress of a study, its results, and its decisions."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli.options import Bounds, Target, bound_options, on_study
from bohb.cli.text import as_data, emit, json_option, pairs, table, wrapped
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from bohb.journal.location import shown_journal
from bohb.journal.lock import entries
from bohb.units import counted, number, printable, value_text

if TYPE_CHECKING:
    from bohb.analysis.overview import Overview
    from bohb.core.confirm import Confirmation
    from bohb.core.history import History
    from bohb.core.results import Result


@click.command()
@on_study
@json_option
def status(place: Target, as_json: bool) -> None:
    """Show the progress of a study, and who runs it.

    \b
    Examples:
      bohb status                   the study of ./study.toml, or of the only journal here
      bohb status study.db          the only study in a journal
      bohb status study.db --study mnist --json
    """
    facts = _overview(place)
    if as_json:
        emit(True, study_status(place, facts), "")
    else:
        emit(False, None, pairs([("study", place.name), *facts.rows(runner=runner(place) or "none")]))


def study_status(place: Target, facts: Overview | None = None) -> dict[str, Any]:
    """Return the progress of a study as JSON."""
    where = {"journal": shown_journal(place.journal), "study": place.study, "runner": runner(place)}
    return where | (facts or _overview(place)).data()


def _overview(place: Target) -> Overview:
    from bohb.analysis.overview import Overview

    return Overview(place.history(), time.time(), model=False)


def runner(place: Target) -> str | None:
    """Return who runs the study, as far as this machine or the server knows; None if nobody does."""
    with SqlJournal(place.journal, place.study, read_only=True) as journal:
        leases = sorted(journal.live_leases())
    if not place.is_file:
        return ", ".join(leases) or None
    if alive := [name for name in leases if not _has_ended(name, r"(?P<machine>.+):(?P<pid>\d+):\w+$")]:
        return ", ".join(alive)
    holder = entries(Path(place.journal)).holder  # also of a program that asks and tells without a lease
    return None if _has_ended(holder, r"process (?P<pid>\d+) on (?P<machine>\S+) since") else holder or None


def _has_ended(name: str, pattern: str) -> bool:
    """Whether a process is known to have ended; that of another machine or container is not known.

    pattern: finds the groups `machine` and `pid` in the name of the process.
    """
    found = re.match(pattern, name)
    if found is None or found["machine"] != platform.node():
        return False
    try:
        os.kill(int(found["pid"]), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


@click.command()
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
@json_option
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
    from bohb.core.confirm import last_confirmed

    seen = place.history()
    confirmed = last_confirmed(seen.confirmations)
    if budget is None and confirmed is not None and not (max_bounds or min_bounds):
        _show_confirmed(seen, confirmed, form, as_json)
        return
    row = seen.incumbent if budget is None else seen.best.get(budget)
    if max_bounds or min_bounds:
        row = best_within(seen, budget, max_bounds, min_bounds)
        if row is None and seen.results:
            raise InvalidArgument(f"{place.name} has no result within these bounds{_on(seen, budget)}")
    if row is None:
        raise InvalidArgument(f"{place.name} has no successful trial{_on(seen, budget)} yet")
    _show_result(seen, row, form, as_json)


def _show_result(seen: History, row: Result, form: str, as_json: bool) -> None:
    from bohb.analysis.verdicts import headline, remarks, result_data

    if form != "text" and not as_json:
        emit(False, None, _config_text(row.config, form))
        return
    known = remarks(seen, model=not as_json) if row is seen.incumbent else []
    lines = [headline(seen.goals, row), *known]
    text = "\n".join([wrapped(lines[0]), _config_text(row.config, form), *map(wrapped, lines[1:])])
    emit(as_json, result_data(seen.goals, row) | {"remarks": known}, text)


def _show_confirmed(seen: History, found: Confirmation, form: str, as_json: bool) -> None:
    """Show the winner of a confirmation: how good it is, its configuration, and what else is known."""
    from bohb.analysis.verdicts import confirmation_data, last_verdict, remarks, result_data
    from bohb.core.results import Result

    trial = found.winner.trial
    data: dict[str, Any] = {"trial": None, "config": found.config}
    if trial is not None:
        data = result_data(seen.goals, Result(trial, seen.outcomes[trial.number]))
    known = remarks(seen)
    data |= {"remarks": known, "confirmation": confirmation_data(found)}
    head, *rest = [wrapped(line) for line in (*last_verdict(seen), *known)]
    config = _config_text(found.config, form)
    emit(as_json, data, config if form != "text" else "\n".join([head, config, *rest]))


def _on(seen: History, budget: float | None) -> str:
    return "" if budget is None else f" on budget {budget:g} (it has {', '.join(f'{b:g}' for b in seen.budgets)})"


def _config_text(config: Mapping[str, Any], form: str) -> str:
    match form:
        case "json":
            return json.dumps(config)
        case "args":
            from bohb.studyfile.command import text_of

            words = (f"--{shlex.quote(name)} {shlex.quote(text_of(value))}" for name, value in config.items())
            return as_data(" ".join(words))
        case "toml":
            return "\n".join(f"{_key(name)} = {json.dumps(value)}" for name, value in config.items())
        case _:
            return "\n".join(f"  {printable(name)} = {value_text(value)}" for name, value in config.items())


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


@click.command()
@on_study
@click.option("--budget", type=float, help="The front on this budget instead of the largest one.")
@bound_options
@json_option
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
    from bohb.analysis.verdicts import below_the_largest_budget, result_data

    seen = place.history()
    found = seen.front if budget is None else seen.fronts.get(budget, [])
    if budget is not None and not seen.goals.several and budget in seen.best:
        found = [seen.best[budget]]
    notes = below_the_largest_budget(seen) if budget is None else []
    kept = within(sorted(found, key=lambda each: each.loss), max_bounds, min_bounds)
    data = [result_data(seen.goals, each) for each in kept]
    emit(as_json, data, "\n".join([_front_text(seen, place.name, found, kept), *map(wrapped, notes)]))


def _front_text(seen: History, name: str, found: Sequence[Result], kept: Sequence[Result]) -> str:
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


def within(results: Iterable[Result], most: Bounds, least: Bounds) -> list[Result]:
    """Return the results whose values keep the bounds. Raises InvalidArgument for a value that no result has."""
    found = list(results)
    for name in dict.fromkeys(name for name, _ in (*most, *least)):
        if found and all(_value(result, name) is None for result in found):
            every = (each for result in found for each in (*result.values, *result.outcome.info))
            known = [each for each in dict.fromkeys(every) if any(_value(result, each) is not None for result in found)]
            raise InvalidArgument(f"no result has a number named {name!r}; there are {', '.join(known) or 'none'}")

    def keeps(result: Result) -> bool:
        values = [(_value(result, name), bound, 1) for name, bound in most]
        values += [(_value(result, name), bound, -1) for name, bound in least]
        return all(value is not None and sign * value <= sign * bound for value, bound, sign in values)

    return [result for result in found if keeps(result)]


def _value(result: Result, name: str) -> float | None:
    """Return a named value or a number in `info`; None if there is none."""
    value = result.values.get(name, result.outcome.info.get(name))
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def best_within(seen: History, budget: float | None, most: Bounds, least: Bounds) -> Result | None:
    """Return the best result within bounds, by default on the largest budget that has one."""
    kept = within(seen.results, most, least)
    chosen = [result for result in kept if budget in (None, result.budget)]
    return min(chosen, key=lambda result: (not result.feasible, -result.budget, result.loss), default=None)


@click.command()
@click.argument("trial", type=int)
@on_study
@json_option
def why(trial: int, place: Target, as_json: bool) -> None:
    """Explain why a trial was sampled, promoted or stopped.

    Shows how its configuration was chosen, its rank in the rung, and which trials were promoted.

    \b
    Examples:
      bohb why 17                   trial 17 of the study of ./study.toml, or of the only journal here
      bohb why 17 study.db
    """
    from bohb.analysis.why import why as explain
    from bohb.core.trial import jsonable

    found = explain(place.history(), trial)
    emit(as_json, jsonable(asdict(found)), printable(str(found)))


COMMANDS = (status, best, front, why)
