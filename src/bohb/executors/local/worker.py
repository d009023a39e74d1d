"""The process of one slot: it loads the objective once, then evaluates one trial after another."""

from __future__ import annotations

import atexit
import concurrent.futures.thread
import faulthandler
import gc
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np

from bohb.core.encoding import to_json, trial_from_json
from bohb.core.trial import Outcome, Status, Trial
from bohb.executors.base import Objective
from bohb.executors.evaluate import Point, Reporter, attempt, evaluate
from bohb.executors.local import processes
from bohb.executors.local.wire import RESULT_BYTES, Lines, Setup, SlotTable, encode, unpickled
from bohb.units import size

BROKEN = 71  # exit code of a worker that has lost its socket
BUG = 70  # exit code of a worker that failed because of an error in this package
_LEFTOVER_SECONDS = 2.0  # for killing processes that a trial has left
_POOL_THREAD = concurrent.futures.thread._worker.__code__  # in this function a thread of a pool waits for work


def main(setup: Setup, link: int, table: int, slot: int, guard: int) -> None:
    """Run a worker in a fresh interpreter (start method 'spawn')."""
    processes.die_with_parent(guard)
    slots = SlotTable(table, setup.slots)
    os.close(table)
    payload = setup.payload
    assert payload is not None
    Worker(socket.socket(fileno=link), slots, slot, setup).live(lambda: unpickled(payload))


