"""The coordinator's side of the worker processes: one event loop over their sockets and the guard's, no threads."""

from __future__ import annotations

import logging
import os
import platform
import selectors
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any

from bohb.core.encoding import outcome_from_json, trial_to_json
from bohb.core.trial import Outcome, Trial
from bohb.executors.base import Done, Lost, Objective
from bohb.executors.evaluate import extend
from bohb.executors.local import logs, processes
from bohb.executors.local.guard import GRACE, GuardProcess, launch
from bohb.executors.local.handle import Death, Stage, WorkerHandle, interpret, not_loaded
from bohb.executors.local.shared import Lines, Setup, encode
from bohb.executors.losses import Places, WaitingTrials
from bohb.units import duration

log = logging.getLogger("bohb")

KILL_SECONDS = 1.5  # for the guard to kill everything and end
_RETRY_SECONDS = 0.5  # between two looks for a slot that may be used again
_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class Coordinator:
    """The workers of one executor, started when they are needed and replaced when they die.

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
        self._queue = WaitingTrials()
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
        return bool(self._running or self._queue)

    def submit(self, trial: Trial) -> None:
        """Send a trial to a free worker, or start a worker for it."""
        self._queue.put(trial)
        self._assign()

    def poll(self, seconds: float | None) -> None:
        """Wait for events and handle them; trials that have ended are added to `done`."""
        if self._queue:  # a slot that was avoided may be used again soon
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
        self._queue = WaitingTrials()
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
        while self._queue.startable(self._running):
            if not self._idle:
                avoided = self._places.avoided()
                empty = (n for n, worker in enumerate(self._slots) if worker is None and str(n) not in avoided)
                if (slot := next(empty, None)) is None:
                    return
                try:
                    self._idle.append(self._start(slot))
                except OSError as error:
                    trial = self._queue.take()
                    self._places.lost(str(slot), trial.number, began=False)
                    self.done.append(Done(trial, Lost(f"worker {slot} cannot be started: {error}", charged=False)))
                    continue
            worker = self._idle.pop()
            worker.trial, worker.curve, worker.began = self._queue.take(), [], (time.time(), time.monotonic())
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
        """Send as much as the socket takes; send the rest later, because a coordinator must never block."""
        try:
            worker.unsent = worker.unsent[worker.link.send(worker.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            worker.unsent = b""  # it is dying; the guard will report why
        wanted = _READ | _WRITE if worker.unsent else _READ
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
        """Add the worker's trial to `done`."""
        trial, worker.trial = worker.trial, None
        assert trial is not None
        self._running -= 1
        if isinstance(result, Outcome):
            self._queue.ended(trial.number)
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
        """Drain the worker's socket, then interpret its exit code if its trial has not ended."""
        worker = self._remove(death.id)
        if worker.trial is not None:
            result = interpret(death, worker.slot, self._setup.options, worker.stage)
            if isinstance(result, Outcome):
                log = logs.trial_log(self._setup, worker.slot, worker.trial.number)
                running = worker.stage is Stage.RUNNING
                output = logs.tail(log if running else logs.worker_log(self._setup, worker.slot))
                result = worker.ended_now(replace(result, output=output))
                logs.finish(log, self._setup)
            self._finish_early(worker, result)

    def _guard_died(self) -> None:
        """Count running trials as lost: the workers die with their guard. The next start launches a new guard."""
        guard, self._guard = self._guard, None
        assert guard is not None
        self._selector.unregister(guard.link)
        guard.stop(KILL_SECONDS)
        removed = [self._remove(key) for key in list(self._workers)]
        culprit = self._queue.guard_died([w.trial.number for w in removed if w.trial and w.stage is Stage.RUNNING])
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
