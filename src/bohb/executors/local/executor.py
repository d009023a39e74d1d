"""Trials on this machine, in one supervised, warm process per slot.

concurrent.futures and multiprocessing.Pool do not fit: there, one segmentation fault loses the other trials and the
queue, and a trial that hangs cannot be stopped.
"""

from __future__ import annotations

import itertools
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from bohb.arguments import COUNT, check_value
from bohb.core.encoding import outcome_from_json
from bohb.core.trial import Lost, Outcome, Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Objective, Places, check_objective
from bohb.executors.evaluate import extend
from bohb.executors.local import processes
from bohb.executors.local.devices import LOOK_SECONDS, Devices
from bohb.executors.local.guard import GRACE, GuardProcess, launch
from bohb.executors.local.handle import Death, Stage, WaitingTrials, WorkerHandle, interpret, not_loaded
from bohb.executors.local.wire import Lines, Setup, encode, pickled
from bohb.executors.options import TrialOptions
from bohb.units import duration

log = logging.getLogger("bohb")

_READ = selectors.EVENT_READ
_WRITE = selectors.EVENT_WRITE


class LocalExecutor:
    """Evaluates trials in worker processes that may crash, hang, leak or be killed without harm to each other.

    It is one event loop over the sockets of the workers and of their guard, without threads.

    objective: called with each trial. It is pickled by value if workers cannot import it, so lambdas, closures and
        functions of a notebook work; with start_method='fork' it is inherited instead.
    workers: number of trials that run at once, each in its own process, which is started when first needed and kept.
    options: limits, resources, logs and start method.
    slot_env: function of a slot's number that returns environment variables for its worker, set before the objective
        is loaded.
    """

    _closed = True  # until there is something to close

    def __init__(
        self,
        objective: Objective,
        workers: int,
        options: TrialOptions | None = None,
        *,
        slot_env: Callable[[int], Mapping[str, str]] = lambda _: {},
    ) -> None:
        options = options or TrialOptions()
        check_objective(objective)
        check_value("workers", workers, COUNT)
        self._slot_env, self._devices = slot_env, Devices(workers, options.resources)
        if options.log_dir is not None:
            options.log_dir.mkdir(parents=True, exist_ok=True)
        self._objective, self._payload = objective, None if options.start_method == "fork" else pickled(objective)
        self._setup = Setup(
            options,
            slots=workers,
            token=processes.new_token(),
            parent=os.getpid(),
            argv=list(sys.argv),
            log_dir=tempfile.mkdtemp(prefix="bohb-") if options.log_dir is None else str(options.log_dir.resolve()),
        )
        self._done: list[Done] = []
        self._waiting = WaitingTrials()
        self._places = Places()  # the slots in which a worker could not be started
        self._selector = selectors.DefaultSelector()
        self._guard: GuardProcess | None = None
        self._guard_lines = Lines()
        self._slots: list[WorkerHandle | None] = [None] * workers
        self._workers: dict[int, WorkerHandle] = {}  # by id, until the guard has reported their end
        self._ids = itertools.count()
        self._said_why = False  # whether a message has said why workers are replaced
        self._closed = False

    @property
    def slots(self) -> int:
        """Number of trials that may run at once: those that fit where workers can be started, and at least 1."""
        if not self._devices.adapts:
            return max(1, self._setup.slots - len(self._places.avoided()))
        return max(1, len(self._running) + len(self._startable()))

    def submit(self, trial: Trial) -> None:
        """Start a trial as soon as a worker is free, without waiting."""
        if self._closed:
            raise BohbError("this executor was shut down; make a new one")
        self._waiting.put(trial)
        self._assign()

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed.

        Return at once if no trial is running and there is no timeout.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._done and not self._closed and (self._waiting or self._running or timeout is not None):
            self._poll(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                break
        done, self._done = self._done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """End all workers: with `kill` at once, discarding running trials; otherwise when their trials have ended.

        `wait` still returns the trials that end during the shutdown.
        """
        if self._closed or os.getpid() != self._setup.parent:  # a forked process has only a copy of this object
            return
        while not kill and (self._waiting or self._running):
            self._poll(LOOK_SECONDS)
        self._closed = True
        for worker in self._workers.values():
            self._close_link(worker)
        self._workers.clear()
        self._waiting = WaitingTrials()
        if not kill:
            self._send_guard({"do": "drain"})
        if self._guard is not None:
            self._guard.stop(0.0 if kill else GRACE)
        self._selector.close()
        if self._payload is not None:
            self._payload.close()
        if not self._setup.keep_logs:
            shutil.rmtree(self._setup.log_dir, ignore_errors=True)

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.shutdown(kill=kind is not None)

    def __del__(self) -> None:
        self.shutdown(kill=True)

    @property
    def _running(self) -> list[int]:
        """The numbers of the trials that were sent to workers and have not ended."""
        return [worker.trial.number for worker in self._workers.values() if worker.trial is not None]

    def _startable(self) -> list[int]:
        """Return the slots in which the next trial may start now, the best ones first."""
        idle = [worker.slot for worker in self._slots if worker is not None and worker.is_idle]
        avoided = self._places.avoided()
        empty = [slot for slot, worker in enumerate(self._slots) if worker is None and str(slot) not in avoided]
        return self._devices.startable(idle + empty, self._workers.values(), self._waiting.first)

    def _poll(self, seconds: float) -> None:
        """Wait for events and handle them; trials that have ended are added to `_done`."""
        for key, events in self._selector.select(min(seconds, LOOK_SECONDS)):
            worker: WorkerHandle | None = key.data
            if worker is None:
                self._read_guard()
            elif worker.is_open:  # an earlier event of this round may have closed it
                if events & _WRITE:
                    self._flush(worker)
                if events & _READ:
                    self._read(worker)
        self._devices.look(self._workers.values())
        self._assign()

    def _assign(self) -> None:
        """Give queued trials to idle workers, or to new ones in empty slots, as far as their devices allow.

        A new worker is sent its trial at once and reads it when it is ready, so a trial starts even if nobody calls
        `wait`. If the worker cannot start, the trial is lost, and its slot is avoided for a while.
        """
        while self._waiting.startable(self._running) and (slots := self._startable()):
            slot = slots[0]
            worker = self._slots[slot]
            others = [other for other in self._devices.on(slot, self._workers.values()) if other is not worker]
            if others and self._waiting.first in self._devices.alone:
                for other in others:  # it starts when they have given back their memory
                    self._hang_up(other)
                return
            try:
                worker = worker or self._start(slot)
            except OSError as error:
                trial = self._waiting.take()
                self._places.lost(str(slot), trial.number, began=False)
                self._done.append(Done(trial, Lost(f"worker {slot} cannot be started: {error}", charged=False)))
                continue
            for other in others:
                other.beside = True
            trial = self._waiting.take()
            worker.begin(trial, self._devices.sent(trial), beside=bool(others))
            self._flush(worker)

    def _start(self, slot: int) -> WorkerHandle:
        if self._guard is None:
            self._guard = launch(self._setup, self._objective, self._payload)
            self._guard_lines = Lines()
            self._selector.register(self._guard.link, _READ, None)
        environment = {**self._devices.environment(slot), **self._slot_env(slot)}
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        worker = WorkerHandle(next(self._ids), slot, ours)
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
            self._hang_up(worker)
        return bool(data)

    def _hang_up(self, worker: WorkerHandle) -> None:
        """Close the socket of a worker; if it does not end by itself, the guard kills it."""
        self._close_link(worker)
        if self._slots[worker.slot] is worker:
            self._send_guard({"do": "closed", "id": worker.id})

    def _handle(self, worker: WorkerHandle, body: dict[str, Any]) -> None:
        if "points" in body:
            extend(worker.curve, ((float(step), float(loss)) for step, loss in body["points"]))
        if "outcome" in body:
            if worker.trial is None or body["number"] != worker.trial.number:
                raise ValueError(f"an outcome of trial {body['number']}, which does not run here")
            self._finish(worker, outcome_from_json(body["outcome"]))
            if body["retire"]:
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
            worker.pid, worker.began = int(body["ready"]), float(body["clock"])
            worker.startup = worker.began - worker.launched
        elif "failed" in body:
            self._slots[worker.slot] = None
            self._finish(worker, worker.ended_now(not_loaded(outcome_from_json(body["failed"]), worker.slot)))

    def _finish(self, worker: WorkerHandle, result: Outcome | Lost) -> None:
        """Add the trial of a worker to `_done`, and avoid its slot if the worker could not start."""
        trial, worker.trial = worker.trial, None
        assert trial is not None
        if isinstance(result, Outcome):
            self._waiting.ended(trial.number)
            name = f"{platform.node()}/{worker.slot}"
            result = replace(result, curve=tuple(worker.curve) or result.curve, worker=name)
            result = self._devices.ended(worker, trial, result)
        elif worker.stage is not Stage.RUNNING:
            self._places.lost(str(worker.slot), trial.number, began=False)
        self._done.append(Done(trial, result))

    def _read_guard(self) -> None:
        assert self._guard is not None
        try:
            data = self._guard.link.recv(2**16, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for body in self._guard_lines.feed(data):
            if "refused" in body:
                raise InvalidArgument(body["refused"])
            self._worker_died(Death(**body))
        if not data:
            self._guard_died()

    def _worker_died(self, death: Death) -> None:
        worker = self._remove(death.id)
        if worker.trial is None:
            return
        result = interpret(death, worker.slot, self._setup.options, worker.stage)
        if isinstance(result, Outcome):
            number = worker.trial.number if worker.stage is Stage.RUNNING else None
            result = replace(result, output=self._setup.log(worker.slot, number).tail())
            self._setup.log(worker.slot, worker.trial.number).finish()
        self._finish(worker, worker.ended_now(result))

    def _guard_died(self) -> None:
        """Count running trials as lost: the workers die with their guard. The next start launches a new guard."""
        guard, self._guard = self._guard, None
        assert guard is not None
        self._selector.unregister(guard.link)
        guard.stop()
        removed = [self._remove(key) for key in list(self._workers)]
        culprit = self._waiting.guard_died([w.trial.number for w in removed if w.trial and w.stage is Stage.RUNNING])
        for worker in removed:
            if worker.pid is not None:
                processes.kill_tree(worker.pid)
            if worker.trial is not None:
                reason = f"the guard process (pid {guard.process.pid}) of the workers has died"
                self._finish(worker, Lost(reason, charged=culprit and worker.stage is Stage.RUNNING))
        processes.kill_marked(self._setup.token)

    def _remove(self, worker_id: int) -> WorkerHandle:
        """Forget a worker after reading all that it has sent."""
        worker = self._workers.pop(worker_id)
        while worker.is_open and self._read(worker):
            pass
        self._close_link(worker)
        if self._slots[worker.slot] is worker:
            self._slots[worker.slot] = None
        return worker

    def _close_link(self, worker: WorkerHandle) -> None:
        if worker.is_open:
            self._selector.unregister(worker.link)
            worker.link.close()