class Worker:
    """Evaluates the trials that arrive at a socket, until the coordinator closes it.

    link: the private socket to the coordinator.
    table: where the guard reads when the running trial has started.
    """

    def __init__(self, link: socket.socket, table: SlotTable, slot: int, setup: Setup) -> None:
        self._link, self._table, self._slot, self._setup = link, table, slot, setup
        self._identity = _identity(link.fileno())
        self._pid = os.getpid()
        link.set_inheritable(False)
        self._home = os.getcwd()
        sys.argv[:] = setup.argv
        self._count = 0
        self._process_baseline: set[int] = set()
        self._thread_baseline: set[threading.Thread] = set()
        self._signal_baseline: dict[int, Any] = {}
        self._streams = (sys.stdout, sys.stderr)  # kept, because dropping a notebook's streams could run their code

    def live(self, load: Callable[[], Objective]) -> None:
        """Load the objective, evaluate trials, and end the process."""
        objective = self._start(load)
        if objective is not None:
            self._serve(objective)
        atexit._run_exitfuncs()  # registered by the objective's libraries
        os._exit(0)

    def _start(self, load: Callable[[], Objective]) -> Objective | None:
        log = self._setup.log(self._slot)
        log.redirect()
        self._open_streams()
        faulthandler.disable()  # it looks enabled in a forked child even if a library has replaced its handler
        faulthandler.enable(file=2)  # a segmentation fault leaves a traceback in the log
        processes.adopt_orphans()
        random.seed()
        np.random.seed()  # noqa: NPY002 - otherwise all forked workers would draw the same numbers
        self._send({"loading": True})
        objective = attempt(load)
        self._flush()
        if isinstance(objective, Outcome):
            self._send({"failed": to_json(replace(objective, output=log.tail()))})
            return None
        log.finish()
        self._process_baseline = set(processes.descendants(os.getpid()))
        self._thread_baseline = set(threading.enumerate())
        self._signal_baseline = processes.signal_handlers()
        self._table.end(self._slot)
        self._send({"ready": os.getpid(), "time": time.time(), "clock": time.monotonic()})
        return objective

    def _serve(self, objective: Objective) -> None:
        lines = Lines()
        while data := self._link.recv(2**16):
            for body in lines.feed(data):
                if self._run(objective, trial_from_json(body)):
                    return

    def _run(self, objective: Objective, trial: Trial) -> bool:
        """Evaluate one trial and send its outcome; return whether this worker should be replaced."""
        log = self._setup.log(self._slot, trial.number)
        log.redirect(append=trial.attempt > 1)
        self._table.begin(self._slot, trial.number)
        reporter = Reporter(lambda points: self._send({"points": points}))
        outcome = evaluate(objective, replace(trial, reporter=reporter.report))
        if os.getpid() != self._pid:  # a process that the objective forked has returned through it
            self._flush()
            os._exit(0 if outcome.ok else 1)
        while isinstance(attempt(lambda: processes.restore_signals(self._signal_baseline)), Outcome):
            pass  # a handler of the trial has raised an exception meanwhile
        points = reporter.close()
        killed = self._kill_leftovers()
        self._flush()
        if killed:
            log.note(f"killed {killed} process(es) that the trial had left running")
        if not outcome.ok:
            outcome = replace(outcome, output=log.tail())
        self._count += 1
        busy = busy_threads(self._thread_baseline)  # they would run beside the next trial
        reason = f"left the thread {busy[0]!r}" if busy else self._memory_kept()
        if reason:
            log.note(f"the trial {reason}; its worker is replaced")
        log.finish()
        full = outcome.status is Status.DEVICE_MEMORY  # the end of its process gives all of it back
        retire = bool(reason) or full or self._count == self._setup.options.recycle_after
        self._table.end(self._slot)  # before sending, because time that the coordinator is busy must not count
        self._send_outcome(trial.number, outcome, points, retire, reason)
        if busy:
            os._exit(0)  # without cleanup: a thread of the trial still runs
        os.chdir(self._home)
        if self._setup.options.resources.shares:
            attempt(_give_back)
        return retire

    def _memory_kept(self) -> str:
        """Return what to say if this process holds memory that would count for the next trial; empty if it does not."""
        limit = self._setup.options.memory_limit
        if limit is None or processes.used_bytes([os.getpid()], limit // 2) <= limit // 2:
            return ""
        return f"kept more than half of trial_memory, {size(limit)}"

    def _kill_leftovers(self) -> int:
        """Kill the processes that the trial has left, including adopted orphans; return how many."""
        killed: set[int] = set()
        deadline = time.monotonic() + _LEFTOVER_SECONDS
        while time.monotonic() < deadline:
            left = set(processes.descendants(os.getpid())) - self._process_baseline - _standard_helpers()
            if not left:
                break
            for pid in left:
                if not _reap(pid):
                    processes.kill(pid)
                    killed.add(pid)
            time.sleep(0.001)
        return len(killed)

    def _send_outcome(self, number: int, outcome: Outcome, points: list[Point], retire: bool, reason: str) -> None:
        body = {"number": number, "points": points, "retire": retire, "reason": reason}
        frame = encode({**body, "outcome": to_json(outcome)})
        if len(frame) > RESULT_BYTES:
            error = f"the result has {len(frame)} bytes as JSON, more than {RESULT_BYTES}; store large data in files"
            outcome = replace(outcome, status=Status.BAD_RESULT, loss=None, error=error, info={})
            frame = encode({**body, "outcome": to_json(outcome)})
        self._send_frame(frame)

    def _send(self, body: dict[str, Any]) -> None:
        self._send_frame(encode(body))

    def _send_frame(self, frame: bytes) -> None:
        """Send bytes to the coordinator; end this process if that fails.

        A process that the objective forked sends nothing: its bytes would mix with those of the worker.
        """
        if os.getpid() != self._pid:
            return
        try:
            # an objective that closed all descriptors may have opened a file under the number of the socket
            if _identity(self._link.fileno()) == self._identity:
                self._link.sendall(frame)
                return
        except OSError:
            pass
        os._exit(BROKEN)

    def _open_streams(self) -> None:
        """Open new text streams on descriptors 1 and 2, buffered by line so that a kill loses little."""
        sys.stdout, sys.stderr = (
            open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            for fd in (1, 2)
        )
        self._own = (sys.stdout, sys.stderr)

    def _flush(self) -> None:
        """Flush the streams, and restore them if the objective has changed them."""
        try:
            for stream in self._own:
                stream.flush()
        except (ValueError, OSError):  # closed by the objective, or the disk is full
            self._open_streams()
        sys.stdout, sys.stderr = self._own


def _give_back() -> None:
    """Let other processes have the device memory that PyTorch keeps for later."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()
        torch.cuda.empty_cache()


def busy_threads(before: set[threading.Thread]) -> list[str]:
    """Return the names of the threads that were started since and that could work beside the next trial."""
    frames = sys._current_frames()
    left = [thread for thread in threading.enumerate() if thread not in before]
    return sorted(thread.name for thread in left if not _is_idle(thread, frames.get(thread.ident or 0)))


def _is_idle(thread: threading.Thread, frame: FrameType | None) -> bool:
    """Whether a thread is tqdm's monitor, which every progress bar starts, or waits in a pool that has no work."""
    if type(thread).__module__ == "tqdm._monitor":
        return True
    if frame is None or frame.f_code is not _POOL_THREAD:
        return False
    queue = frame.f_locals.get("work_queue")
    return queue is not None and queue.empty()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _reap(pid: int) -> bool:
    """Whether a child of this process has ended; if so, remove it from the process table."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def _standard_helpers() -> set[int]:
    """Return the processes that Python's multiprocessing keeps; it warns when they disappear."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    return {pid for pid in [getattr(tracker, "_pid", None)] if pid is not None}
