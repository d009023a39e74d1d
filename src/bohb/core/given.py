"""Given: the configurations that the user wants to be evaluated and that have not been started yet."""

from __future__ import annotations

from collections import deque
from typing import Any

from bohb.core.events import ConfigGiven


class Given:
    """The user's configurations that wait to be started, in the order in which they were given.

    anywhere: those that take the next place of any bracket.
    on_budget: those that name their budget; each has a bracket of its own.
    total: the number of configurations that were given, started ones included.
    """

    def __init__(self) -> None:
        self.anywhere: deque[dict[str, Any]] = deque()
        self.on_budget: deque[ConfigGiven] = deque()
        self.total = 0

    def __len__(self) -> int:
        return len(self.anywhere) + len(self.on_budget)

    def add(self, event: ConfigGiven) -> None:
        """Let a configuration wait."""
        self.total += 1
        if event.budget is None:
            self.anywhere.append(event.config)
        else:
            self.on_budget.append(event)

    def waiting(self, budget: float | None) -> list[dict[str, Any]]:
        """Return those that wait for a bracket of their own on this budget; None: for the next place of any bracket."""
        if budget is None:
            return list(self.anywhere)
        return [event.config for event in self.on_budget if event.budget == budget]

    def start(self, own_bracket: bool) -> None:
        """Remove the first one, which was started: in a bracket of its own, or in any other."""
        waiting: deque[Any] = self.on_budget if own_bracket else self.anywhere
        waiting.popleft()
