"""What an engine runs for us: one trial, in a supervised child process of the engine's own worker.

The engine's worker may be a thread of the runner, a process of a pool, a Dask or a Ray worker or a job of Slurm. In
each the same child does the work, so that a segmentation fault, a time limit or a memory limit means the same
everywhere, and the engine's worker lives on. Only JSON comes back: an exception might not survive the way.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cloudpickle

from bohb.core.events import outcome_to_json, trial_from_json
from bohb.core.trial import Outcome, Trial
from bohb.executors.base import Lost
from bohb.executors.engines.order import Order
from bohb.executors.local.executor import LocalExecutor
from bohb.executors.resources import DEVICES, own_devices

IDLE_SECONDS = 60.0  # a child that nobody has used for so long is ended
_LOOK_SECONDS = 0.2  # between two looks whether the study has been stopped
_PAYLOADS = 8  # pickled objectives that one process remembers

Stopped = Callable[[], bool]


class Shipped:
    """An objective in its pickled form: the child that loads this gets the objective itself.

    The engine's worker never loads it, for that may take long, need much memory or crash.
    """

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return cloudpickle.loads, (self._payload,)

    def __call__(self, trial: Trial) -> Any:  # only in a forked child (start_method='fork'), which pickles nothing
        return cloudpickle.loads(self._payload)(trial)


@dataclass(slots=True, eq=False)
class Child:
    """A supervised process that waits for trials of one study.

    seen: the GPUs that the engine's worker saw.
    devices: those it was given by us.
    visible: whether the end of its session can be seen from here.
    since: when it was last used.
    """

    executor: LocalExecutor
    order: Order
    seen: str | None
    lane: int
    devices: tuple[str, ...] = ()
    visible: bool = False
    since: float = field(default_factory=time.monotonic)


class Bench:
    """The children of this process that are warm and idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._lanes: set[int] = set()  # numbers of the children there are
        self._leased: set[str] = set()  # GPUs they use
        self._payloads: dict[str, bytes] = {}
        self._closed: set[str] = set()
        self._sweeper: threading.Thread | None = None

    def keep(self, digest: str, payload: bytes) -> None:
        """Remember a pickled objective."""
        with self._lock:
            self._payloads[digest] = payload
            while len(self._payloads) > _PAYLOADS:
                self._payloads.pop(next(iter(self._payloads)))

    def over(self, order: Order, visible: bool) -> bool:
        """Whether nobody waits for results of this session any more.

        visible: whether that can be seen by its lifeline.
        """
        return order.session in self._closed or (visible and not order.wanted())

    def take(self, order: Order) -> Child | None:
        """A child for this session, warm if there is one; None if the objective has to be sent first."""
        seen = os.environ.get(DEVICES)
        with self._lock:
            for child in self._idle:
                # Ray changes the devices from task to task
                if child.order.session == order.session and child.seen == seen:
                    self._idle.remove(child)
                    return child
            payload = self._payloads.get(order.digest)
            if payload is None:
                return None
            devices = own_devices(order.gpus, self._leased)
            lane = next(n for n in range(len(self._lanes) + 1) if n not in self._lanes)
            self._lanes.add(lane)
            self._leased.update(devices)
        return Child(_executor(order, payload, devices), order, seen, lane, devices, order.visible())

    def give_back(self, child: Child) -> None:
        """Keep a child for the next trial, unless the session is over."""
        if not child.order.warm or self.over(child.order, child.visible):
            self.end(child, kill=False)
            return
        child.since = time.monotonic()
        with self._lock:
            self._idle.append(child)
            if self._sweeper is None:
                self._sweeper = threading.Thread(target=self._sweep, name="bohb-sweeper", daemon=True)
                self._sweeper.start()

    def end(self, child: Child, kill: bool) -> None:
        """End a child that is not idle."""
        child.executor.shutdown(kill)
        with self._lock:
            self._lanes.discard(child.lane)
            self._leased.difference_update(child.devices)

    def close(self, session: str) -> None:
        """The session is over: end its idle children now; what runs will notice."""
        self._closed.add(session)
        for child in self._remove(lambda child: child.order.session == session):
            self.end(child, kill=False)

    def _remove(self, condition: Callable[[Child], bool]) -> list[Child]:
        with self._lock:
            found = [child for child in self._idle if condition(child)]
            self._idle = [child for child in self._idle if child not in found]
            return found

    def _useless(self, child: Child) -> bool:
        return time.monotonic() - child.since > IDLE_SECONDS or self.over(child.order, child.visible)

    def _sweep(self) -> None:
        """End children whose session is over or that have been idle for long, until there are none."""
        while True:
            time.sleep(_LOOK_SECONDS)
            for child in self._remove(self._useless):
                self.end(child, kill=False)
            with self._lock:
                if not self._idle:
                    self._sweeper = None
                    return


