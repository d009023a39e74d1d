"""What coordinator, guard and workers share: setup, logs, the pickled objective, messages, and the table of slots."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

import cloudpickle

from bohb.errors import InvalidArgument
from bohb.executors.base import Objective
from bohb.executors.options import TrialOptions

OUTPUT_CHARACTERS = 2_000  # kept in an Outcome
CUT = b"\n[bohb: the middle of this output was dropped, it exceeded log_bytes]\n"


@dataclass(frozen=True, slots=True)
class Log:
    """The output of a trial: a file of limited size, to which the file descriptors 1 and 2 are redirected.

    A file has advantages over a pipe: a trial never blocks because nobody reads it, it includes the output of C code
    and grandchildren, it can be followed while the trial runs, and it survives a kill. The disadvantage is that a file
    may exceed its limit until the guard's next check, a tenth of a second later.

    limit: in bytes.
    kept: whether the user asked for logs.
    """

    path: str
    limit: int
    kept: bool

    def redirect(self, append: bool = False) -> None:
        """Redirect descriptors 1 and 2 of this process to the file, or to /dev/null if it cannot be opened.

        A full disk must not fail a trial.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append and self.kept else os.O_TRUNC)
        try:
            descriptor = os.open(self.path, flags, 0o644)
        except OSError:
            descriptor = os.open(os.devnull, os.O_WRONLY)
        for standard in (1, 2):
            if descriptor != standard:
                os.dup2(descriptor, standard)
        if descriptor > 2:
            os.close(descriptor)
        else:  # the objective had closed descriptor 1 or 2
            os.set_inheritable(descriptor, True)

    def shorten(self) -> None:
        """Cut the middle out of a log that exceeds its limit: keep the first quarter and the last half of the limit.

        The writers append, so they continue after the remaining text and have an eighth of the limit left. The text
        is moved inside the file, so that it stays in order; only what is written between the last two calls is lost,
        and of a flood that outruns the copy, what comes after a thousand rounds.
        """
        start, most = self.limit // 4, self.limit // 2
        with suppress(OSError):  # the log was removed, or the disk has a problem, which must not fail the trial
            if os.stat(self.path).st_size <= self.limit:
                return
            with open(self.path, "r+b", buffering=0) as file:
                descriptor = file.fileno()
                if not _locked(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):  # the guard and the worker may come at once
                    return
                size = os.fstat(descriptor).st_size
                if size <= self.limit:
                    return
                end = start + os.pwrite(descriptor, CUT + os.pread(descriptor, most, size - most), start)
                for _ in range(1000):
                    new = os.pread(descriptor, start // 2, size)  # written meanwhile
                    if not new:
                        break
                    size += len(new)
                    end += os.pwrite(descriptor, new, end)
                    if end > start + most + start // 2:  # more than fits: keep the last half again
                        end = start + os.pwrite(descriptor, CUT + os.pread(descriptor, most, end - most), start)
                os.ftruncate(descriptor, end)

    def note(self, text: str) -> None:
        """Append a line of our own."""
        with suppress(OSError), open(self.path, "ab") as file:
            file.write(f"[bohb: {text}]\n".encode())

    def tail(self) -> str | None:
        """Return the last characters, or None if there are none."""
        try:
            with open(self.path, "rb") as file:
                _locked(file.fileno(), fcntl.LOCK_SH)  # not while the guard moves the text
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - 16 * OUTPUT_CHARACTERS))
                text = file.read(16 * OUTPUT_CHARACTERS).decode("utf-8", "replace")
        except OSError:
            return None
        before, fatal, report = text.rpartition("Fatal Python error: ")
        if fatal:  # faulthandler prints the innermost frames first, and a list of all extension modules last
            report = report.partition("\n\nExtension modules: ")[0][: OUTPUT_CHARACTERS * 3 // 4]
            text = before[-OUTPUT_CHARACTERS // 5 :] + fatal + report + "\n"
        return text[-OUTPUT_CHARACTERS:] or None

    def finish(self) -> None:
        """Shorten a log that is kept to its limit, or remove it if it is empty."""
        with suppress(OSError):
            if self.kept and os.stat(self.path).st_size == 0:
                os.unlink(self.path)
            elif self.kept:
                self.shorten()


def _locked(descriptor: int, operation: int) -> bool:
    """Lock a file, unless its file system has no locks; return False if somebody else has it."""
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@dataclass(frozen=True, slots=True)
class Setup:
    """The settings that the coordinator, the guard and the workers of one LocalExecutor share.

    token: identifies this executor in the environment of its processes.
    parent: process id of the coordinator.
    argv: `sys.argv` of the coordinator.
    log_dir: where workers write their output; a temporary directory if the options name none.
    payload: descriptor of the pickled objective; None if workers inherit it by forking.
    """

    options: TrialOptions
    slots: int
    token: str
    parent: int
    argv: list[str]
    log_dir: str
    payload: int | None = None

    @property
    def keep_logs(self) -> bool:
        """Whether the user asked for logs."""
        return self.options.log_dir is not None

    def log(self, slot: int, number: int | None = None) -> Log:
        """Return the log of a trial, if logs are kept; otherwise that of its worker, which is used again and again.

        Creating and removing a file would take longer than everything else in a trial that does nothing.

        number: the number of the trial; None for a worker that loads the objective.
        """
        name = str(number) if number is not None and self.keep_logs else f"worker-{slot}"
        return Log(f"{self.log_dir}/{name}.log", self.options.log_bytes, self.keep_logs)


def command(module: str, setup: Setup, **arguments: int) -> list[str]:
    """Return the command that calls `main(setup, **arguments)` of a module in a fresh interpreter.

    The interpreter gets the flags and the search path of this one. multiprocessing's spawn would import the user's
    script again, which would then need a `__main__` guard.
    """
    # the private function that multiprocessing uses; it returns -W, -X, -O and similar flags
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    code = (
        f"import sys; sys.path[:] = {list(map(str, sys.path))!r}; import pickle; from {module} import main; "
        f"main(pickle.loads({pickle.dumps(setup)!r}), **{arguments!r})"
    )
    return [sys.executable, *flags, "-c", code]


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


def unpickled(descriptor: int) -> Objective:
    """Return the objective in a file that `pickled` has made."""
    data = bytearray()
    while chunk := os.pread(descriptor, 2**24, len(data)):  # all workers share the offset: do not move it
        data += chunk
    os.close(descriptor)
    objective: Objective = cloudpickle.loads(bytes(data))
    return objective


FRAME_BYTES = 64 * 2**20  # a longer line was not written by `encode`
RESULT_BYTES = 16 * 2**20  # limit on the result of one trial


def encode(body: dict[str, Any]) -> bytes:
    """Return one line. Lone surrogates (file names that are not UTF-8) become '?', which every database accepts."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"


class Lines:
    """Splits a stream of bytes into the messages that were encoded."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Return the messages completed by `data`. Raises ValueError for a line that `encode` did not write."""
        self._buffer += data
        if b"\n" not in data:
            if len(self._buffer) > FRAME_BYTES:
                raise ValueError(f"a line of more than {FRAME_BYTES} bytes")
            return []
        *complete, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        bodies = [json.loads(line) for line in complete]
        if not all(isinstance(body, dict) for body in bodies):
            raise ValueError("a line that is not a JSON object")
        return bodies


STARTING = 0.0
IDLE = -1.0


class SlotTable:
    """One (start time, trial number) pair per slot, in a file that guard and workers map.

    descriptor: an open file, whose size is set here.
    """

    def __init__(self, descriptor: int, slots: int) -> None:
        os.ftruncate(descriptor, 16 * slots)
        self._cells = memoryview(mmap.mmap(descriptor, 16 * slots)).cast("d")

    def begin(self, slot: int, number: int) -> None:
        """Record that a trial starts now, by the monotonic clock that all processes of this machine share."""
        self._cells[2 * slot + 1] = number
        self._cells[2 * slot] = time.monotonic()  # last, because the guard reads the number only after the time

    def end(self, slot: int, since: float = IDLE) -> None:
        """Record that no trial runs: IDLE, or STARTING for a new worker."""
        self._cells[2 * slot] = since

    def read(self, slot: int) -> tuple[float, int]:
        """Return the start time and the number of the running trial; the time is STARTING or IDLE if there is none."""
        return self._cells[2 * slot], int(self._cells[2 * slot + 1])
