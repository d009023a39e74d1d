"""An Executor over any engine that can run a function somewhere and hand back a future."""

from __future__ import annotations

import hashlib
import os
import queue
import sys
import tempfile
import time
import uuid
import weakref
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from bohb.core.events import outcome_from_json, trial_to_json
from bohb.core.trial import Trial
from bohb.errors import BohbError
from bohb.executors.base import Done, Lost, Objective
from bohb.executors.engines.order import Order
from bohb.executors.local import logs
from bohb.executors.local.executor import START_METHOD, LocalExecutor
from bohb.executors.local.launch import pickled
from bohb.executors.local.setup import StartMethod
from bohb.executors.resources import Resources

INLINE_BYTES = 32 * 2**10  # a pickled objective up to this size travels with each trial: asking for it costs more
KILL_SECONDS = 10.0  # for running tasks to notice that they are not wanted any more
_CHECK_SECONDS = 0.5  # between two looks whether the engine is still there

Answer = dict[str, Any]
Answers = Future[Answer]


class EngineBroken(BohbError):
    """The engine cannot run anything any more; the message says which one and what to do."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why an engine takes no tasks just now.

    final: whether waiting is of no use.
    """

    reason: str
    final: bool


class Engine(Protocol):
    """Something that runs `task.run` elsewhere.

    local: whether all its workers are on this machine.
    warm: whether its workers outlive a task.
    """

    local: bool
    warm: bool

    @property
    def slots(self) -> int:
        """How many tasks it can run at once now; 0 if it has no workers."""
        ...

    @property
    def trouble(self) -> Trouble | None:
        """Why it takes no tasks now."""
        ...

    def submit(self, order: Order, body: dict[str, Any], payload: bytes | None) -> Answers:
        """Run a trial. The future's exception means that the worker was lost, EngineBroken that the engine was."""
        ...

    def cancel(self, futures: Collection[Answers]) -> None:
        """Stop these tasks, whether they have begun or not."""
        ...

    def close(self, session: str) -> None:
        """Nothing more will come: end the session's children everywhere, and what the engine itself has opened."""
        ...


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What holds for every trial of a session; see `LocalExecutor`."""

    trial_seconds: float | None = None
    trial_memory: int | None = None
    recycle_after: int | None = None
    start_method: StartMethod = START_METHOD
    log_dir: Path | None = None
    resources: Resources = field(default_factory=Resources)


class EngineExecutor:
    """Evaluates each trial in a supervised child of one of the engine's workers.

    objective: pickled once, and sent to each of the engine's workers once.
    workers: how many trials run at once; None follows what the engine reports, from second to second.
    """

    def __init__(
        self, engine: Engine, objective: Objective, workers: int | None = None, options: TaskOptions | None = None
    ) -> None:
        options = options or TaskOptions()
        _rehearse(objective, options)
        self._engine, self._workers = engine, workers
        with pickled(objective) as file:
            self._payload = os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
        descriptor, lifeline = tempfile.mkstemp(prefix="bohb-", suffix=".alive")
        os.close(descriptor)
        self._order = _order(engine, self._payload, lifeline, options)
        self._ended: queue.SimpleQueue[Answers] = queue.SimpleQueue()
        self._running: dict[Answers, Trial] = {}
        self._held: deque[Trial] = deque()  # submitted while the engine takes no tasks
        self._done: list[Done] = []
        self._closed = False
        self._finalizer = weakref.finalize(self, _remove, lifeline)

    @property
    def slots(self) -> int:
        """How many trials may run at once; at least one, which waits for a worker to come."""
        return self._workers if self._workers is not None else max(1, self._engine.slots)

    def submit(self, trial: Trial) -> None:
        """Hand a trial to the engine; never waits."""
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        if self._held or self._engine.trouble is not None:
            self._held.append(trial)
            return
        inline = len(self._payload) <= INLINE_BYTES or not self._engine.warm
        self._send(trial, self._payload if inline else None)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """The trials that have come back; blocks until there is one or `timeout` seconds have passed.

        Raises EngineBroken when the engine is gone for good, but only after all that came back has been fetched.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._done and not self._closed:
            self._release()
            if not self._running and not self._held and timeout is None:
                break
            left = _CHECK_SECONDS if deadline is None else min(_CHECK_SECONDS, deadline - time.monotonic())
            self._collect(max(0.0, left))
            if deadline is not None and time.monotonic() >= deadline:
                break
        done, self._done = self._done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """Let the trials finish, or with `kill` stop them; then end their children, never the user's engine."""
        if self._closed:
            return
        while not kill and self._running:
            self._collect(_CHECK_SECONDS)
        self._closed = True
        self._finalizer()  # the lifeline goes: tasks on this machine stop
        if self._running:
            self._engine.cancel(self._running.keys())
            wait(self._running, KILL_SECONDS)
        self._running.clear()
        self._held.clear()
        self._engine.close(self._order.session)

    def _send(self, trial: Trial, payload: bytes | None) -> None:
        try:
            future = self._engine.submit(self._order, trial_to_json(trial), payload)
        except EngineBroken:
            self._held.append(trial)  # `wait` says so, once everything else has been fetched
            return
        self._running[future] = trial
        future.add_done_callback(self._ended.put)

    def _release(self) -> None:
        """Send what was held back, or say why that is of no use."""
        if not self._held:
            return
        trouble = self._engine.trouble
        if trouble is None:
            held, self._held = self._held, deque()
            for trial in held:
                self.submit(trial)
        elif trouble.final and not self._running:
            raise EngineBroken(f"{trouble.reason}; the results that came are kept, and the same call continues")

    def _collect(self, seconds: float) -> None:
        """Take what has ended; wait for the first."""
        try:
            self._take(self._ended.get(timeout=seconds))
            while True:
                self._take(self._ended.get_nowait())
        except queue.Empty:
            return

    def _take(self, future: Answers) -> None:
        trial = self._running.pop(future, None)
        if trial is None:
            return
        answer = _answer(future)
        if "need" in answer:
            self._send(trial, self._payload)
        elif "outcome" in answer:
            self._done.append(Done(trial, outcome_from_json(answer["outcome"])))
        else:
            self._done.append(Done(trial, Lost(str(answer["lost"]))))

    def __enter__(self) -> EngineExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(kill=kind is not None)


