"""The function that an engine runs: one trial, in a supervised child process of the engine's worker.

The engine's worker may be a thread of the runner, a process of a pool, a Dask or Ray worker, or a Slurm job. The same
kind of child runs the trial in each, so that a segmentation fault, a time limit or a memory limit has the same effect
everywhere and the engine's worker survives. Results are sent as JSON, because an exception might not unpickle.
"""

from __future__ import annotations

import math
import os
import platform
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cloudpickle
import psutil  # type: ignore[import-untyped]

from bohb.core.encoding import to_json, trial_from_json, trial_to_json
from bohb.core.trial import Lost, Outcome, Trial
from bohb.executors.local.devices import DEVICES, free_devices
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.options import TrialOptions

IDLE_SECONDS = 60.0  # an idle child is ended after this time
_CHECK_SECONDS = 0.2  # between two checks whether the study was stopped
_PAYLOADS = 8  # number of pickled objectives that a process keeps

Stopped = Callable[[], bool]
Answer = dict[str, Any]  # of a task, as `run` returns it


@dataclass(frozen=True, slots=True)
class Session:
    """How to run the trials of one EngineExecutor.

    id: unique name of this executor.
    digest: hash of the pickled objective.
    lifeline: a directory that exists as long as the executor does.
    tickets: where tasks without a checkpoint directory have their tickets, on machines that see it.
    runner: process id of the executor.
    local: whether the engine's workers are on the runner's machine, so that a missing lifeline means the end.
    warm: whether children are kept for the next trial; not if the engine's worker ends with its task.
    path: the runner's `sys.path`.
    """

    id: str
    digest: str
    lifeline: str
    tickets: str
    runner: int
    local: bool
    warm: bool
    path: tuple[str, ...]
    options: TrialOptions

    def is_over(self) -> bool:
        """Whether nobody waits for results; only known where the lifeline could be seen."""
        return not os.path.exists(self.lifeline) or (self.local and not psutil.pid_exists(self.runner))


def lost(reason: str, charged: bool) -> Answer:
    """Return the answer of a task whose trial was lost.

    charged: whether that counts as an attempt of the trial.
    """
    return {"lost": reason, "charged": charged}


@dataclass(frozen=True, slots=True)
class Task:
    """One run of one trial, as it is sent to an engine's worker.

    trial: the trial as JSON.
    payload: the pickled objective; None if the worker should have it.
    ticket: a file that the task removes when it begins; a task without it must not start. Dask and Slurm run a task
        again whose worker has died, in a directory that may be half written.
    alone: whether it needs a whole device where other trials share one.
    """

    session: Session
    trial: dict[str, Any]
    payload: bytes | None
    ticket: str
    alone: bool = False

    @classmethod
    def of(cls, session: Session, trial: Trial, payload: bytes | None, alone: bool = False) -> Task:
        """Return a task that may begin once. Raises OSError if the directory takes no file."""
        place = session.tickets if trial.checkpoint_dir is None else trial.checkpoint_dir.parent
        ticket = Path(place, f"{trial.number}.{uuid.uuid4().hex}")
        ticket.touch(exist_ok=False)
        return cls(session, trial_to_json(trial), payload, str(ticket), alone)

    def begin(self) -> Answer | None:
        """Note that the task begins; return the answer of one that must not."""
        machine = f"machine {platform.node()}"
        try:
            os.unlink(self.ticket)
        except FileNotFoundError:
            if os.path.isdir(os.path.dirname(self.ticket)):  # otherwise no directory is shared: nothing is known
                return lost(f"{machine} was told to start it again, after its first worker had died", True)
        except OSError as error:
            if "checkpoint_dir" in self.trial:
                return lost(f"{machine} cannot write beside the checkpoint directory: {error}", False)
        return None

    def withdraw(self) -> None:
        """Keep a task that has been answered from beginning, whatever its engine does."""
        with suppress(OSError):  # the directory of the study is cleaned up at its end
            os.unlink(self.ticket)


