"""An Executor over any engine that runs a function elsewhere and returns a future, such as a pool."""

from __future__ import annotations

import hashlib
import logging
import os
import queue
import shutil
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Collection, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from bohb.core.encoding import outcome_from_json
from bohb.core.trial import Lost, Status, Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Objective, Places, check_objective, ran_out_beside_others
from bohb.executors.engines.task import Answer, Session, Task, close_session, lost, run
from bohb.executors.local.wire import pickled
from bohb.executors.options import Resources, TrialOptions

INLINE_BYTES = 32 * 2**10  # a pickled objective up to this size is sent with each trial: asking for it costs more
KILL_SECONDS = 10.0  # for running tasks to notice that they were cancelled
_CHECK_SECONDS = 0.5  # between two checks whether the engine still works
_SLOTS_SECONDS = 1.0  # between two questions for the size of the engine
SHORTAGE_SECONDS = 60.0  # between two messages that the engine has no workers
_FIRST_SHORTAGE_SECONDS = 5.0  # before the first message: workers need time to start

log = logging.getLogger("bohb")
AnswerFuture = Future[Answer]


class EngineBroken(BohbError):
    """The engine cannot run anything any more; the message names the engine and a way out."""


class Engine(Protocol):
    """Something that calls `run(task)` elsewhere.

    local: whether all its workers are on this machine.
    warm: whether its workers outlive a task.
    folder: a directory that exists and that all its workers see, if it has one.
    """

    @property
    def local(self) -> bool: ...
    @property
    def warm(self) -> bool: ...
    @property
    def folder(self) -> Path | None: ...

    @property
    def shortage(self) -> str | None:
        """Why no task can run now, such as a scheduler without workers; None if some can."""
        ...

    def slots(self, avoid: Collection[str]) -> int:
        """Return the number of tasks that it can run at once now, without the places in `avoid`."""
        ...

    def submit(self, task: Task, avoid: Collection[str]) -> AnswerFuture:
        """Run a task. An exception of the future means a lost worker.

        avoid: places that lose trials; the trial runs there only if there is no other place.
        Raises EngineBroken if the engine will never take a task again.
        """
        ...

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Stop these tasks, whether they have begun or not."""
        ...

    def close(self, session_id: str) -> None:
        """End the session's children on all workers, and close what the engine itself has opened."""
        ...


class EngineExecutor:
    """Evaluates each trial in a supervised child of one of the engine's workers.

    objective: pickled once, and sent to each of the engine's workers once.
    workers: number of trials that run at once; None follows the size that the engine reports.
    options: limits, resources, logs and start method.
    """

    def __init__(
        self, engine: Engine, objective: Objective, workers: int | None = None, options: TrialOptions | None = None
    ) -> None:
        check_objective(objective)
        self._engine, self._workers = engine, workers
        with pickled(objective) as file:
            self._payload = os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)
        lifeline = tempfile.mkdtemp(prefix="bohb-", suffix=".alive")
        self._session = _session(engine, self._payload, lifeline, options or TrialOptions())
        self._ended: queue.SimpleQueue[AnswerFuture] = queue.SimpleQueue()
        self._running: dict[AnswerFuture, tuple[Trial, Task]] = {}
        self._broken: EngineBroken | None = None  # raised once all results have been returned
        self._done: list[Done] = []
        self._alone: set[int] = set()  # trials that ran out of memory on a device that they shared
        self._slots, self._slots_known = 1, -_SLOTS_SECONDS
        self._places = Places()
        self._look_at = time.monotonic() + _FIRST_SHORTAGE_SECONDS  # when a shortage is looked for again
        self._closed = False
        self._finalizer = weakref.finalize(self, shutil.rmtree, lifeline, ignore_errors=True)

    @property
    def slots(self) -> int:
        """Number of trials that may run at once; at least 1, so that a trial waits for a worker to appear."""
        if self._workers is not None:
            return self._workers
        if time.monotonic() - self._slots_known >= _SLOTS_SECONDS:
            self._slots = max(1, self._engine.slots(self._places.avoided()))
            self._slots_known = time.monotonic()
        return self._slots

    def submit(self, trial: Trial) -> None:
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        inline = len(self._payload) <= INLINE_BYTES or not self._engine.warm
        self._send(trial, self._payload if inline else None)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed.

        Raises EngineBroken if the engine will not recover, but only after all results have been returned.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._done and not self._closed:
            if self._broken is not None and not self._running:
                raise self._broken
            self._report_shortage()
            if not self._running and timeout is None:
                break
            left = _CHECK_SECONDS if deadline is None else min(_CHECK_SECONDS, deadline - time.monotonic())
            self._collect(max(0.0, left))
            if deadline is not None and time.monotonic() >= deadline:
                break
        done, self._done = self._done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """Wait for running trials, or stop them with `kill`; then end their children, but not the user's engine."""
        if self._closed:
            return
        while not kill and self._running:
            self._collect(_CHECK_SECONDS)
        self._closed = True
        self._finalizer()  # removes the lifeline: tasks on this machine stop
        if self._running:
            self._engine.cancel(self._running.keys())
            wait(self._running, KILL_SECONDS)
        self._running.clear()
        self._engine.close(self._session.id)

    def _send(self, trial: Trial, payload: bytes | None) -> None:
        try:
            task = Task.of(self._session, trial, payload, alone=trial.number in self._alone)
        except OSError as error:
            self._done.append(Done(trial, Lost(f"the place of its ticket takes no file: {error}", charged=False)))
            return
        try:
            future = self._engine.submit(task, self._places.avoided())
        except EngineBroken as error:
            task.withdraw()
            self._broken = EngineBroken(f"{error}; finished trials are kept, and the same call continues the study")
            return
        self._running[future] = trial, task
        future.add_done_callback(self._ended.put)

    def _report_shortage(self) -> None:
        now = time.monotonic()
        if self._running and now >= self._look_at:
            shortage = self._engine.shortage
            self._look_at = now + (SHORTAGE_SECONDS if shortage else _FIRST_SHORTAGE_SECONDS)
            if shortage:
                log.warning("%s; trials that wait for a worker: %d", shortage, len(self._running))

    def _collect(self, seconds: float) -> None:
        """Wait for a task to end, then handle all that have ended."""
        with suppress(queue.Empty):
            self._handle(self._ended.get(timeout=seconds))
            while True:
                self._handle(self._ended.get_nowait())

    def _handle(self, future: AnswerFuture) -> None:
        if future not in self._running:
            return
        trial, task = self._running.pop(future)
        task.withdraw()
        answer = _answer(future)
        place = answer.get("place")
        if "need" in answer:
            self._send(trial, self._payload)
        elif "outcome" in answer:
            if place is not None:
                self._places.works(place)
            outcome = outcome_from_json(answer["outcome"])
            shared = self._session.options.resources.shares and trial.number not in self._alone
            if shared and outcome.status is Status.DEVICE_MEMORY:
                self._alone.add(trial.number)
                self._done.append(Done(trial, ran_out_beside_others(outcome)))
            else:
                self._alone.discard(trial.number)
                self._done.append(Done(trial, outcome))
        else:
            charged = bool(answer["charged"])
            if place is not None:
                charged = self._places.lost(place, trial.number, began=charged)
                self._slots_known = -_SLOTS_SECONDS
            self._done.append(Done(trial, Lost(str(answer["lost"]), charged)))


