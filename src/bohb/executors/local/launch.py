"""Starting the guard of a LocalExecutor, and waiting for its end."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from typing import IO

import cloudpickle

from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.executors.local import guard, processes
from bohb.executors.local.setup import Setup, command


@dataclass(slots=True)
class GuardProcess:
    """A running guard: its socket and how to wait for it."""

    link: socket.socket
    pid: int
    process: subprocess.Popen[bytes] | None  # None if it was forked

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        if self.process is not None:
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                return False
            return True
        deadline = time.monotonic() + seconds
        while not _ended(self.pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def stop(self, seconds: float) -> None:
        """Wait, then kill it: its workers die with it where the system can do that."""
        self.link.close()
        if not self.wait(seconds):
            processes.kill(self.pid)
            self.wait(1.0)


def pickled(objective: Objective) -> IO[bytes]:
    """A nameless file with the objective, by value where it cannot be imported: lambdas, closures, notebooks."""
    name = getattr(objective, "__qualname__", None) or type(objective).__name__
    try:
        data = cloudpickle.dumps(objective)
    except Exception as error:  # the objective's own __reduce__ may raise anything
        raise InvalidArgument(
            f"the objective {name!r} cannot be sent to a worker process ({type(error).__name__}: {error}); "
            "it refers to something that cannot be pickled, such as an open file, a lock or a connection: "
            "create that inside the objective, or define it at the top level of a module that workers can import"
        ) from error
    try:
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it lives as long as the executor
        file.write(data)
    except OSError as error:
        raise InvalidArgument(f"the objective {name!r} has {len(data)} bytes that cannot be stored: {error}") from error
    return file


def launch(setup: Setup, objective: Objective, payload: IO[bytes] | None) -> GuardProcess:
    """Start a guard."""
    ours, theirs = socket.socketpair()
    if payload is None:
        return GuardProcess(ours, _fork(setup, objective, theirs), None)
    setup = replace(setup, payload=payload.fileno())
    with theirs:
        process = subprocess.Popen(
            command("bohb.executors.local.guard", setup, link=theirs.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # its errors go where ours go; it prints nothing else
            pass_fds=(theirs.fileno(), payload.fileno()),
            start_new_session=True,  # Ctrl-C is for the coordinator
            env={**os.environ, processes.MARKER: setup.token},
        )
    return GuardProcess(ours, process.pid, process)


def _fork(setup: Setup, objective: Objective, link: socket.socket) -> int:
    """A guard that has inherited this process, objective and imported modules included (start method 'fork')."""
    pid = os.fork()
    if pid:
        link.close()
        return pid
    try:
        os.setsid()
        atexit._clear()  # those are the coordinator's
        os.environ[processes.MARKER] = setup.token
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        processes.blank_descriptors(keep={link.fileno()})
        guard.stand(link, setup, objective)
    finally:
        os._exit(1)


def _ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else has collected it
        return True
