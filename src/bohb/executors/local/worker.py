"""The process of one slot: loads the objective once, then evaluates trial after trial."""

from __future__ import annotations

import atexit
import faulthandler
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np

from bohb.core.events import outcome_to_json, trial_from_json
from bohb.core.trial import Outcome, Status, Trial
from bohb.executors.base import Objective
from bohb.executors.evaluate import attempt, evaluate
from bohb.executors.local import logs, processes
from bohb.executors.local.curve import Point, Reporter
from bohb.executors.local.setup import Setup, setup_of
from bohb.executors.local.slot_table import Board
from bohb.executors.local.wire import RESULT_BYTES, Lines, encode

BROKEN = 71  # the exit code of a worker that cannot reach its coordinator
BUG = 70  # the exit code of a worker that failed by our own fault
_LEFTOVER_SECONDS = 2.0  # for killing what a trial has left running


def main(arguments: dict[str, Any]) -> None:
    """Entry of a fresh interpreter (start method 'spawn')."""
    setup = setup_of(arguments)
    processes.die_with_parent(arguments["guard"])
    board = Board(arguments["board"], setup.slots)
    os.close(arguments["board"])
    assert setup.payload is not None
    payload = setup.payload
    Worker(socket.socket(fileno=arguments["link"]), board, arguments["slot"], setup).live(lambda: load(payload))


def load(descriptor: int) -> Objective:
    """The objective from the coordinator's file; the only pickle there is, from our own parent to us."""
    data = bytearray()
    while chunk := os.pread(descriptor, 2**24, len(data)):  # the offset is shared with other workers: do not move it
        data += chunk
    os.close(descriptor)
    objective: Objective = cloudpickle.loads(bytes(data))
    return objective


