"""`bohb status`, `bohb best`, `bohb why`, `bohb studies`: progress, the best configuration, decisions, and names."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bohb.cli.bounds import Bounds, best_within, bound_options
from bohb.cli.confirmed import confirmation_data, confirmed_rows
from bohb.cli.target import Target, find, find_journal, history, target_options
from bohb.cli.text import as_data, emit, json_option, pairs, table, value_text
from bohb.core.causes import failure_kinds
from bohb.core.confirm import last_confirmed
from bohb.core.confirm_text import last_verdict
from bohb.core.notes import notes_of, tags_of
from bohb.core.results import Result
from bohb.core.times.forecast import time_to_end
from bohb.errors import InvalidArgument
from bohb.journal import SqlJournal
from bohb.journal.location import shown_journal
from bohb.units import clock, counted, duration, number, printable, short

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bohb.core.confirm import Confirmation
    from bohb.core.goals import Goals
    from bohb.core.history import History

_NOTE = 60  # characters of a note in a table
_NOTES = 3  # notes that are shown, the latest
_RECENT = 1000  # trials among which the last event is looked for


@click.command()
@target_options
@json_option
def status(target: str | None, study: str | None, as_json: bool) -> None:
    """Show the progress of a study, and who runs it.

    \b
    Examples:
      bohb status                   the study of ./study.toml
      bohb status study.db          the only study in a journal
      bohb status study.db --study mnist --json
    """
    place = find(target, study)
    seen = history(place)
    data = study_status(place, seen)
    emit(as_json, data, _status_text(place.name, seen, data))


def study_status(place: Target, seen: History) -> dict[str, Any]:
    """Return the progress of a study as JSON."""
    return {
        "journal": shown_journal(place.journal),
        "study": place.study,
        "runner": runner(place),
        "budgets": seen.budgets,
        "trials": {
            "started": len(seen.trials),
            "finished": len(seen.outcomes),
            "failed": seen.n_failed,
            "running": len(seen.running),
            "waiting": len(seen.lost),
            "late": len(seen.late),
        },
        "tags": tags_of(seen),
        "notes": [{"text": note.text, "tags": list(note.tags), "time": note.time} for note in notes_of(seen)],
        "failures": [asdict(kind) for kind in failure_kinds(seen)],
        "observations": len(seen.observed),
        "full_evaluations": _full_evaluations(seen),
        "reported_cost": seen.cost_reported,
        "seconds": seen.seconds,
        "seconds_left": _seconds_left(seen),
        "last_event": _last(seen),
        "open_brackets": _open_brackets(seen),
        "finished_brackets": sum(bracket.done for bracket in seen.brackets),
        "incumbent": None if seen.incumbent is None else result(seen.goals, seen.incumbent),
        "confirmation": confirmation_data(seen.confirmations[-1]) if seen.confirmations else None,
    }


def _seconds_left(seen: History) -> float | None:
    """Return the expected time until the study ends; None if nobody runs it or nothing is known."""
    last, now = _last(seen), time.time()
    since = 0.0 if last is None else max(0.0, now - last)
    return time_to_end(seen, seen.seconds + since, now)


def _open_brackets(seen: History) -> list[dict[str, Any]]:
    found = []
    for index, bracket in enumerate(seen.brackets):
        if not bracket.done:
            size = bracket.bracket.rungs[bracket.rung].size
            place = {"bracket": index, "rung": bracket.rung, "rungs": len(bracket.bracket.rungs)}
            found.append({**place, "budget": bracket.budget, "finished": bracket.finished, "size": size})
    return found


def _full_evaluations(seen: History) -> float:
    """Return the budget spent so far, in evaluations on the largest budget."""
    return seen.budget_spent / seen.budgets[-1]


def result(goals: Goals, found: Result) -> dict[str, Any]:
    """Return a finished trial as JSON."""
    trial = found.trial
    named = {} if goals.plain else {"values": found.values, "feasible": found.feasible}
    return {
        "trial": trial.number,
        "loss": goals.shown(found.loss),
        **named,
        "budget": trial.budget,
        "config": trial.config,
        "origin": trial.origin.value,
        "config_id": trial.config_id,
        "seed": trial.seed,
        "info": found.outcome.info,
    }


def runner(place: Target) -> str | None:
    """Return who runs the study, as far as this machine or the server knows; None if nobody does."""
    with SqlJournal(place.journal, place.study, read_only=True) as journal:
        leases = sorted(journal.live_leases())
    if not place.is_file:
        return ", ".join(leases) or None
    if alive := [name for name in leases if not _has_ended(name, r"(?P<machine>.+):(?P<pid>\d+):\w+$")]:
        return ", ".join(alive)
    try:  # a program that asks and tells without a lease
        holder = str(json.loads(Path(f"{place.journal}.lock").read_text())["holder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if _has_ended(holder, r"process (?P<pid>\d+) on (?P<machine>\S+) since") else holder


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


def _last(seen: History) -> float | None:
    assert seen.created is not None
    times = [seen.created.time, *list(seen.started.values())[-_RECENT:]]
    times += [outcome.finished for outcome in list(seen.outcomes.values())[-_RECENT:]]
    return max((t for t in times if t is not None), default=None)


def _status_text(name: str, seen: History, data: dict[str, Any]) -> str:
    trials, last = data["trials"], data["last_event"]
    waiting = f", {trials['waiting']} to start again" if trials["waiting"] else ""
    waiting += f"; {counted(trials['late'], 'late result')} not used" if trials["late"] else ""
    since = "" if last is None else f"; last event {duration(max(0.0, time.time() - last))} ago"
    observed = f", {counted(len(seen.observed), 'observation')} from earlier studies" if seen.observed else ""
    rows = [
        ("study", name),
        *_note_rows(data["tags"], data["notes"]),
        ("runner", (data["runner"] or "none") + since),
        ("trials", f"{trials['finished']} finished ({trials['failed']} failed), {trials['running']} running{waiting}"),
        *_failed_rows(data["failures"]),
        ("spent", f"{data['full_evaluations']:.1f} full evaluations in {duration(seen.seconds)}{observed}"),
        *_end_rows(data),
        ("brackets", f"{data['finished_brackets']} finished, {len(data['open_brackets'])} open"),
    ]
    for entry in data["open_brackets"][:8]:
        where = f"rung {entry['rung'] + 1} of {entry['rungs']}, budget {number(entry['budget'])}"
        rows.append(("", f"#{entry['bracket']}: {entry['finished']}/{entry['size']} on {where}"))
    best = seen.incumbent
    if best is None:
        return pairs([*rows, ("best", "nothing has succeeded yet")])
    rows.append(("best", _headline(seen.goals, best)))
    rows += (("", f"{name} = {value_text(value)}") for name, value in best.config.items())
    return pairs([*rows, *confirmed_rows(seen)])


def _note_rows(tags: list[str], notes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return the tags of the study and its latest notes."""
    rows = [("tags", ", ".join(tags))] if tags else []
    texts = [note["text"] for note in notes if note["text"].strip()]
    shown = [short(" ".join(text.split()), 200) for text in texts[-_NOTES:]]
    return [*rows, *(("notes" if index == 0 else "", text) for index, text in enumerate(shown))]


