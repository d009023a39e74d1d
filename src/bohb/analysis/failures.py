"""Failed trials, grouped by cause and by status."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.trial import Outcome, Status

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
