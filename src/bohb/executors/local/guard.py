"""The guard: the parent of all workers of an executor. It enforces their limits and ends them with the coordinator.

A process between coordinator and workers does three things that the coordinator cannot: it forks from a clean state
without threads, it enforces limits while the coordinator is busy, and it outlives a coordinator that was killed just
long enough to kill everything that is left. On Linux it adopts orphans, so that even a grandchild that called setsid
remains its descendant.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any

import psutil  # type: ignore[import-untyped]

from bohb.core.trial import Outcome
from bohb.executors.base import Objective
from bohb.executors.evaluate import attempt
from bohb.executors.local import processes
from bohb.executors.local.wire import IDLE, STARTING, Lines, Setup, SlotTable, command, encode, unpickled
from bohb.executors.local.worker import BUG, Worker

TICK = 0.1  # seconds between two checks of limits and logs
GRACE = 5.0  # seconds that a worker has to end after it was replaced or asked to
_CLOSED_GRACE = 1.0  # seconds between losing a worker's socket and killing it: it is usually about to end anyway
_LAST_SECONDS = 5.0  # for killing everything; a process that survives SIGKILL for so long hangs in the kernel
_QUIT_SECONDS = 1.5  # for the guard to kill everything and end
_KILL_SECONDS = 0.4  # for the guard to end after it was killed


@dataclass(slots=True)
class WorkerRecord:
    """The guard's record of one worker process.

    cause: why the guard killed it.
    memory: bytes that it used when it was killed for that.
    deadline: time at which it is killed unless it has ended, for the reason `deadline_cause`.
    """

    id: int
    slot: int
    pid: int
    born: float
    cause: str | None = None
    memory: int = 0
    next_memory_check: float = 0.0
    deadline: float | None = None
    deadline_cause: str = ""


def main(setup: Setup, link: int) -> None:
    """Run a guard in a fresh interpreter (start methods 'spawn' and 'forkserver')."""
    for descriptor in (link, setup.payload):  # inherited from the coordinator, but not for spawned workers
        os.set_inheritable(descriptor, False)  # type: ignore[arg-type]
    run_guard(socket.socket(fileno=link), setup, None)


def run_guard(link: socket.socket, setup: Setup, objective: Objective | None) -> None:
    """Guard until the coordinator closes `link` or dies, then end this process.

    objective: the inherited one, if this process was forked from the coordinator.
    """
    processes.default_signals()
    # A terminal or a queue that signals all processes must not end the guard before the coordinator.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans()
    refused = preload(setup)
    if refused:
        link.sendall(encode({"refused": refused}))
        os._exit(1)
    gc.freeze()  # forked workers then share these pages, and never collect objects of the coordinator
    guard = Guard(link, setup, objective)
    failed = attempt(guard.run)
    if isinstance(failed, Outcome):
        os.write(2, f"bohb: the guard process failed\n{failed.traceback}".encode())
    guard.end()


def preload(setup: Setup) -> str:
    """Import the modules that workers should start with; return why one of them cannot be, empty if all can.

    A process that has used CUDA, or that has threads, cannot be forked.
    """
    for name in setup.options.preload:
        signal.signal(signal.SIGALRM, _too_slow)
        signal.setitimer(signal.ITIMER_REAL, setup.options.start_seconds or 0)
        failed = attempt(lambda name=name: importlib.import_module(name))  # type: ignore[misc]
        signal.setitimer(signal.ITIMER_REAL, 0)
        threads = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        what = ""
        if isinstance(failed, Outcome):
            what = f"cannot be imported: {failed.error}"
        elif processes.uses_cuda():
            what = "uses CUDA while it is imported"
        elif threads:
            what = f"starts the thread {threads[0]!r} while it is imported"
        if what:
            return f"preload={list(setup.options.preload)}: the module {name!r} {what}; leave it out of preload"
    return ""


def _too_slow(*_: object) -> None:
    raise TimeoutError("it took longer than start_seconds")


class Guard:
    """An event loop over messages of the coordinator, exits of workers, and limits."""

    def __init__(self, link: socket.socket, setup: Setup, objective: Objective | None) -> None:
        self._link, self._setup, self._objective = link, setup, objective
        self._lines, self._descriptors = Lines(), list[int]()
        self._workers: dict[int, WorkerRecord] = {}  # by process id
        self._draining = False
        self._oom_kills = processes.oom_kills()
        with tempfile.TemporaryFile(buffering=0) as file:
            self._table = SlotTable(file.fileno(), setup.slots)
            self._table_descriptor = os.dup(file.fileno())
        self._wakeup, self._wakeup_sender = socket.socketpair()
        self._wakeup.setblocking(False)
        self._wakeup_sender.setblocking(False)
        signal.set_wakeup_fd(self._wakeup_sender.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler is needed for the wake-up

    def run(self) -> None:
        """Run until the coordinator is gone, or all workers have ended after a drain."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._link, selectors.EVENT_READ, "link")
            selector.register(self._wakeup, selectors.EVENT_READ, "wakeup")
            if sys.platform == "linux":  # the coordinator may die while a process that it forked keeps our socket open
                with suppress(OSError):
                    selector.register(os.pidfd_open(self._setup.parent), selectors.EVENT_READ, "parent")
            tick = time.monotonic()
            while not (self._draining and not self._workers):
                sources = {key.data for key, _ in selector.select(TICK if self._workers else None)}
                if "parent" in sources or ("link" in sources and not self._receive()):
                    return
                if "wakeup" in sources:
                    self._wakeup.recv(4096)
                self._report_exits()
                if time.monotonic() - tick >= TICK:
                    self._enforce_limits()
                    tick = time.monotonic()

    def end(self) -> None:
        """Kill all descendants, remove temporary files and end this process."""
        deadline = time.monotonic() + _LAST_SECONDS
        while (left := processes.children(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                processes.kill_tree(pid)
            time.sleep(0.001)
            self._reap()
        if sys.platform != "linux":  # orphans were not adopted there
            processes.kill_marked(self._setup.token)
        if not self._setup.keep_logs:
            shutil.rmtree(self._setup.log_dir, ignore_errors=True)
        os._exit(0)

    def _receive(self) -> bool:
        """Handle messages of the coordinator; return False when it has closed the socket."""
        try:
            data, ancillary, _, _ = self._link.recvmsg(2**16, socket.CMSG_SPACE(64 * 4))
        except OSError:
            return False
        for _, _, packed in ancillary:
            self._descriptors.extend(array.array("i", packed[: len(packed) // 4 * 4]))
        for descriptor in self._descriptors:
            os.set_inheritable(descriptor, False)  # a spawned worker inherits only its own
        for message in self._lines.feed(data):
            match message["do"]:
                case "start":
                    self._start(message, self._descriptors.pop(0))
                case "closed":
                    closed = [worker for worker in self._workers.values() if worker.id == message["id"]]
                    _set_deadline(closed, _CLOSED_GRACE, "closed")
                case "drain":
                    self._draining = True
                    _set_deadline(self._workers.values(), GRACE, "drain")
        return bool(data)

    def _start(self, message: dict[str, Any], link: int) -> None:
        slot = message["slot"]
        replaced = [worker for worker in self._workers.values() if worker.slot == slot]
        _set_deadline(replaced, GRACE, "replaced")  # they have sent their last result
        self._table.end(slot, STARTING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python 3.12 warns of numpy's threads, which are safe to fork
                pid = os.fork()
        except OSError as error:
            self._send({"id": message["id"], "pid": 0, "code": BUG, "cause": f"cannot be started: {error}"})
            os.close(link)
            return
        if pid == 0:
            self._become_worker(message, link)
        os.close(link)
        self._workers[pid] = WorkerRecord(message["id"], slot, pid, time.monotonic())

    def _become_worker(self, message: dict[str, Any], link: int) -> None:
        """Run a worker in a forked process, and end it."""
        guard = os.getppid()
        os.setsid()
        failed = attempt(lambda: self._work(message, link, guard))
        if isinstance(failed, Outcome):
            os.write(2, f"bohb: a worker process failed\n{failed.traceback}".encode())
        os._exit(BUG)

    def _work(self, message: dict[str, Any], link: int, guard: int) -> None:
        processes.default_signals()
        os.environ.update(message["env"])
        setup, table, payload = self._setup, self._table_descriptor, self._setup.payload
        if setup.options.start_method == "spawn":
            for descriptor in (link, table, payload):
                os.set_inheritable(descriptor, True)  # type: ignore[arg-type]
            numbers = {"link": link, "table": table, "slot": message["slot"], "guard": guard}
            words = command("bohb.executors.local.worker", setup, **numbers)
            os.execv(words[0], words)
        processes.die_with_parent(guard)
        processes.blank_descriptors(keep={link} if payload is None else {link, payload})
        objective = self._objective
        worker = Worker(socket.socket(fileno=link), self._table, message["slot"], setup)
        worker.live(lambda: unpickled(payload) if payload is not None else objective)  # type: ignore[arg-type,return-value]

    def _report_exits(self) -> None:
        """Tell the coordinator which workers have ended, after killing the processes that they have left."""
        for pid, code in self._reap():
            worker = self._workers.pop(pid, None)
            if worker is None:
                continue  # an adopted orphan
            self._kill_orphans()
            oom_kills = processes.oom_kills()
            oom, self._oom_kills = oom_kills > self._oom_kills, oom_kills
            cause = worker.cause if code == -signal.SIGKILL else None  # otherwise it ended before it was killed
            self._send({"id": worker.id, "pid": pid, "code": code, "cause": cause, "memory": worker.memory, "oom": oom})

    def _reap(self) -> list[tuple[int, int]]:
        """Return the processes that have ended and their exit codes, which are negative for a signal."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            ended.append((pid, os.waitstatus_to_exitcode(status)))

    def _kill_orphans(self) -> None:
        """Kill what dead workers have left: on Linux, all our children that are not workers."""
        for pid in processes.children(os.getpid()):
            if pid not in self._workers:
                processes.kill_tree(pid)

    def _enforce_limits(self) -> None:
        """Kill workers that exceed their limits, and shorten logs that exceed theirs."""
        self._kill_orphans()
        now, options = time.monotonic(), self._setup.options
        for worker in list(self._workers.values()):
            if worker.deadline is not None:
                self._limit_seconds(worker, now, worker.deadline, worker.deadline_cause)
                continue
            since, number = self._table.read(worker.slot)
            if since == STARTING:
                self._limit_seconds(worker, now - worker.born, options.start_seconds, "start")
            elif since != IDLE:
                self._limit_seconds(worker, now - since, options.trial_seconds, "timeout")
                self._limit_memory(worker, options.memory_limit)
                self._setup.log(worker.slot, number).shorten()

    def _limit_seconds(self, worker: WorkerRecord, seconds: float, limit: float | None, cause: str) -> None:
        if limit is not None and seconds > limit:
            worker.cause = cause
            processes.kill_tree(worker.pid)

    def _limit_memory(self, worker: WorkerRecord, limit: int | None) -> None:
        if limit is None:
            return
        began = time.monotonic()
        if began < worker.next_memory_check:
            return
        used = processes.used_bytes([worker.pid, *processes.descendants(worker.pid)], limit)
        worker.next_memory_check = began + 10 * (time.monotonic() - began)  # at most a tenth of the guard's time
        if used > limit:
            worker.cause, worker.memory = "memory", used
            processes.kill_tree(worker.pid)

    def _send(self, body: dict[str, Any]) -> None:
        with suppress(OSError):  # the coordinator is gone; the loop will notice
            self._link.sendall(encode(body))


def _set_deadline(workers: Iterable[WorkerRecord], grace: float, cause: str) -> None:
    """Have these workers killed if they have not ended in `grace` seconds; an earlier deadline stays."""
    for worker in workers:
        if worker.deadline is None:
            worker.deadline, worker.deadline_cause = time.monotonic() + grace, cause


@dataclass(frozen=True, slots=True)
class GuardProcess:
    """A running guard, as the coordinator sees it, and the socket to it."""

    link: socket.socket
    process: psutil.Process

    def stop(self, grace: float = 0.0) -> None:
        """Wait for its end: at first of its own accord, then after it was told, at last after it was killed.

        On Linux, its workers die with it.
        """
        if not self._ended(grace):
            with suppress(OSError):  # it is dead
                self.link.shutdown(socket.SHUT_RDWR)  # closing is not enough if a forked process has a copy
            if not self._ended(_QUIT_SECONDS):
                processes.kill(self.process.pid)
                self._ended(_KILL_SECONDS)
        self.link.close()

    def _ended(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except psutil.TimeoutExpired:
            return False
        return True


def launch(setup: Setup, objective: Objective, payload: IO[bytes] | None) -> GuardProcess:
    """Start a guard; without a payload, by forking this process. First, clean up after guards that were killed."""
    processes.kill_abandoned()
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            if payload is None:
                return GuardProcess(ours, psutil.Process(_fork(setup, objective, theirs)))
            process = psutil.Popen(
                command("bohb.executors.local.guard", replace(setup, payload=payload.fileno()), link=theirs.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # it prints nothing; its errors go to our stderr
                pass_fds=(theirs.fileno(), payload.fileno()),
                start_new_session=True,  # Ctrl-C is for the coordinator
                env={**os.environ, processes.MARKER: setup.token},
            )
    except OSError:
        ours.close()
        raise
    return GuardProcess(ours, process)


def _fork(setup: Setup, objective: Objective, link: socket.socket) -> int:
    """Fork a guard that inherits the objective and all imported modules (start method 'fork')."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        atexit._clear()  # these functions belong to the coordinator
        os.environ[processes.MARKER] = setup.token
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        processes.blank_descriptors(keep={link.fileno()})
        run_guard(link, setup, objective)
    finally:
        os._exit(1)
