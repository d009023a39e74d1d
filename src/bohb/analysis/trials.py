"""The trials of a study as a table, a row per trial, sortable by any column; and failed ones grouped by cause."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bohb.core.events import NoteAdded
from bohb.core.goals import Goals
from bohb.core.history import History
from bohb.core.trial import Outcome, Status

# Prefixes of the columns of a hyperparameter, of an entry of `info`, and of a value that the study's goals name.
CONFIG, INFO, VALUES = "config.", "info.", "values."


def started(history: History, number: int) -> float | None:
    """Return when the last attempt of a trial started on its worker, or when it was handed out if that is unknown."""
    outcome = history.outcomes.get(number)
    if outcome is not None and outcome.started is not None and history.trials[number].reuses is None:
        return outcome.started
    return history.started.get(number)


def finished(history: History, number: int) -> float | None:
    """Return when a trial ended, or when it was handed out if that is unknown; None while it runs."""
    outcome = history.outcomes.get(number)
    if outcome is None:
        return None
    if outcome.finished is None or history.trials[number].reuses is not None:
        return history.started.get(number)
    return outcome.finished


def state(history: History, number: int) -> str:
    """Return how a trial ended, or "running", or "waiting" if it lost its worker."""
    outcome = history.outcomes.get(number)
    if outcome is not None:
        return outcome.status.value
    return "waiting" if number in history.lost else "running"


def seconds(history: History, number: int) -> float | None:
    """Return how long a trial took; None while it runs and where no time was recorded."""
    outcome, begin = history.outcomes.get(number), started(history, number)
    if outcome is None or begin is None or outcome.finished is None or history.trials[number].reuses is not None:
        return None
    end = finished(history, number)
    return None if end is None else max(0.0, end - begin)


def notes_of(history: History, trial: int | None = None) -> list[NoteAdded]:
    """Return the notes on a trial in the order in which they were added; None: those on the study itself."""
    return [note for note in history.notes if note.number == trial]


def tags_of(history: History, trial: int | None = None) -> list[str]:
    """Return the tags of a trial, each once; None: those of the study itself."""
    return list(dict.fromkeys(tag for note in notes_of(history, trial) for tag in note.tags))


def _of_trial(name: str) -> Callable[[History, int], Any]:
    return lambda history, number: getattr(history.trials[number], name)


def _of_outcome(name: str) -> Callable[[History, int], Any]:
    return lambda history, number: getattr(history.outcomes.get(number), name, None)


COLUMNS: dict[str, Callable[[History, int], Any]] = {
    "number": _of_trial("number"),
    "status": state,
    "loss": lambda history, number: history.goals.shown(_of_outcome("loss")(history, number)),
    "budget": _of_trial("budget"),
    "bracket": _of_trial("bracket"),
    "rung": _of_trial("rung"),
    "origin": lambda history, number: history.trials[number].origin.value,
    "config_id": _of_trial("config_id"),
    "seed": _of_trial("seed"),
    "previous_budget": _of_trial("previous_budget"),
    "attempt": _of_trial("attempt"),
    "from_trial": _of_trial("from_trial"),
    "reuses": _of_trial("reuses"),
    "started": started,
    "finished": _of_outcome("finished"),
    "seconds": seconds,
    "cost": _of_outcome("cost"),
    "worker": _of_outcome("worker"),
    "error": _of_outcome("error"),
}
NOTES: dict[str, Callable[[History, int], Any]] = {  # of studies in which the user has made notes
    "tags": lambda history, number: ", ".join(tags_of(history, number)) or None,
    "note": lambda history, number: "\n".join(note.text for note in notes_of(history, number) if note.text) or None,
}
ALIASES = {"trial": "number", "time": "seconds", "duration": "seconds"}  # what tables call these columns
_TAKEN = {*COLUMNS, *NOTES, "config", "reason", "values"}  # names that mean something else in a record of a trial
_FLOATS = ("budget", "previous_budget", "started", "finished", "seconds", "cost")


def loss_column(goals: Goals) -> str:
    """Return the name of the column of results: "loss", or the name of the first objective if it is maximised."""
    if not goals.objectives[0].maximised:
        return "loss"
    return VALUES + goals.label if goals.label in _TAKEN else goals.label


def floats(history: History) -> tuple[str, ...]:
    """Return the columns whose values are floats, even if all of them are missing."""
    return (loss_column(history.goals), *_FLOATS)


def fixed_columns(history: History) -> dict[str, Callable[[History, int], Any]]:
    """Return the columns that every study has, and `NOTES` if there are any."""
    result = loss_column(history.goals)
    named = {result if name == "loss" else name: value for name, value in COLUMNS.items()}
    return named | (NOTES if history.notes else {})


def columns(history: History) -> dict[str, Callable[[History, int], Any]]:
    """Return all columns: the fixed ones, and one per value, hyperparameter and entry of `info`."""
    names = {} if history.goals.plain else dict.fromkeys(VALUES + name for name in history.goals.names)
    configs = dict.fromkeys(chain.from_iterable(trial.config for trial in history.trials.values()))
    infos = dict.fromkeys(chain.from_iterable(outcome.info for outcome in history.outcomes.values()))
    names |= dict.fromkeys([*(CONFIG + name for name in configs), *(INFO + name for name in infos)])
    return fixed_columns(history) | {name: column(name) for name in names}


def named_column(history: History, name: str) -> str | None:
    """Return the column that a reader means: with or without its prefix, or as tables call it; None if there is none.

    The values of what the study optimises come first, then hyperparameters and entries of `info`.
    """
    known = columns(history)
    full = {**ALIASES, "loss": loss_column(history.goals)}.get(name, name)
    return next((found for found in (name, full, VALUES + name, CONFIG + name, INFO + name) if found in known), None)


def table(history: History, rows: Iterable[int]) -> dict[str, list[Any]]:
    """Return the values of every column for these trials. The whole study determines the columns, not the rows."""
    wanted = list(rows)
    return {name: [value(history, n) for n in wanted] for name, value in columns(history).items()}


def csv_text(history: History, rows: Iterable[int]) -> str:
    """Return these trials as CSV, with every column of the study."""
    wide = table(history, rows)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_harmless(name) for name in wide)
    writer.writerows([_harmless(value) for value in record] for record in zip(*wide.values(), strict=True))
    return stream.getvalue().rstrip("\n")


def _harmless(value: Any) -> Any:
    """Prefix text that a spreadsheet would take for a formula."""
    if isinstance(value, list | dict):
        value = json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def one_type(values: list[Any]) -> list[Any]:
    """Return a column whose values have one type: unchanged, as floats, or as text where types are mixed."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1 and not kinds & {list, tuple, dict}:
        return values
    if kinds <= {int, float}:
        return [None if value is None else float(value) for value in values]
    return [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]


