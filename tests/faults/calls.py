"""Every call of this process to the file system below one directory, counted; one of them fails or kills the process.

Python's own calls go through replaced functions of `os`; files opened with `open` use the pure Python implementation,
which calls them. Those of SQLite go through the VFS of `failing_disk`, and are of kinds of their own.
"""

from __future__ import annotations

import _pyio  # type: ignore[import-not-found]
import builtins
import errno
import fcntl
import io
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.failing_disk import failing_disk

# What can happen to a call of each kind: an error, a part of the data is written, or the process dies before the call
# ("kill") or after a part of the data ("torn").
HOW = {
    "open": ("EACCES", "EIO", "ENOSPC", "kill"),
    "read": ("EIO", "kill"),
    "write": ("EIO", "ENOSPC", "short", "kill", "torn"),
    "fsync": ("EIO", "ENOSPC", "kill"),
    "rename": ("EIO", "EACCES", "ENOSPC", "kill"),
    "unlink": ("EIO", "EACCES", "kill"),
    "mkdir": ("EACCES", "ENOSPC", "kill"),
    "list": ("EIO", "EACCES", "kill"),
    "lock": ("EIO", "kill"),
    "change": ("EIO", "EACCES", "kill"),
    "database open": ("EACCES", "kill"),
    "database read": ("EIO", "kill"),
    "database write": ("EIO", "ENOSPC", "kill", "torn"),
    "database sync": ("EIO", "kill"),
    "database truncate": ("EIO", "kill"),
    "database delete": ("EIO", "kill"),
}
_BY_PATH = {
    "rename": "rename", "replace": "rename", "link": "rename", "symlink": "rename", "unlink": "unlink",
    "remove": "unlink", "rmdir": "unlink", "mkdir": "mkdir", "listdir": "list", "scandir": "list", "truncate": "change",
    "chmod": "change", "utime": "change",
}  # fmt: skip
_BY_HANDLE = {"read": "read", "readinto": "read", "fsync": "fsync", "ftruncate": "change"}


class Fault(NamedTuple):
    """What happens to the n-th call of a kind, counted from 1."""

    kind: str
    how: str
    n: int


class Calls:
    """Counts the calls below `root`, and lets one of them fail.

    seen: how many calls of each kind there were.
    met: whether the fault has happened.
    """

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self._root = str(root)
        self._fault = fault
        self._handles: set[int] = set()
        self._paused = False
        self.seen: Counter[str] = Counter()
        self.met = False

    def make(self, kind: str, torn: Callable[[], Any] = lambda: None) -> str:
        """Count a call, and return "" or, if only a part of it is to be done, "short". Raises OSError for an error.

        torn: does a part of the call.
        """
        self.seen[kind] += 1
        if self._fault is None or (kind, self.seen[kind]) != (self._fault.kind, self._fault.n):
            return ""
        self.met = True
        how = self._fault.how
        if how in ("kill", "torn"):
            if how == "torn":
                torn()
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "short":
            return how
        code: int = getattr(errno, how)
        raise OSError(code, os.strerror(code))

    def concerns(self, path: object) -> bool:
        """Whether a path or an open file lies below the directory."""
        if self._paused:
            return False
        if isinstance(path, int):
            return path in self._handles
        return isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._root)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let calls pass uncounted: they are those of an objective."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Count the calls of this process. Nothing is restored: it is to end soon."""
        for name, kind in _BY_PATH.items():
            setattr(os, name, self._by_path(getattr(os, name), kind))
        for name, kind in _BY_HANDLE.items():
            if hasattr(os, name):
                setattr(os, name, self._by_path(getattr(os, name), kind))
        os.open = self._opening(os.open)
        os.close = self._closing(os.close)  # type: ignore[assignment]
        os.write = self._writing(os.write)
        fcntl.flock = self._by_path(fcntl.flock, "lock")
        builtins.open = io.open = _pyio.open
        shutil._USE_CP_SENDFILE = False  # type: ignore[attr-defined]
        with failing_disk() as disk:
            disk.calls = self
            yield

    def _by_path(self, real: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(path: Any = ".", *arguments: Any, **keywords: Any) -> Any:
            if self.concerns(path) or self.concerns(keywords.get("dir_fd")):
                self.make(kind)
            return real(path, *arguments, **keywords)

        return call

    def _opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, *arguments: Any, **keywords: Any) -> int:
            ours = self.concerns(path) or self.concerns(keywords.get("dir_fd"))
            if ours:
                self.make("open")
            handle = real(path, *arguments, **keywords)
            if ours:
                self._handles.add(handle)
            return handle

        return call

    def _closing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(handle: int) -> None:
            self._handles.discard(handle)
            real(handle)

        return call

    def _writing(self, real: Callable[[int, Any], int]) -> Callable[[int, Any], int]:
        def call(handle: int, data: Any) -> int:
            half = bytes(data)[: len(data) // 2]
            if self.concerns(handle) and self.make("write", lambda: real(handle, half)) == "short":
                return real(handle, half)
            return real(handle, data)

        return call
