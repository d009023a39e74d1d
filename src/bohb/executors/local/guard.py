"""The guard: parent of all workers of an executor, enforcer of their limits, and their end when the coordinator dies.

One process between coordinator and workers gives three things that the coordinator alone cannot: it forks from a state
that is clean and without threads; it holds every trial to its limits while the coordinator is busy with something else;
and it outlives a coordinator that was killed, just long enough to leave nothing behind. On Linux it adopts orphans, so
that even a grandchild that called setsid stays its descendant.
"""

from __future__ import annotations

import array
import gc
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from typing import Any

from bohb.core.trial import Outcome
from bohb.executors.base import Objective
from bohb.executors.evaluate import attempt
from bohb.executors.local import logs, processes
from bohb.executors.local.setup import Setup, command, setup_of
from bohb.executors.local.slot_table import IDLE, STARTING, Board
from bohb.executors.local.wire import Lines, encode
from bohb.executors.local.worker import BUG, Worker, load

TICK = 0.1  # seconds between two looks at limits and logs
GRACE = 5.0  # seconds a worker has to end after it was replaced or told to go
_CLOSED_GRACE = 1.0  # seconds between losing a worker's socket and killing it: usually it is dying anyway
_LAST_SECONDS = 5.0  # for killing everything; what survives SIGKILL that long hangs in the kernel


@dataclass(slots=True)
class Ward:
    """One worker process, as its guard sees it."""

    id: int
    slot: int
    pid: int
    born: float
    cause: str | None = None  # why we killed it
    memory: int = 0  # what it held when that was the cause
    deadline: float | None = None  # when it must be gone by itself
    excuse: str = ""  # why it will be killed then


def main(arguments: dict[str, Any]) -> None:
    """Entry of a fresh interpreter (start methods 'spawn' and 'forkserver')."""
    link, setup = socket.socket(fileno=arguments["link"]), setup_of(arguments)
    for descriptor in (link.fileno(), setup.payload):  # they came through an exec, but shall not pass the next one
        os.set_inheritable(descriptor, False)  # type: ignore[arg-type]
    stand(link, setup, None)


def stand(link: socket.socket, setup: Setup, objective: Objective | None) -> None:
    """Guard until the coordinator closes `link` or dies; ends the process.

    objective: the inherited one, if this process was forked from the coordinator.
    """
    processes.default_signals()
    # It lives exactly as long as the coordinator: a terminal or a queue that signals everybody must not end it first.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    processes.adopt_orphans()
    gc.freeze()  # forked workers then share these pages, and never collect what the coordinator owned
    guard = Guard(link, setup, objective)
    failed = attempt(guard.run)
    if isinstance(failed, Outcome):
        os.write(2, f"bohb: the guard process failed\n{failed.traceback}".encode())
    guard.end()


