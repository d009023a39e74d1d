"""Trials on this machine, in one supervised, warm process per slot.

concurrent.futures and multiprocessing.Pool do not fit: there, one segmentation fault loses the other trials and the
queue, and a trial that hangs cannot be stopped.
"""

from __future__ import annotations

import logging
import math
import os
import platform
import selectors
import shutil
import socket
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any

from bohb.arguments import COUNT, check_value
from bohb.core.encoding import outcome_from_json, trial_to_json
from bohb.core.trial import Outcome, Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Lost, Objective, Places, check_objective
from bohb.executors.evaluate import extend
from bohb.executors.local import processes
from bohb.executors.local.guard import GRACE, GuardProcess, launch
from bohb.executors.local.handle import Death, Stage, WaitingTrials, WorkerHandle, interpret, not_loaded
from bohb.executors.local.shared import Lines, Setup, encode, pickled
from bohb.executors.options import TrialOptions, slot_environment
from bohb.units import duration

log = logging.getLogger("bohb")

KILL_SECONDS = 1.5  # for the guard to kill everything and end
_RETRY_SECONDS = 0.5  # between two looks for a slot that may be used again
_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class LocalExecutor:
    """Evaluates trials in worker processes that may crash, hang, leak or be killed without harm to each other.

    objective: called with each trial. It is pickled by value if workers cannot import it, so lambdas, closures and
        functions of a notebook work; with start_method='fork' it is inherited instead.
    workers: number of trials that run at once, each in its own process, which is started when first needed and kept.
    options: limits, resources, logs and start method.
    slot_env: function of a slot's number that returns environment variables for its worker, set before the objective
        is loaded.
    """

    def __init__(
        self,
        objective: Objective,
        workers: int,
        options: TrialOptions | None = None,
        *,
        slot_env: Callable[[int], Mapping[str, str]] | None = None,
    ) -> None:
        options = options or TrialOptions()
        if not hasattr(os, "fork"):
            raise InvalidArgument(
                f"LocalExecutor needs process groups and fork, which {sys.platform} does not have; "
                "use workers=None, which runs trials in this process"
            )
        check_objective(objective)
        check_value("workers", workers, COUNT)
        by_resources = slot_environment(workers, options.resources)
        if options.log_dir is not None:
            options.log_dir.mkdir(parents=True, exist_ok=True)
        payload = None if options.start_method == "fork" else pickled(objective)
        setup = Setup(
            options,
            slots=workers,
            token=processes.new_token(),
            parent=os.getpid(),
            argv=list(sys.argv),
            log_dir=tempfile.mkdtemp(prefix="bohb-") if options.log_dir is None else str(options.log_dir.resolve()),
        )
        self._coordinator = Coordinator(
            setup, objective, payload, lambda slot: {**by_resources(slot), **(slot_env(slot) if slot_env else {})}
        )
        # ends the workers when the executor is garbage collected or the interpreter exits
        self._finalizer = weakref.finalize(self, self._coordinator.kill)

    @property
    def slots(self) -> int:
        """Number of trials that may run at once."""
        return self._coordinator.slots

    def submit(self, trial: Trial) -> None:
        """Start a trial as soon as a worker is free, without waiting."""
        if self._coordinator.closed:
            raise BohbError("this executor was shut down; make a new one")
        self._coordinator.submit(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed.

        Return at once if no trial is running and there is no timeout.
        """
        coordinator = self._coordinator
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not coordinator.done and not coordinator.closed and (coordinator.busy or timeout is not None):
            left = deadline - time.monotonic()
            coordinator.poll(None if left == math.inf else max(0.0, left))
            if time.monotonic() >= deadline:
                break
        done, coordinator.done = coordinator.done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """End all workers: with `kill` at once, discarding running trials; otherwise when their trials have ended.

        `wait` still returns the trials that end during the shutdown.
        """
        if kill:
            self._coordinator.kill()
        else:
            self._coordinator.drain()
        self._finalizer.detach()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.shutdown(kill=kind is not None)


class Coordinator:
    """The coordinator's side of the worker processes: one event loop over their sockets and the guard's, no threads.

    Workers are started when they are needed and replaced when they die.

    payload: the pickled objective; None to fork from this process.
    slot_env: function that returns the environment variables of a slot.
    """

    def __init__(
        self,
        setup: Setup,
        objective: Objective,
        payload: IO[bytes] | None,
        slot_env: Callable[[int], Mapping[str, str]],
    ) -> None:
        self._setup, self._objective, self._payload, self._slot_env = setup, objective, payload, slot_env
        self.done: list[Done] = []
        self._waiting = WaitingTrials()
        self._places = Places()  # the slots in which a worker could not be started
        self._running = 0
        self._selector = selectors.DefaultSelector()
        self._guard: GuardProcess | None = None
        self._guard_lines = Lines()
        self._slots: list[WorkerHandle | None] = [None] * setup.slots
        self._idle: list[WorkerHandle] = []
        self._workers: dict[int, WorkerHandle] = {}  # by id, until the guard has reported their end
        self._started = 0
        self._machine = platform.node()
        self._said_why = False  # whether a message has said why workers are replaced
        self.closed = False

    @property
    def slots(self) -> int:
        """Number of trials that may run at once: of slots in which workers can be started, and at least 1."""
        return max(1, self._setup.slots - len(self._places.avoided()))

    @property
    def busy(self) -> bool:
        """Whether a trial runs or waits for a worker."""
        return bool(self._running or self._waiting)

    def submit(self, trial: Trial) -> None:
        """Send a trial to a free worker, or start a worker for it."""
        self._waiting.put(trial)
        self._assign()

    def poll(self, seconds: float | None) -> None:
        """Wait for events and handle them; trials that have ended are added to `done`."""
        if self._waiting:  # a slot that was avoided may be used again soon
            seconds = _RETRY_SECONDS if seconds is None else min(_RETRY_SECONDS, seconds)
        for key, events in self._selector.select(seconds):
            worker: WorkerHandle | None = key.data
            if worker is None:
                self._read_guard()
            elif worker.link.fileno() >= 0:  # an earlier event of this round may have closed it
                if events & _WRITE:
                    self._flush(worker)
                if events & _READ:
                    self._read(worker)
        self._assign()

    def drain(self) -> None:
        """Wait until all trials have ended, then end the workers and the guard."""
        while self.busy:
            self.poll(None)
        for worker in self._workers.values():
            self._close_link(worker)
        self._send_guard({"do": "drain"})
        self._close(GRACE + KILL_SECONDS)

    def kill(self) -> None:
        """End everything at once; running trials are discarded."""
        if os.getpid() != self._setup.parent:
            return  # in a process forked from the coordinator, which has only a copy of this object
        self._send_guard({"do": "quit"})
        self._close(KILL_SECONDS)

    def _close(self, seconds: float) -> None:
        if self.closed:
            return
        self.closed = True
        for worker in self._workers.values():
            self._close_link(worker)
        self._workers.clear()
        self._waiting = WaitingTrials()
        self._running = 0
        if self._guard is not None:
            self._guard.stop(seconds)
        self._selector.close()
        if self._payload is not None:
            self._payload.close()
        if not self._setup.keep_logs:
            shutil.rmtree(self._setup.log_dir, ignore_errors=True)

    def _assign(self) -> None:
        """Give queued trials to idle workers, or to new ones while there are empty slots.

        A new worker is sent its trial at once and reads it when it is ready, so a trial starts even if nobody calls
        `wait`. If the worker cannot start, the trial is lost, and its slot is avoided for a while.
        """
        while self._waiting.startable(self._running):
            if not self._idle:
                avoided = self._places.avoided()
                empty = (n for n, worker in enumerate(self._slots) if worker is None and str(n) not in avoided)
                if (slot := next(empty, None)) is None:
                    return
                try:
                    self._idle.append(self._start(slot))
                except OSError as error:
                    trial = self._waiting.take()
                    self._places.lost(str(slot), trial.number, began=False)
                    self.done.append(Done(trial, Lost(f"worker {slot} cannot be started: {error}", charged=False)))
                    continue
            worker = self._idle.pop()
            worker.trial, worker.curve, worker.began = self._waiting.take(), [], (time.time(), time.monotonic())
            worker.unsent = encode(trial_to_json(worker.trial))
            self._running += 1
            self._flush(worker)

    def _start(self, slot: int) -> WorkerHandle:
        if self._guard is None:
            self._guard = launch(self._setup, self._objective, self._payload)
            self._guard_lines = Lines()
            self._selector.register(self._guard.link, _READ, None)
        environment = dict(self._slot_env(slot))
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._started += 1
        worker = WorkerHandle(self._started, slot, ours)
        self._workers[worker.id] = self._slots[slot] = worker
        self._selector.register(ours, _READ, worker)
        with theirs:
            self._send_guard({"do": "start", "id": worker.id, "slot": slot, "env": environment}, theirs.fileno())
        return worker

    def _send_guard(self, body: dict[str, Any], *descriptors: int) -> None:
        if self._guard is None:
            return
        with suppress(OSError):  # it is dead; the loop will read that from its socket
            socket.send_fds(self._guard.link, [encode(body)], list(descriptors))

    def _flush(self, worker: WorkerHandle) -> None:
        wanted = _READ | _WRITE if worker.flush() else _READ
        if self._selector.get_key(worker.link).events != wanted:
            self._selector.modify(worker.link, wanted, worker)

    def _read(self, worker: WorkerHandle) -> bool:
        """Handle what a worker has sent; return whether there may be more."""
        try:
            data = worker.link.recv(2**18)
        except BlockingIOError:
            return False
        except OSError:  # ECONNRESET: killed before it had read our bytes
            data = b""
        try:
            for body in worker.lines.feed(data):
                self._handle(worker, body)
        except (ValueError, TypeError, KeyError):  # not written by our code: the objective has used the socket
            data = b""
        if not data:
            self._close_link(worker)
            if self._slots[worker.slot] is worker:
                self._send_guard({"do": "closed", "id": worker.id})
        return bool(data)

    def _handle(self, worker: WorkerHandle, body: dict[str, Any]) -> None:
        if "points" in body:
            extend(worker.curve, ((float(step), float(loss)) for step, loss in body["points"]))
        if "outcome" in body:
            if worker.trial is None or body["number"] != worker.trial.number:
                raise ValueError(f"an outcome of trial {body['number']}, which does not run here")
            self._finish(worker, outcome_from_json(body["outcome"]))
            if not body["retire"]:
                self._idle.append(worker)
                return
            self._slots[worker.slot] = None
            if body["reason"] and not self._said_why:
                self._said_why = True
                said = "trial %d %s; its worker is replaced, which takes %s per trial"
                log.warning(said, body["number"], body["reason"], duration(worker.startup))
        elif "loading" in body:
            worker.stage = Stage.LOADING
        elif "ready" in body:
            worker.stage = Stage.RUNNING
            self._places.works(str(worker.slot))
            worker.pid, worker.began = int(body["ready"]), (float(body["time"]), float(body["clock"]))
            worker.startup = time.monotonic() - worker.launched
        elif "failed" in body:
            self._slots[worker.slot] = None
            result = not_loaded(outcome_from_json(body["failed"]), worker.slot)
            self._finish_early(worker, worker.ended_now(result) if isinstance(result, Outcome) else result)

    def _finish_early(self, worker: WorkerHandle, result: Outcome | Lost) -> None:
        """Add the trial of a worker that has ended to `done`, and avoid its slot if the worker could not start."""
        if isinstance(result, Lost) and worker.stage is not Stage.RUNNING and worker.trial is not None:
            self._places.lost(str(worker.slot), worker.trial.number, began=False)
        self._finish(worker, result)

    def _finish(self, worker: WorkerHandle, result: Outcome | Lost) -> None:
        trial, worker.trial = worker.trial, None
        assert trial is not None
        self._running -= 1
        if isinstance(result, Outcome):
            self._waiting.ended(trial.number)
            curve = tuple(worker.curve) or result.curve
            result = replace(result, curve=curve, worker=f"{self._machine}/{worker.slot}")
        self.done.append(Done(trial, result))

    def _read_guard(self) -> None:
        assert self._guard is not None
        try:
            data = self._guard.link.recv(2**16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for body in self._guard_lines.feed(data):
            self._worker_died(Death(**body))
        if not data:
            self._guard_died()

    def _worker_died(self, death: Death) -> None:
        worker = self._remove(death.id)
        if worker.trial is not None:
            result = interpret(death, worker.slot, self._setup.options, worker.stage)
            if isinstance(result, Outcome):
                running = worker.stage is Stage.RUNNING
                output = self._setup.log(worker.slot, worker.trial.number if running else None).tail()
                result = worker.ended_now(replace(result, output=output))
                self._setup.log(worker.slot, worker.trial.number).finish()
            self._finish_early(worker, result)

    def _guard_died(self) -> None:
        """Count running trials as lost: the workers die with their guard. The next start launches a new guard."""
        guard, self._guard = self._guard, None
        assert guard is not None
        self._selector.unregister(guard.link)
        guard.stop(KILL_SECONDS)
        removed = [self._remove(key) for key in list(self._workers)]
        culprit = self._waiting.guard_died([w.trial.number for w in removed if w.trial and w.stage is Stage.RUNNING])
        for worker in removed:
            if worker.pid is not None:
                processes.kill_tree(worker.pid)
            if worker.trial is not None:
                charged = culprit and worker.stage is Stage.RUNNING
                self._finish(worker, Lost(f"the guard process (pid {guard.pid}) of the workers has died", charged))
        processes.kill_marked(self._setup.token)

    def _remove(self, worker_id: int) -> WorkerHandle:
        """Forget a worker after reading all that it has sent."""
        worker = self._workers.pop(worker_id)
        while worker.link.fileno() >= 0 and self._read(worker):
            pass
        self._close_link(worker)
        if self._slots[worker.slot] is worker:
            self._slots[worker.slot] = None
        return worker

    def _close_link(self, worker: WorkerHandle) -> None:
        if worker.link.fileno() >= 0:
            self._selector.unregister(worker.link)
            worker.link.close()
        if worker in self._idle:
            self._idle.remove(worker)
