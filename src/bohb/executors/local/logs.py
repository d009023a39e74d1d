"""What trials print: one bounded file per trial, written by the processes themselves at the level of descriptors.

A file rather than a pipe: nobody has to read it for the trial to go on, C code and grandchildren are in it, it can be
followed while the trial runs, and it is still there after a kill. Its price is that a flood may exceed the limit until
the guard's next look, a tenth of a second later.
"""

from __future__ import annotations

import os
from pathlib import Path

from bohb.executors.local.setup import Setup

OUTPUT_CHARACTERS = 2_000  # what an Outcome keeps
CUT = b"\n[bohb: the middle of this output was dropped, it exceeded log_bytes]\n"


def trial_log(setup: Setup, slot: int, number: int) -> str:
    """Where trial `number` prints to: a file of its own if logs are kept, else the worker's, used again and again.

    Creating and removing a file takes longer than all the rest of a trial that does nothing.
    """
    return f"{setup.log_dir}/{number}.log" if setup.keep_logs else worker_log(setup, slot)


def worker_log(setup: Setup, slot: int) -> str:
    """Where a worker prints to while it loads the objective."""
    return f"{setup.log_dir}/worker-{slot}.log"


def redirect(path: str, append: bool = False) -> None:
    """Send descriptors 1 and 2 of this process to a file; to nowhere if it cannot be opened.

    A full disk under the logs is no reason to fail a trial.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC)
    try:
        descriptor = os.open(path, flags, 0o644)
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        if descriptor != standard:
            os.dup2(descriptor, standard)
    if descriptor > 2:
        os.close(descriptor)
    else:  # the objective had closed this one
        os.set_inheritable(descriptor, True)


def squeeze(path: str, limit: int) -> None:
    """Cut the middle out of a log that exceeds `limit` bytes; keep its first quarter and its last half.

    The writers append, so they go on writing after what is left; the rest of the limit is room until the next look.
    """
    try:
        if os.stat(path).st_size <= limit:
            return
        with open(path, "r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            tail = os.pread(file.fileno(), limit // 2, size - limit // 2)
            file.truncate(limit // 4)
        with open(path, "ab", buffering=0) as file:
            file.write(CUT + tail)
    except OSError:
        return  # it was removed meanwhile, or the disk has a problem that is not the trial's


def note(path: str, text: str) -> None:
    """Add a remark of ours."""
    try:
        with open(path, "ab") as file:
            file.write(text.encode())
    except OSError:
        return


def tail(path: str) -> str | None:
    """The last characters of a log, or None if there is nothing."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - 16 * OUTPUT_CHARACTERS))
            text = file.read(16 * OUTPUT_CHARACTERS).decode("utf-8", "replace")
    except OSError:
        return None
    before, fatal, report = text.rpartition("Fatal Python error: ")
    if fatal:  # the innermost frames come first there, and a list of all extension modules last
        report = report.partition("\n\nExtension modules: ")[0][: OUTPUT_CHARACTERS * 3 // 4]
        text = before[-OUTPUT_CHARACTERS // 5 :] + fatal + report + "\n"
    return text[-OUTPUT_CHARACTERS:] or None


def finish(path: str, setup: Setup) -> None:
    """Leave a log that is kept as it shall stay: within its limit, or gone if it is empty."""
    if not setup.keep_logs:
        return
    try:
        if os.stat(path).st_size > 0:
            squeeze(path, setup.log_bytes)
        else:
            os.unlink(path)
    except OSError:
        return


def prepare(directory: Path) -> str:
    """Make sure that a log directory exists and is written the same way by every process, wherever it stands."""
    directory.mkdir(parents=True, exist_ok=True)
    return str(directory.resolve())