def _session(engine: Engine, payload: bytes, lifeline: str, options: TrialOptions) -> Session:
    if options.log_dir is not None:  # workers run in other directories, and do not create it
        options.log_dir.mkdir(parents=True, exist_ok=True)
        options = replace(options, log_dir=options.log_dir.resolve())
    return Session(
        id=uuid.uuid4().hex,
        digest=hashlib.sha256(payload).hexdigest(),
        lifeline=lifeline,
        tickets=lifeline if engine.folder is None else str(engine.folder),
        runner=os.getpid(),
        local=engine.local,
        warm=engine.warm,
        path=tuple(os.path.abspath(entry) for entry in sys.path),
        options=options,
    )


def _answer(future: AnswerFuture) -> Answer:
    """Return the result of a task; any exception of the engine means that its worker was lost."""
    if future.cancelled():
        return lost("the engine cancelled the task", charged=False)
    error = future.exception()
    if error is not None:
        return lost(f"{type(error).__name__}: {error}", charged=True)
    return future.result()


def settle(future: AnswerFuture, answer: Answer) -> None:
    """Set the result of a future that may have one."""
    with suppress(InvalidStateError):
        future.set_result(answer)


class PoolEngine:
    """Trials as tasks of a pool.

    pool: belongs to the user and is never shut down here.
    resources: only cores and memory, which limit the trial's process.
    """

    warm = True
    folder = shortage = None

    def __init__(self, pool: Executor, resources: Resources) -> None:
        resources.allow_only(f"a {type(pool).__name__}", "cpu", "memory")
        self._pool = pool
        # mpiexec may start its workers on other machines
        self.local = not type(pool).__module__.startswith("mpi4py")

    def slots(self, avoid: Collection[str]) -> int:  # noqa: ARG002 - all its workers are on one machine
        count = getattr(self._pool, "num_workers", None) or getattr(self._pool, "_max_workers", None)
        if not isinstance(count, int):
            raise InvalidArgument(f"{self._pool!r} does not know how many tasks it runs at once; give workers=")
        return count

    def submit(self, task: Task, avoid: Collection[str]) -> AnswerFuture:  # noqa: ARG002 - a pool cannot choose
        try:
            return self._pool.submit(run, task)
        except (BrokenExecutor, RuntimeError) as error:  # RuntimeError: it was shut down
            name = type(self._pool).__name__
            raise EngineBroken(
                f"the {name} given as executor= takes no more tasks ({type(error).__name__}: {error}); "
                "make a new one, or use workers= or Dask, which replace workers that die"
            ) from error

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Cancel tasks that have not begun; running ones notice that the lifeline is gone."""
        for future in list(futures):
            future.cancel()

    def close(self, session_id: str) -> None:
        """End the children of threads of this process; other processes notice the end of the session."""
        close_session(session_id)