class Worker:
    """Serves one socket until its other end closes.

    link: the private socket to the coordinator.
    """

    def __init__(self, link: socket.socket, board: Board, slot: int, setup: Setup) -> None:
        self._link, self._board, self._slot, self._setup = link, board, slot, setup
        self._identity = _identity(link.fileno())
        link.set_inheritable(False)
        self._home = os.getcwd()
        sys.argv[:] = setup.argv
        self._count = 0
        self._process_baseline: set[int] = set()
        self._thread_baseline = 1
        self._streams = (sys.stdout, sys.stderr)  # kept, for dropping a notebook's streams could run their code

    def live(self, load: Callable[[], Objective]) -> None:
        """Load the objective, evaluate what comes, and end the process."""
        objective = self._start(load)
        if objective is not None:
            self._serve(objective)
        atexit._run_exitfuncs()  # what the objective's libraries registered; a killed worker skips it
        os._exit(0)

    def _start(self, load: Callable[[], Objective]) -> Objective | None:
        log = logs.worker_log(self._setup, self._slot)
        logs.redirect(log)
        self._open_streams()
        faulthandler.disable()  # a forked child believes itself enabled even where a library has put its own handler
        faulthandler.enable(file=2)  # a segmentation fault leaves a traceback in the log
        processes.adopt_orphans()
        random.seed()
        np.random.seed()  # noqa: NPY002 - forked workers would all draw the same numbers from the global state
        objective = attempt(load)
        self._flush()
        if isinstance(objective, Outcome):
            self._send({"failed": outcome_to_json(replace(objective, output=logs.tail(log)))})
            return None
        logs.finish(log, self._setup)
        self._process_baseline = set(processes.descendants(os.getpid()))
        self._thread_baseline = threading.active_count()
        self._board.end(self._slot)
        self._send({"ready": os.getpid(), "time": time.time(), "clock": time.monotonic()})
        return objective

    def _serve(self, objective: Objective) -> None:
        lines = Lines()
        while data := self._link.recv(2**16):
            for body in lines.feed(data):
                if self._run(objective, trial_from_json(body)):
                    return

    def _run(self, objective: Objective, trial: Trial) -> bool:
        """Evaluate one trial and send how it ended; whether this worker should be replaced."""
        log = logs.trial_log(self._setup, self._slot, trial.number)
        logs.redirect(log, append=self._setup.keep_logs and trial.attempt > 1)
        self._board.begin(self._slot, trial.number)
        reporter = Reporter(self._send_points)
        outcome = evaluate(objective, replace(trial, reporter=reporter.report))
        points = reporter.close()
        killed = self._kill_leftovers()
        self._flush()
        if killed:
            logs.note(log, f"[bohb: killed {killed} process(es) that the trial had left running]\n")
        if not outcome.ok:
            outcome = replace(outcome, output=logs.tail(log))
        logs.finish(log, self._setup)
        self._count += 1
        disturbed, retire = self._disturbed(), self._due()
        self._board.end(self._slot)  # before sending: the coordinator may be busy, and that is not the trial's time
        self._send_outcome(trial.number, outcome, points, disturbed or retire)
        if disturbed:
            os._exit(0)  # at once: a thread of the last trial still runs
        os.chdir(self._home)
        return retire

    def _disturbed(self) -> bool:
        """Whether the trial left a thread behind, which would run on beside the next one."""
        return threading.active_count() > self._thread_baseline

    def _due(self) -> bool:
        """Whether this process has served long enough, or holds memory that the next trial would be charged for."""
        limit = self._setup.trial_memory
        if limit is not None and processes.resident_bytes([os.getpid()]) > limit // 2:
            return True
        return self._count == self._setup.recycle_after

    def _kill_leftovers(self) -> int:
        """Kill the processes the trial has left, orphans too, for they were adopted; return how many."""
        if not _has_children():
            return 0
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

    def _send_outcome(self, number: int, outcome: Outcome, points: list[Point], retire: bool) -> None:
        body = {"number": number, "outcome": outcome_to_json(outcome), "points": points, "retire": retire}
        frame = encode(body)
        if len(frame) > RESULT_BYTES:
            error = f"the result has {len(frame)} bytes as JSON, more than {RESULT_BYTES}; keep large things in files"
            body["outcome"] = outcome_to_json(
                replace(outcome, status=Status.BAD_RESULT, loss=None, error=error, info={})
            )
            frame = encode(body)
        self._send_frame(frame)

    def _send_points(self, points: list[Point]) -> None:
        self._send({"points": points})

    def _send(self, body: dict[str, Any]) -> None:
        self._send_frame(encode(body))

    def _send_frame(self, frame: bytes) -> None:
        """Send, or end this process: without its socket it is of no use."""
        try:
            # an objective that closed all descriptors may have opened a file under our number
            if _identity(self._link.fileno()) == self._identity:
                self._link.sendall(frame)
                return
        except OSError:
            pass
        os._exit(BROKEN)

    def _open_streams(self) -> None:
        """Fresh text streams on descriptors 1 and 2; by lines, so that little is lost by a kill."""
        sys.stdout, sys.stderr = (
            open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            for fd in (1, 2)
        )
        self._own = (sys.stdout, sys.stderr)

    def _flush(self) -> None:
        """Bring what was printed to the file, and undo what the objective did to the streams."""
        try:
            for stream in self._own:
                stream.flush()
        except (ValueError, OSError):  # closed by the objective, or the disk is full
            self._open_streams()
        sys.stdout, sys.stderr = self._own


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _has_children() -> bool:
    """Whether there is any child process, dead or alive: one system call, paid after every trial."""
    if sys.platform == "darwin":
        return bool(processes.children(os.getpid()))
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reap(pid: int) -> bool:
    """Whether a child of ours has ended; it leaves the process table by this."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def _standard_helpers() -> set[int]:
    """The processes Python's multiprocessing keeps on purpose; it complains when they vanish."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    return {pid for pid in [getattr(tracker, "_pid", None)] if pid is not None}