def _rehearse(objective: Objective, options: TaskOptions) -> None:
    """Refuse here and now what the children would refuse elsewhere; making a LocalExecutor starts no process."""
    LocalExecutor(
        objective,
        1,
        trial_seconds=options.trial_seconds,
        trial_memory=options.trial_memory,
        start_method=options.start_method,
        recycle_after=options.recycle_after,
    ).shutdown(kill=True)


def _order(engine: Engine, payload: bytes, lifeline: str, options: TaskOptions) -> Order:
    resources = options.resources
    return Order(
        session=uuid.uuid4().hex,
        digest=hashlib.sha256(payload).hexdigest(),
        lifeline=lifeline,
        runner=os.getpid(),
        local=engine.local,
        warm=engine.warm,
        start_method=options.start_method,
        trial_seconds=options.trial_seconds,
        trial_memory=options.trial_memory if options.trial_memory is not None else resources.memory,
        recycle_after=options.recycle_after,
        log_dir=None if options.log_dir is None else logs.prepare(options.log_dir),
        gpus=int(resources.gpu),
        env=resources.env,
        path=tuple(os.path.abspath(entry) for entry in sys.path),
    )


def _answer(future: Answers) -> Answer:
    """What the task returned; whatever the engine raises instead means that its worker was lost."""
    if future.cancelled():
        return {"lost": "the engine cancelled the task"}
    error = future.exception()
    if error is not None:
        return {"lost": f"{type(error).__name__}: {error}"}
    return future.result()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
