"""What an executor is: something that runs trials and hands back how they ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bohb.core.trial import Outcome, Trial

Objective = Callable[[Trial], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker disappeared through no fault of the objective; the trial should be started again."""

    reason: str


@dataclass(frozen=True, slots=True)
class Done:
    """One trial has come back."""

    trial: Trial
    result: Outcome | Lost


class Executor(Protocol):
    """Three methods and the number of trials that may run at once."""

    @property
    def slots(self) -> int:
        """How many trials may run at once; it may change while the study runs."""
        ...

    def submit(self, trial: Trial) -> None:
        """Start a trial; never blocks for its result."""
        ...

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """The trials that have come back; blocks until there is one or `timeout` seconds have passed."""
        ...

    def shutdown(self, kill: bool) -> None:
        """Give everything back. With `kill`, running trials are stopped at once and forgotten."""
        ...
