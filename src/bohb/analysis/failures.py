"""Failed trials, grouped by cause."""

from __future__ import annotations

from dataclasses import dataclass

from bohb.core.causes import error_line, normalised
from bohb.core.history import History
from bohb.core.trial import Status


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


def failures(history: History) -> list[Cause]:
    """Return the causes, the most frequent first."""
    groups: dict[tuple[Status, str], list[int]] = {}
    for number, outcome in history.outcomes.items():
        if not outcome.ok and history.trials[number].reuses is None:
            groups.setdefault((outcome.status, normalised(error_line(outcome))), []).append(number)
    causes = [_cause(history, status, cause, numbers) for (status, cause), numbers in groups.items()]
    return sorted(causes, key=lambda cause: -cause.n)


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