class Guard:
    """The loop: orders of the coordinator, deaths of workers, limits."""

    def __init__(self, link: socket.socket, setup: Setup, objective: Objective | None) -> None:
        self._link, self._setup, self._objective = link, setup, objective
        self._lines, self._descriptors = Lines(), list[int]()
        self._wards: dict[int, Ward] = {}  # by process
        self._draining = False
        self._oom_kills = processes.oom_kills()
        with tempfile.TemporaryFile(buffering=0) as file:
            self._board = Board(file.fileno(), setup.slots)
            self._board_descriptor = os.dup(file.fileno())
        self._bell, ringer = socket.socketpair()
        self._bell.setblocking(False)
        ringer.setblocking(False)
        self._ringer = ringer
        signal.set_wakeup_fd(ringer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only to be woken

    def run(self) -> None:
        """Until the coordinator is gone or everything has been drained."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._link, selectors.EVENT_READ, "link")
            selector.register(self._bell, selectors.EVENT_READ, "bell")
            self._watch_parent(selector)
            tick = time.monotonic()
            while not (self._draining and not self._wards):
                sources = {key.data for key, _ in selector.select(TICK if self._wards else None)}
                if "parent" in sources or ("link" in sources and not self._obey()):
                    return
                if "bell" in sources:
                    self._bell.recv(4096)
                self._reap()
                if time.monotonic() - tick >= TICK:
                    self._enforce()
                    tick = time.monotonic()

    def end(self) -> None:
        """Leave nothing behind: no process, no temporary file."""
        deadline = time.monotonic() + _LAST_SECONDS
        while (left := processes.children(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                processes.kill_tree(pid)
            time.sleep(0.001)
            self._collect()
        if sys.platform != "linux":  # orphans were not adopted there
            processes.kill_marked(self._setup.token)
        if not self._setup.keep_logs:
            shutil.rmtree(self._setup.log_dir, ignore_errors=True)
        os._exit(0)

    def _watch_parent(self, selector: selectors.BaseSelector) -> None:
        """Notice the coordinator's death even if a child it had forked keeps our socket open (Linux)."""
        if sys.platform == "linux":
            try:
                selector.register(os.pidfd_open(self._setup.parent), selectors.EVENT_READ, "parent")
            except OSError:
                return

    def _obey(self) -> bool:
        """Carry out what the coordinator sent; False when it has closed or says that it is over."""
        try:
            data, ancillary, _, _ = self._link.recvmsg(2**16, socket.CMSG_SPACE(64 * 4))
        except OSError:
            return False
        for _, _, packed in ancillary:
            self._descriptors.extend(array.array("i", packed[: len(packed) // 4 * 4]))
        for descriptor in self._descriptors:
            os.set_inheritable(descriptor, False)  # a spawned worker gets its own only
        for order in self._lines.feed(data):
            match order["do"]:
                case "start":
                    self._start(order, self._descriptors.pop(0))
                case "closed":
                    self._expect_end(order["id"], _CLOSED_GRACE, "closed")
                case "drain":
                    self._draining = True
                    for ward in self._wards.values():
                        self._expect_end(ward.id, GRACE, "drain")
                case "quit":
                    return False
        return bool(data)

    def _expect_end(self, worker: int, grace: float, excuse: str) -> None:
        for ward in self._wards.values():
            if ward.id == worker and ward.deadline is None:
                ward.deadline, ward.excuse = time.monotonic() + grace, excuse

    def _start(self, order: dict[str, Any], link: int) -> None:
        slot = order["slot"]
        for old in self._wards.values():
            if old.slot == slot:  # it has handed in its last result and is on its way out
                self._expect_end(old.id, GRACE, "replaced")
        self._board.end(slot, STARTING)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python 3.12 counts numpy's threads, which survive a fork by design
                pid = os.fork()
        except OSError as error:
            self._send({"id": order["id"], "pid": 0, "code": BUG, "cause": f"cannot be started: {error}"})
            os.close(link)
            return
        if pid == 0:
            self._become_worker(order, link)
        os.close(link)
        self._wards[pid] = Ward(order["id"], slot, pid, time.monotonic())

    def _become_worker(self, order: dict[str, Any], link: int) -> None:
        """The rest of a forked process's life."""
        guard = os.getppid()
        os.setsid()
        failed = attempt(lambda: self._work(order, link, guard))
        if isinstance(failed, Outcome):
            os.write(2, f"bohb: a worker process failed\n{failed.traceback}".encode())
        os._exit(BUG)

    def _work(self, order: dict[str, Any], link: int, guard: int) -> None:
        processes.default_signals()
        os.environ.update(order["env"])
        setup, board, payload = self._setup, self._board_descriptor, self._setup.payload
        if setup.start_method == "spawn":
            for descriptor in (link, board, payload):
                os.set_inheritable(descriptor, True)  # type: ignore[arg-type]
            words = command(
                "bohb.executors.local.worker", setup, link=link, board=board, slot=order["slot"], guard=guard
            )
            os.execv(words[0], words)
        processes.die_with_parent(guard)
        processes.blank_descriptors(keep={link} if payload is None else {link, payload})
        objective = self._objective
        worker = Worker(socket.socket(fileno=link), self._board, order["slot"], setup)
        worker.live(lambda: load(payload) if payload is not None else objective)  # type: ignore[arg-type,return-value]

    def _reap(self) -> None:
        """Report the workers that have ended, after killing what they have left."""
        for pid, code in self._collect():
            ward = self._wards.pop(pid, None)
            if ward is None:
                continue  # an orphan
            self._sweep()
            oom_kills = processes.oom_kills()
            oom, self._oom_kills = oom_kills > self._oom_kills, oom_kills
            cause = ward.cause if code == -signal.SIGKILL else None  # otherwise it ended before we killed it
            self._send(
                {"id": ward.id, "pid": pid, "code": code, "cause": cause, "memory": ward.memory, "oom": oom},
            )

    def _collect(self) -> list[tuple[int, int]]:
        """The processes that ended, and their exit codes (negative: by which signal)."""
        ended: list[tuple[int, int]] = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return ended
            if pid == 0:
                return ended
            ended.append((pid, os.waitstatus_to_exitcode(status)))

    def _sweep(self) -> None:
        """Kill the orphans of dead workers: on Linux they are our children now, and we have no others."""
        for pid in processes.children(os.getpid()):
            if pid not in self._wards:
                processes.kill_tree(pid)

    def _enforce(self) -> None:
        """Kill what has outlived its limits, and keep the logs within theirs."""
        self._sweep()
        now = time.monotonic()
        for ward in list(self._wards.values()):
            if ward.deadline is not None:
                self._limit_seconds(ward, now, ward.deadline, ward.excuse)
                continue
            since, number = self._board.read(ward.slot)
            if since == STARTING:
                self._limit_seconds(ward, now - ward.born, self._setup.start_seconds, "start")
            elif since != IDLE:
                self._limit_seconds(ward, now - since, self._setup.trial_seconds, "timeout")
                self._limit_memory(ward)
                logs.squeeze(logs.trial_log(self._setup, ward.slot, number), self._setup.log_bytes)

    def _limit_seconds(self, ward: Ward, seconds: float, limit: float | None, cause: str) -> None:
        if limit is not None and seconds > limit:
            ward.cause = cause
            processes.kill_tree(ward.pid)

    def _limit_memory(self, ward: Ward) -> None:
        if self._setup.trial_memory is None:
            return
        used = processes.resident_bytes([ward.pid, *processes.descendants(ward.pid)])
        if used > self._setup.trial_memory:
            ward.cause, ward.memory = "memory", used
            processes.kill_tree(ward.pid)

    def _send(self, body: dict[str, Any]) -> None:
        try:
            self._link.sendall(encode(body))
        except OSError:
            pass  # the coordinator is gone; the loop will notice