def _end_rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    left = data["seconds_left"]
    if left is None or data["runner"] is None:
        return []
    return [("left", f"about {duration(left)}, until {clock(time.time() + left)}")]


def _failed_rows(kinds: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return one row per kind of failure, with its most common message."""
    rows: list[tuple[str, str]] = []
    for kind in kinds:
        some = f" ({kind['n_message']} of them)" if kind["n_message"] < kind["n"] else ""
        what = f"{kind['n']} {kind['status'].replace('_', ' ')}: {short(kind['message'], 200)}{some}"
        rows.append(("" if rows else "failed", what))
    return rows


@click.command()
@target_options
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
def best(
    target: str | None,
    study: str | None,
    budget: float | None,
    form: str,
    max_bounds: Bounds,
    min_bounds: Bounds,
    as_json: bool,
) -> None:
    """Show the best configuration so far.

    This is the winner of the last 'bohb confirm'. Without one it is the lowest loss on the largest budget that has a
    result; if the next best is within the noise, as far as noise is known, a line says so. With constraints, results
    that keep them come first; with several objectives, the first one counts.

    \b
    Examples:
      bohb best study.db
      bohb best study.db --format json > best.json
      bohb best study.db --format args | xargs python train.py --epochs 300
      bohb best study.db --budget 9
      bohb best study.db --max latency=10         the best with a latency of at most 10
    """
    place = find(target, study)
    seen = history(place)
    confirmed = last_confirmed(seen.confirmations)
    if budget is None and confirmed is not None and not (max_bounds or min_bounds):
        emit(as_json, _confirmed(seen, confirmed), _confirmed_text(seen, confirmed, form))
        return
    row = seen.incumbent if budget is None else seen.best.get(budget)
    if max_bounds or min_bounds:
        row = best_within(seen, budget, max_bounds, min_bounds)
        if row is None and seen.results:
            raise InvalidArgument(f"{place.name} has no result within these bounds{_on(seen, budget)}")
    if row is None:
        raise InvalidArgument(f"{place.name} has no successful trial{_on(seen, budget)} yet")
    text = _config_text(row.config, form)
    if form == "text" and not as_json:
        from bohb.core.noise import lead_within_noise

        close = lead_within_noise(seen) if row is seen.incumbent else None
        text = "\n".join([_headline(seen.goals, row), text, *([close] if close else [])])
    emit(as_json, result(seen.goals, row), text)


def _confirmed(seen: History, found: Confirmation) -> dict[str, Any]:
    """Return the winner of a confirmation as JSON."""
    trial = found.winner.trial
    data: dict[str, Any] = {"trial": None, "config": found.config}
    if trial is not None:
        data = result(seen.goals, Result(trial, seen.outcomes[trial.number]))
    return {**data, "confirmation": confirmation_data(found)}


def _confirmed_text(seen: History, found: Confirmation, form: str) -> str:
    config = _config_text(found.config, form)
    return config if form != "text" else "\n".join([*map(printable, last_verdict(seen)), config])


def _on(seen: History, budget: float | None) -> str:
    return "" if budget is None else f" on budget {budget:g} (it has {', '.join(f'{b:g}' for b in seen.budgets)})"


def _headline(goals: Goals, found: Result) -> str:
    trial, what = found.trial, goals.described(found.loss, found.values)
    where = f"on budget {number(trial.budget)} (trial {trial.number}, {trial.origin.value})"
    return printable(f"{what} {where}{found.caveat}")


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
@click.argument("trial", type=int)
@target_options
@json_option
def why(trial: int, target: str | None, study: str | None, as_json: bool) -> None:
    """Explain why a trial was sampled, promoted or stopped.

    Shows how its configuration was chosen, its rank in the rung, and which trials were promoted.

    \b
    Examples:
      bohb why 17                   trial 17 of the study of ./study.toml
      bohb why 17 study.db
    """
    from bohb.analysis.why import why as explain
    from bohb.core.trial import jsonable

    found = explain(history(find(target, study)), trial)
    emit(as_json, jsonable(asdict(found)), printable(str(found)))


@click.command()
@click.argument("target", required=False, metavar="[JOURNAL|STUDYFILE]")
@json_option
def studies(target: str | None, as_json: bool) -> None:
    """List the studies in a journal, with their notes.

    \b
    Examples:
      bohb studies                  those in the journal of ./study.toml
      bohb studies study.db
      bohb studies postgresql+psycopg://user@host/name --json
    """
    journal, _ = find_journal(target)
    with SqlJournal(journal, read_only=True) as opened:
        found, noted = opened.finished(), opened.notes()
    rows = []
    for name, n in found.items():
        notes = [note for note in noted.get(name, ()) if note.number is None]
        tags = ", ".join(dict.fromkeys(tag for note in notes for tag in note.tags))
        text = next((note.text for note in reversed(notes) if note.text.strip()), "")
        rows.append((name, str(n), tags, short(" ".join(text.split()), _NOTE)))
    width = 4 if any(row[2] or row[3] for row in rows) else 2
    head = ["study", "finished", "tags", "note"][:width]
    emit(as_json, found, table(head, [row[:width] for row in rows], left=["study", "tags", "note"]))


COMMANDS = (status, best, why, studies)
