"""Why trials failed: their error lines, and how many failed in which way."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from bohb.core.history import History
from bohb.core.trial import Outcome, Status

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_PATH = re.compile(r"(?<![\w.])(?:/[\w.+-]+){2,}")
_NUMBER = re.compile(r"(?<![A-Za-z_\d])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!x…)")
_CODE = re.compile(r"(?:exit code|signal) -?\d+")  # these numbers are the cause itself


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


def failure_kinds(history: History) -> list[FailureKind]:
    """Return the failed trials by status, the most frequent first."""
    lines: dict[Status, list[str]] = {}
    for outcome in history.outcomes.values():
        if not outcome.ok:
            lines.setdefault(outcome.status, []).append(error_line(outcome))
    kinds = [_kind(status, found) for status, found in lines.items()]
    return sorted(kinds, key=lambda kind: -kind.n)


def _kind(status: Status, lines: list[str]) -> FailureKind:
    causes = [normalised(line) for line in lines]
    [(cause, n)] = Counter(causes).most_common(1)
    return FailureKind(status, len(lines), lines[causes.index(cause)], n)


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