class PickledObjective:
    """An objective that is unpickled only in the child process.

    The engine's worker never loads it: that may take long, need much memory or crash.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return cloudpickle.loads, (self._payload,)

    def __call__(self, trial: Trial) -> Any:  # only with start_method='fork', which pickles nothing
        return cloudpickle.loads(self._payload)(trial)


@dataclass(slots=True, eq=False)
class Child:
    """A supervised process that evaluates the trials of one session.

    seen: the GPUs that the engine's worker saw when the child was started.
    number: distinguishes the children of this process in the worker names of outcomes.
    devices: the GPUs that were assigned to the child.
    visible: whether the end of its session can be noticed on this machine.
    idle_since: monotonic time at which its last trial ended; None while one runs.
    """

    executor: LocalExecutor
    session: Session
    seen: str | None
    number: int
    devices: tuple[str, ...]
    visible: bool
    idle_since: float | None = None

    def is_over(self) -> bool:
        """Whether nobody waits for its results any more."""
        return self.visible and self.session.is_over()

    def is_useless(self) -> bool:
        """Whether it should end although it is idle and might be used again."""
        return time.monotonic() - (self.idle_since or math.inf) > IDLE_SECONDS or self.is_over()


class WarmChildren:
    """The children of this process: starts them, keeps them between trials, and ends those that are idle for long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._children: list[Child] = []
        self._payloads: dict[str, bytes] = {}  # pickled objectives by digest
        self._sweeper: threading.Thread | None = None

    def remember(self, digest: str, payload: bytes) -> None:
        """Keep a pickled objective."""
        with self._lock:
            self._payloads[digest] = payload
            if len(self._payloads) > _PAYLOADS:
                self._payloads.pop(next(iter(self._payloads)))

    def acquire(self, session: Session) -> Child | None:
        """Return an idle child of this session or a new one; None if the objective must be sent first."""
        seen = os.environ.get(DEVICES)
        with self._lock:
            for child in self._children:
                # Ray changes the devices from task to task
                if child.idle_since is not None and child.session.id == session.id and child.seen == seen:
                    child.idle_since = None
                    return child
            payload = self._payloads.get(session.digest)
            if payload is None:
                return None
            leased = {device for child in self._children for device in child.devices}
            devices = free_devices(int(session.options.resources.number_of_gpus), leased)
            number = min(set(range(len(self._children) + 1)) - {child.number for child in self._children})
            visible = session.local or os.path.exists(session.lifeline)
            executor = _executor(session, payload, devices)  # starts no process yet
            self._children.append(Child(executor, session, seen, number, devices, visible))
            return self._children[-1]

    def release(self, child: Child) -> None:
        """Keep a child for the next trial, or end it if its session is over."""
        if not child.session.warm or child.is_over():
            self.end(child, kill=False)
            return
        with self._lock:
            child.idle_since = time.monotonic()
            if self._sweeper is None:
                sweeper = threading.Thread(target=self._sweep, name="bohb-sweeper", daemon=True)
                with suppress(RuntimeError):  # the process limit is reached; the next release tries again
                    sweeper.start()
                    self._sweeper = sweeper

    def end(self, child: Child, kill: bool) -> None:
        """End a child that is not idle."""
        child.executor.shutdown(kill)
        with self._lock:
            self._children.remove(child)

    def end_idle(self, condition: Callable[[Child], bool]) -> None:
        """End the idle children for which the condition holds."""
        with self._lock:
            found = [child for child in self._children if child.idle_since is not None and condition(child)]
            for child in found:
                child.idle_since = None  # so that nobody else takes it
        for child in found:
            self.end(child, kill=False)

    def _sweep(self) -> None:
        """End useless children, until no child is idle."""
        while True:
            time.sleep(_CHECK_SECONDS)
            self.end_idle(Child.is_useless)
            with self._lock:
                if all(child.idle_since is None for child in self._children):
                    self._sweeper = None
                    return


_children = WarmChildren()


def _after_fork() -> None:
    global _children  # the children of the parent are not ours
    _children = WarmChildren()


os.register_at_fork(after_in_child=_after_fork)


def close_session(session_id: str) -> None:
    """End the idle children of a session in this process."""
    _children.end_idle(lambda child: child.session.id == session_id)


def run(task: Task, stopped: Stopped = lambda: False) -> Answer:
    """Evaluate one trial and return {"outcome": …}, {"lost": reason, "charged": …} or {"need": digest}.

    The last of these asks for the objective to be sent along.

    stopped: function that returns whether the engine has cancelled this task.
    """
    children, session = _children, task.session
    _ignore_interrupts(session)
    trial = trial_from_json(task.trial)
    if session.local and session.is_over():
        return lost("the study was stopped before the trial began", charged=False)
    if trial.checkpoint_dir is not None and not trial.checkpoint_dir.is_dir():
        return lost(
            f"machine {platform.node()} does not see the checkpoint directory {trial.checkpoint_dir}; "
            "give directory= on a file system that runner and workers share, or checkpoints=False",
            charged=False,
        )
    if task.payload is not None:
        children.remember(session.digest, task.payload)
    try:
        child = children.acquire(session)
    except OSError as error:
        return lost(f"machine {platform.node()} cannot start a worker: {error}", charged=False)
    if child is None:
        return {"need": session.digest}
    refused = task.begin()
    if refused is not None:
        children.release(child)
        return refused
    return _evaluate(children, child, trial, stopped)


def _evaluate(children: WarmChildren, child: Child, trial: Trial, stopped: Stopped) -> Answer:
    """Run the trial in this child, which is kept for the next trial unless this one was stopped."""
    result: Outcome | Lost | None = None
    try:
        child.executor.submit(trial)
        while result is None and not stopped() and not child.is_over():
            result = next((done.result for done in child.executor.wait(_CHECK_SECONDS)), None)
    finally:  # an engine may interrupt its task
        if result is None:
            children.end(child, kill=True)
        else:
            children.release(child)
    if result is None:
        return lost("the study was stopped", charged=False)
    if isinstance(result, Lost):
        return lost(f"{result.reason} on {platform.node()}", result.charged)
    worker = f"{platform.node()}/{os.getpid()}.{child.number}"
    return {"outcome": to_json(replace(result, worker=worker))}


def _ignore_interrupts(session: Session) -> None:
    """Ignore SIGINT in processes of a pool: a terminal sends Ctrl-C to them, too, and they would break the pool."""
    in_pool = session.local and session.warm and os.getpid() != session.runner
    if in_pool and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _executor(session: Session, payload: bytes, devices: tuple[str, ...]) -> LocalExecutor:
    for entry in session.path:  # so that workers can import what the runner can
        if entry not in sys.path and os.path.exists(entry):
            sys.path.append(entry)
    options = session.options
    # GPUs and other resources were assigned by the engine's scheduler, or chosen above.
    options = replace(options, resources=replace(options.resources, gpu=0, others={}))
    if options.log_dir is not None and not options.log_dir.is_dir():
        options = replace(options, log_dir=None)  # it is not shared: nobody would look for logs on this machine
    environment = {DEVICES: ",".join(devices)} if devices else {}
    return LocalExecutor(PickledObjective(payload), 1, options, slot_env=lambda _: environment)
