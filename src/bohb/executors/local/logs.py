"""The output of trials: one file of limited size per trial, to which the file descriptors 1 and 2 are redirected.

A file has advantages over a pipe: a trial never blocks because nobody reads it, it includes the output of C code and
grandchildren, it can be followed while the trial runs, and it survives a kill. The disadvantage is that a file may
exceed its limit until the guard's next check, a tenth of a second later.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from bohb.executors.local.shared import Setup

OUTPUT_CHARACTERS = 2_000  # kept in an Outcome
CUT = b"\n[bohb: the middle of this output was dropped, it exceeded log_bytes]\n"


def trial_log(setup: Setup, slot: int, number: int) -> str:
    """Return the file for the output of a trial: its own if logs are kept, otherwise its worker's, which is reused.

    Creating and removing a file would take longer than everything else in a trial that does nothing.
    """
    return f"{setup.log_dir}/{number}.log" if setup.keep_logs else worker_log(setup, slot)


def worker_log(setup: Setup, slot: int) -> str:
    """Return the file for the output of a worker that loads the objective."""
    return f"{setup.log_dir}/worker-{slot}.log"


def redirect(path: str, append: bool = False) -> None:
    """Redirect descriptors 1 and 2 of this process to a file, or to /dev/null if it cannot be opened.

    A full disk must not fail a trial.
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
    else:  # the objective had closed descriptor 1 or 2
        os.set_inheritable(descriptor, True)


def shorten(path: str, limit: int) -> None:
    """Cut the middle out of a log that exceeds `limit` bytes: keep its first `limit / 4` and its last `limit / 2`.

    The writers append, so they continue after the remaining text and have an eighth of the limit left. What they write
    in the moment of the cut may be lost.
    """
    with suppress(OSError):  # the log was removed, or the disk has a problem, which must not fail the trial
        if os.stat(path).st_size <= limit:
            return
        with open(path, "r+b", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            tail = os.pread(file.fileno(), limit // 2, size - limit // 2)
            tail += os.pread(file.fileno(), limit // 8, size)  # written meanwhile
            file.truncate(limit // 4)
        with open(path, "ab", buffering=0) as file:
            file.write(CUT + tail)


def note(path: str, text: str) -> None:
    """Append a line of our own."""
    with suppress(OSError), open(path, "ab") as file:
        file.write(text.encode())


def tail(path: str) -> str | None:
    """Return the last characters of a log, or None if it is empty."""
    try:
        with open(path, "rb") as file:
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


def finish(path: str, setup: Setup) -> None:
    """Shorten a log that is kept to its limit, or remove it if it is empty."""
    if not setup.keep_logs:
        return
    with suppress(OSError):
        if os.stat(path).st_size > 0:
            shorten(path, setup.options.log_bytes)
        else:
            os.unlink(path)


def prepare(directory: Path) -> Path:
    """Create a log directory and return its absolute path."""
    directory.mkdir(parents=True, exist_ok=True)
    return directory.resolve()
