"""What the death of a worker means for its trial: the objective's failure, or a loss to be repeated."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any

from bohb.core.trial import Outcome, Status
from bohb.executors.base import Lost
from bohb.executors.local.setup import Setup
from bohb.executors.local.worker import BROKEN

# Sent by people, queues and the kernel; an objective that goes wrong dies of others.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP}
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker process ended, as its guard reports it.

    code: the exit code, negative for a signal.
    cause: why the guard killed it, or None if the guard did not.
    memory: what its process tree held when that was the cause.
    oom: whether the kernel killed some process for want of memory at that time.
    """

    id: int
    pid: int
    code: int
    cause: str | None = None
    memory: int = 0
    oom: bool = False

    @classmethod
    def of(cls, body: dict[str, Any]) -> Death:
        """From the guard's message."""
        return cls(**body)


def verdict(death: Death, slot: int, setup: Setup, started: bool) -> Outcome | Lost:
    """What to say of the trial.

    started: whether the worker had loaded the objective and was given the trial.
    """
    who = f"worker {slot} (pid {death.pid})"
    match death.cause:
        case "timeout":
            return Outcome(Status.TIMEOUT, error=f"ran past trial_seconds={setup.trial_seconds:g}")
        case "memory":
            grown, limit = death.memory / _MIB, (setup.trial_memory or 0) / _MIB
            return Outcome(Status.MEMORY, error=f"grew to {grown:.0f} MiB, past trial_memory of {limit:.0f} MiB")
        case "start":
            error = f"{who} did not load the objective within start_seconds={setup.start_seconds:g}"
            return Outcome(Status.CRASHED, error=error)
        case "closed":
            return _unreachable(who)
        case str():
            return Lost(f"{who} {death.cause}")
    if death.code == BROKEN:
        return _unreachable(who)
    if death.code >= 0:
        when = "" if started else " while loading the objective"
        return Outcome(Status.CRASHED, error=f"{who} exited with code {death.code}{when}")
    name = _name(-death.code)
    if -death.code in _FROM_OUTSIDE:
        by = ", probably by the kernel's out-of-memory killer" if death.oom else ""
        return Lost(f"{who} was killed by {name}{by}")
    when = "" if started else " while loading the objective"
    return Outcome(Status.CRASHED, error=f"killed by {name}{when}")


def _unreachable(who: str) -> Outcome:
    error = f"{who} lost its connection: does the objective close file descriptors that are not its own?"
    return Outcome(Status.CRASHED, error=error)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
