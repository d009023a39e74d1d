"""The directory in which the trials of one runner work: the runner holds a lock on it as long as it lives.

A process number says nothing in another container, so a dead runner is recognised by its lock. The lock is trusted if
its owner runs on the same booted machine, or if the directory is on a local file system and the owner's machine has our
name. Otherwise the directory is left alone: some shared file systems do not pass locks on to other machines.
"""

from __future__ import annotations

import os
import platform
import sys
import uuid
from pathlib import Path

from bohb.errors import JournalError
from bohb.journal.location import require_local
from bohb.running.trees import remove

if sys.platform != "win32":
    import fcntl

LOCK = "lock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class Workplace:
    """The working directories of one runner.

    root: the directory that all runners of a study share.
    """

    def __init__(self, root: Path) -> None:
        for other in root.iterdir() if root.exists() else ():
            if _is_abandoned(other):
                remove(other)
        self._own = root / f"{platform.node()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._lock: int | None = None
        self._made = 0

    def make(self) -> Path:
        """Create a new directory."""
        if self._lock is None:
            self._lock = _claim(self._own)
        path = self._own / str(self._made)
        self._made += 1
        path.mkdir(parents=True)
        return path

    def close(self) -> None:
        """Remove all directories; no trial may be running."""
        remove(self._own)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        try:
            self._own.parent.rmdir()
        except OSError:
            pass  # other runners use it, or it was never created


def _claim(own: Path) -> int:
    """Create a runner's directory and return the lock on it, which ends with the process."""
    own.mkdir(parents=True, exist_ok=True)
    new = own / f"new-{LOCK}"
    handle = os.open(new, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _take(handle)
        os.write(handle, _boot().encode())
        new.rename(own / LOCK)  # under this name it is locked as long as its owner lives
    except OSError:
        pass  # without a lock file the directory is never taken for abandoned
    return handle


def _is_abandoned(path: Path) -> bool:
    """Whether the runner that owned a directory has certainly ended."""
    try:
        handle = os.open(path / LOCK, os.O_RDWR)
    except OSError:
        return False
    try:
        if _can_judge(path, os.read(handle, 100).decode(errors="replace")):
            _take(handle)
            return True
        return False
    except OSError:  # its owner lives, or locks do not work here
        return False
    finally:
        os.close(handle)


def _can_judge(path: Path, boot: str) -> bool:
    """Whether a lock that can be taken proves that its owner has ended."""
    if boot and boot == _boot():
        return True
    machine = path.name.rpartition("-")[0].rpartition("-")[0]
    try:
        require_local(path)
    except JournalError:
        return False
    return machine == platform.node()


def _take(handle: int) -> None:
    if sys.platform == "win32":
        raise OSError("no lock that ends with its process")
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _boot() -> str:
    """Return the identity of this machine since it was booted; the same in all of its containers."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
