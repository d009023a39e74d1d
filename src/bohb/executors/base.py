"""The Executor protocol: something that runs trials and returns their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from bohb.core.trial import Outcome, Trial
from bohb.errors import InvalidArgument

Objective = Callable[[Trial], Any]


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker disappeared through no fault of the objective; the trial should be started again.

    charged: whether this counts as an attempt of the trial. It does not if the trial had not begun, or if the worker's
        machine loses other trials, too.
    """

    reason: str
    charged: bool = True


@dataclass(frozen=True, slots=True)
class Done:
    """A trial that has ended, and its result."""

    trial: Trial
    result: Outcome | Lost


class Executor(Protocol):
    """Three methods and the number of trials that may run at once."""

    @property
    def slots(self) -> int:
        """Number of trials that may run at once; it may change while the study runs."""
        ...

    def submit(self, trial: Trial) -> None:
        """Start a trial without waiting for its result."""
        ...

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed."""
        ...

    def shutdown(self, kill: bool) -> None:
        """Release all processes. With `kill`, stop running trials at once and discard them."""
        ...


def check_objective(objective: object) -> None:
    """Raise InvalidArgument unless the objective can be called."""
    if not callable(objective):
        raise InvalidArgument(f"objective={objective!r} must be callable with one argument, the trial")