def column(name: str) -> Callable[[History, int], Any]:
    """Return a column by its name; a name that nothing has is a column without values."""
    if name.startswith(CONFIG):
        key = name.removeprefix(CONFIG)
        return lambda history, number: history.trials[number].config.get(key)
    if name.startswith(INFO):
        key = name.removeprefix(INFO)
        return lambda history, number: (_of_outcome("info")(history, number) or {}).get(key)
    if name.startswith(VALUES):
        key = name.removeprefix(VALUES)
        return lambda history, number: (_of_outcome("values")(history, number) or {}).get(key)
    return COLUMNS.get(name, lambda _history, _number: None)


def sorted_trials(history: History, numbers: Iterable[int], name: str, descending: bool = False) -> list[int]:
    """Sort trials by a column. Trials without a value come last in either direction, numbers before text."""
    value = fixed_columns(history).get(name) or column(name)
    keyed = [(number, _comparable(value(history, number))) for number in numbers]
    valued = sorted(((key, number) for number, key in keyed if key is not None), reverse=descending)
    return [number for _, number in valued] + [number for number, key in keyed if key is None]


def _comparable(value: Any) -> tuple[int, Any] | None:
    if value is None:
        return None
    return (0, float(value)) if isinstance(value, int | float) else (1, str(value))


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}")
_NUMBER = re.compile(r"(?<![A-Za-z_\d])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!x…)")
_CODE = re.compile(r"(?:exit code|signal) -?\d+")  # these numbers are the cause itself


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures whose error lines differ only in numbers, addresses, paths and quoted text.

    example: the error line of the first one.
    traceback, output: from the first one that has it.
    numbers: the trials, in the order in which they failed.
    budgets: number of failures on each budget.
    """

    cause: str
    status: Status
    example: str
    traceback: str | None
    output: str | None
    numbers: tuple[int, ...]
    budgets: dict[float, int]

    @property
    def n(self) -> int:
        """Number of trials that failed for this cause."""
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class FailureKind:
    """The failed trials of one status.

    n: number of trials.
    message: the first of the most common error lines; `n_message` trials have it, apart from numbers and names in it.
    """

    status: Status
    n: int
    message: str
    n_message: int


def failures(history: History, reused: bool = False) -> list[Cause]:
    """Return the causes, the most frequent first.

    reused: whether trials that reuse the failure of another one count, too.
    """
    groups: dict[tuple[Status, str], list[int]] = {}
    for number, outcome in history.outcomes.items():
        if not outcome.ok and (reused or history.trials[number].reuses is None):
            groups.setdefault((outcome.status, normalised(error_line(outcome))), []).append(number)
    causes = [_cause(history, status, cause, numbers) for (status, cause), numbers in groups.items()]
    return sorted(causes, key=lambda cause: -cause.n)


def failure_kinds(history: History) -> list[FailureKind]:
    """Return the failed trials by status, the most frequent first."""
    by_status: dict[Status, list[Cause]] = {}
    for cause in failures(history, reused=True):
        by_status.setdefault(cause.status, []).append(cause)
    kinds = [
        FailureKind(status, sum(cause.n for cause in causes), causes[0].example, causes[0].n)
        for status, causes in by_status.items()
    ]
    return sorted(kinds, key=lambda kind: -kind.n)


def _cause(history: History, status: Status, cause: str, numbers: list[int]) -> Cause:
    outcomes = [history.outcomes[n] for n in numbers]
    budgets = [history.trials[n].budget for n in numbers]
    return Cause(
        cause=cause,
        status=status,
        example=error_line(outcomes[0]),
        traceback=next((o.traceback for o in outcomes if o.traceback), None),
        output=next((o.output for o in outcomes if o.output), None),
        numbers=tuple(numbers),
        budgets={budget: budgets.count(budget) for budget in sorted(set(budgets))},
    )


def error_line(outcome: Outcome) -> str:
    """Return the error in one line."""
    lines = (outcome.error or "").strip().splitlines()
    return lines[0] if lines else f"no message ({outcome.status.value})"


def normalised(line: str) -> str:
    """Return an error line without what differs from trial to trial."""
    codes = _CODE.findall(line)
    for pattern, stand_in in ((_ADDRESS, "0x…"), (_PATH, "/…"), (_QUOTED, "'…'"), (_CODE, "\0"), (_NUMBER, "#")):
        line = pattern.sub(stand_in, line)
    for code in codes:
        line = line.replace("\0", code, 1)
    return line
