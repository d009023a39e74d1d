"""Pickle the objective, start the guard of a LocalExecutor, and wait for the guard's end."""

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
from bohb.executors.local.shared import Setup, command


@dataclass(slots=True)
class GuardProcess:
    """A running guard and the socket to it.

    process: None if the guard was forked.
    """

    link: socket.socket
    pid: int
    process: subprocess.Popen[bytes] | None

    def stop(self, seconds: float) -> None:
        """Close its socket and wait for its end; kill it after `seconds`. On Linux, its workers die with it."""
        self.link.close()
        if not self._wait(seconds):
            processes.kill(self.pid)
            self._wait(0.4)

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not self._ended():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        return True

    def _ended(self) -> bool:
        if self.process is not None:
            return self.process.poll() is not None
        try:
            return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid
        except ChildProcessError:  # some other code has collected it
            return True


def pickled(objective: Objective) -> IO[bytes]:
    """Return an unnamed file with the objective, by value if it cannot be imported (lambdas, closures, notebooks)."""
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
        file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - it stays open as long as the executor
        file.write(data)
    except OSError as error:
        raise InvalidArgument(
            f"the objective {name!r} takes {len(data)} bytes, which cannot be stored: {error}; "
            "free some space, or set TMPDIR to a directory that has more"
        ) from error
    return file


def launch(setup: Setup, objective: Objective, payload: IO[bytes] | None) -> GuardProcess:
    """Start a guard; without a payload, by forking this process. First, clean up after guards that were killed."""
    processes.kill_abandoned()
    ours, theirs = socket.socketpair()
    try:
        if payload is None:
            return GuardProcess(ours, _fork(setup, objective, theirs), None)
        process = _spawn(replace(setup, payload=payload.fileno()), theirs, payload)
    except OSError:
        ours.close()
        theirs.close()
        raise
    return GuardProcess(ours, process.pid, process)


def _spawn(setup: Setup, link: socket.socket, payload: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a guard in a fresh interpreter (start methods 'spawn' and 'forkserver')."""
    with link:
        return subprocess.Popen(
            command("bohb.executors.local.guard", setup, link=link.fileno()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # it prints nothing; its errors go to our stderr
            pass_fds=(link.fileno(), payload.fileno()),
            start_new_session=True,  # Ctrl-C is for the coordinator
            env={**os.environ, processes.MARKER: setup.token},
        )


def _fork(setup: Setup, objective: Objective, link: socket.socket) -> int:
    """Fork a guard that inherits the objective and all imported modules (start method 'fork')."""
    pid = os.fork()
    if pid:
        link.close()
        return pid
    try:
        os.setsid()
        atexit._clear()  # these functions belong to the coordinator
        os.environ[processes.MARKER] = setup.token
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        processes.blank_descriptors(keep={link.fileno()})
        guard.run_guard(link, setup, objective)
    finally:
        os._exit(1)
