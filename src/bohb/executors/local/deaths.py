"""Decide from how a worker died whether its trial has failed or should be started again."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from bohb.core.trial import Outcome, Status
from bohb.executors.base import Lost
from bohb.executors.local.processes import signal_name
from bohb.executors.local.worker import BROKEN
from bohb.executors.options import TrialOptions
from bohb.units import size

# Signals that users, batch queues and the kernel send; an objective that crashes dies of other signals.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Death:
    """The guard's report of how a worker process ended.

    code: exit code, negative for a signal.
    cause: why the guard killed it; None if the guard did not.
    memory: bytes that its process tree used when it was killed for that.
    oom: whether the kernel's out-of-memory killer was active at that time.
    """

    id: int
    pid: int
    code: int
    cause: str | None = None
    memory: int = 0
    oom: bool = False


def interpret(death: Death, slot: int, options: TrialOptions, started: bool) -> Outcome | Lost:
    """Return the result of the trial whose worker died.

    started: whether the worker had loaded the objective.
    """
    who = f"worker {slot} (pid {death.pid})"
    when = "" if started else " while loading the objective"
    match death.cause:
        case "timeout":
            return Outcome(Status.TIMEOUT, error=f"ran longer than trial_seconds={options.trial_seconds:g}")
        case "memory":
            used, limit = size(death.memory), size(options.memory_limit or 0)
            return Outcome(Status.MEMORY, error=f"used {used} of memory, more than trial_memory of {limit}")
        case "start":
            error = f"{who} did not load the objective within start_seconds={options.start_seconds:g}"
            return Outcome(Status.CRASHED, error=error)
        case "closed":
            return _unreachable(who)
        case str():
            return Lost(f"{who} {death.cause}")
    if death.code == BROKEN:
        return _unreachable(who)
    if death.code >= 0:
        return Outcome(Status.CRASHED, error=f"{who} exited with code {death.code}{when}")
    name = signal_name(-death.code)
    if -death.code in _FROM_OUTSIDE:
        by = ", probably by the kernel's out-of-memory killer" if death.oom else ""
        return Lost(f"{who} was killed by {name}{by}")
    return Outcome(Status.CRASHED, error=f"killed by {name}{when}")


def _unreachable(who: str) -> Outcome:
    error = f"{who} lost its connection: does the objective close file descriptors that it did not open?"
    return Outcome(Status.CRASHED, error=error)