_bench = Bench()


def _forked() -> None:
    global _bench  # the children of our parent are not ours
    _bench = Bench()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def close(session: str) -> None:
    """End what this process holds for a session."""
    _bench.close(session)


def run(order: Order, body: dict[str, Any], payload: bytes | None, stopped: Stopped | None = None) -> dict[str, Any]:
    """Evaluate one trial: {"outcome": …}, {"lost": reason}, or {"need": digest} if the objective must be sent along.

    payload: the pickled objective; None if this process should have it.
    stopped: whether the engine has cancelled this task.
    """
    bench = _bench
    _leave_interrupts_to_the_runner(order)
    trial = trial_from_json(body)
    if bench.over(order, order.local):
        return {"lost": "the study was stopped before the trial began"}
    missing = _missing_directory(trial)
    if missing is not None:
        return {"lost": missing}
    if payload is not None:
        bench.keep(order.digest, payload)
    child = bench.take(order)
    if child is None:
        return {"need": order.digest}
    finished = False
    try:
        result = _evaluate(
            child, trial, lambda: bench.over(order, child.visible) or (stopped is not None and stopped())
        )
        finished = result is not None
    finally:  # an engine may interrupt its task
        if finished:
            bench.give_back(child)
        else:
            bench.end(child, kill=True)
    if result is None:
        return {"lost": "the study was stopped"}
    if isinstance(result, Lost):
        return {"lost": f"{result.reason} on {platform.node()}"}
    worker = f"{platform.node()}/{os.getpid()}.{child.lane}"
    return {"outcome": outcome_to_json(replace(result, worker=worker))}


def _leave_interrupts_to_the_runner(order: Order) -> None:
    """A terminal sends Ctrl-C to the processes of a pool, too; they would drop their trials and break the pool."""
    in_pool = order.local and order.warm and os.getpid() != order.runner
    if in_pool and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _evaluate(child: Child, trial: Trial, stopped: Stopped) -> Outcome | Lost | None:
    child.executor.submit(trial)
    while not stopped():
        for done in child.executor.wait(_LOOK_SECONDS):
            return done.result
    return None


def _executor(order: Order, payload: bytes, devices: tuple[str, ...]) -> LocalExecutor:
    for entry in order.path:  # what the runner can import, its workers can, if it is there
        if entry not in sys.path and os.path.exists(entry):
            sys.path.append(entry)
    environment = {**order.env, DEVICES: ",".join(devices)} if devices else dict(order.env)
    # A directory that is not shared is not made here: nobody would look for the logs on this machine.
    log_dir = Path(order.log_dir) if order.log_dir is not None and os.path.isdir(order.log_dir) else None
    return LocalExecutor(
        Shipped(payload),
        1,
        trial_seconds=order.trial_seconds,
        trial_memory=order.trial_memory,
        log_dir=log_dir,
        start_method=order.start_method,
        recycle_after=order.recycle_after,
        slot_env=lambda _: environment,
    )


def _missing_directory(trial: Trial) -> str | None:
    """What to say if the trial's checkpoint directory cannot be seen from here."""
    if trial.checkpoint_dir is None or trial.checkpoint_dir.is_dir():
        return None
    return (
        f"machine {platform.node()} does not see the checkpoint directory {trial.checkpoint_dir}; "
        "give directory= on a file system that runner and workers share, or checkpoints=False"
    )
