"""Trials and workers as the coordinator sees them: which trial may start, and what the death of a worker says."""

from __future__ import annotations

import signal
import socket
import time
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from bohb.core.encoding import trial_to_json
from bohb.core.trial import Lost, Outcome, Status, Trial
from bohb.executors.evaluate import Point
from bohb.executors.local.processes import signal_name
from bohb.executors.local.wire import Lines, encode
from bohb.executors.local.worker import BROKEN
from bohb.executors.options import TrialOptions
from bohb.units import size

# Signals that users, batch queues and the kernel send; an objective that crashes dies of other signals.
_FROM_OUTSIDE = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP}

# Errors of the machine that stop a worker from loading any objective: the process limit is reached.
_NO_PROCESSES = ("BlockingIOError: [Errno 11]", "RuntimeError: can't start new thread")


class Stage(Enum):
    """How far a worker has come."""

    STARTING = "while starting"
    LOADING = "while loading the objective"
    RUNNING = ""


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


def interpret(death: Death, slot: int, options: TrialOptions, stage: Stage) -> Outcome | Lost:
    """Return the result of the trial whose worker died. A loss before the trial began is not charged to it."""
    who = f"worker {slot} (pid {death.pid})"
    when = f" {stage.value}" if stage.value else ""
    began = stage is Stage.RUNNING
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
            return Lost(f"{who} ended{when}", charged=False) if stage is Stage.STARTING else _unreachable(who)
        case str():
            return Lost(f"{who} {death.cause}", began)
    if stage is Stage.STARTING and death.code >= 0:
        return Lost(f"{who} exited with code {death.code}{when}", charged=False)
    if death.code == BROKEN:
        return _unreachable(who)
    if death.code >= 0:
        return Outcome(Status.CRASHED, error=f"{who} exited with code {death.code}{when}")
    name = signal_name(-death.code)
    if -death.code in _FROM_OUTSIDE or stage is Stage.STARTING:
        by = ", probably by the kernel's out-of-memory killer" if death.oom else ""
        return Lost(f"{who} was killed by {name}{by}{when}", began)
    return Outcome(Status.CRASHED, error=f"killed by {name}{when}")


def not_loaded(outcome: Outcome, slot: int) -> Outcome | Lost:
    """Return the result of a trial whose worker could not load the objective: a loss if the machine is to blame."""
    if outcome.error is not None and outcome.error.startswith(_NO_PROCESSES):
        return Lost(f"worker {slot} cannot load the objective: {outcome.error}", charged=False)
    return outcome


def _unreachable(who: str) -> Outcome:
    error = f"{who} lost its connection: does the objective close file descriptors that it did not open?"
    return Outcome(Status.CRASHED, error=error)


@dataclass(slots=True, eq=False)
class WorkerHandle:
    """One worker process, and the socket to it.

    pid: known once the worker is ready.
    launched: when its start was asked for, by the monotonic clock; `startup` is how long it took to be ready.
    began: when its trial began, by the monotonic clock.
    used: bytes of device memory that it holds; `peak` is the most during its trial, `measured` whether that is exact.
    beside: whether another worker was on its device during its trial.
    """

    id: int
    slot: int
    link: socket.socket
    lines: Lines = field(default_factory=Lines)
    unsent: bytes = b""
    pid: int | None = None
    stage: Stage = Stage.STARTING
    trial: Trial | None = None
    launched: float = field(default_factory=time.monotonic)
    startup: float = 0.0
    began: float = 0.0
    curve: list[Point] = field(default_factory=list)
    used: int = 0
    peak: int | None = None
    measured: bool = False
    beside: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its socket has not been closed."""
        return self.link.fileno() >= 0

    @property
    def number(self) -> int | None:
        """The number of its trial; None without one."""
        return None if self.trial is None else self.trial.number

    @property
    def is_idle(self) -> bool:
        """Whether it can be sent a trial."""
        return self.is_open and self.trial is None

    def begin(self, trial: Trial, sent: Trial, beside: bool) -> None:
        """Give it a trial, to be sent by `flush` in the form `sent`."""
        self.trial, self.curve, self.began = trial, [], time.monotonic()
        self.peak, self.beside = None, beside
        self.unsent = encode(trial_to_json(sent))

    def flush(self) -> bool:
        """Send as much as the socket takes; return whether bytes are left, because a coordinator must never block."""
        try:
            self.unsent = self.unsent[self.link.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent = b""  # it is dying; the guard will report why
        return bool(self.unsent)

    def ended_now(self, result: Outcome | Lost) -> Outcome | Lost:
        """Return the result of a trial that has just ended, an outcome with its start and end times."""
        now = time.time()
        if not isinstance(result, Outcome):
            return result
        return replace(result, started=now - (time.monotonic() - self.began), finished=now)


SUSPECT_AFTER = 2  # deaths of the guard during which a trial ran


class WaitingTrials:
    """A queue of trials. All running trials are lost with their guard, and nobody knows which of them has killed it.

    A trial that ran during two deaths of the guard is a suspect: it runs alone, so that a third death has a culprit.
    """

    def __init__(self) -> None:
        self._queue: deque[Trial] = deque()
        self._guard_deaths: Counter[int] = Counter()  # by the number of the trial

    def __bool__(self) -> bool:
        return bool(self._queue)

    @property
    def first(self) -> int | None:
        """The number of the first trial; None without one."""
        return self._queue[0].number if self._queue else None

    def put(self, trial: Trial) -> None:
        """Add a trial at the end."""
        self._queue.append(trial)

    def startable(self, running: Sequence[int]) -> bool:
        """Whether the first trial may start beside the running ones."""
        if not self._queue or not running:
            return bool(self._queue)
        return all(self._guard_deaths[number] < SUSPECT_AFTER for number in (self._queue[0].number, *running))

    def take(self) -> Trial:
        """Return the first trial, which starts now."""
        return self._queue.popleft()

    def ended(self, number: int) -> None:
        """Record that a trial has ended by itself: it has not killed the guard."""
        self._guard_deaths.pop(number, None)

    def guard_died(self, running: Collection[int]) -> bool:
        """Record that the guard died while these trials ran; return whether one of them is the culprit for certain."""
        self._guard_deaths.update(running)
        return len(running) == 1
