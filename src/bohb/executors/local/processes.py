"""Processes of the operating system: who descends from whom, and how to be sure that nobody is left."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Collection, Iterable

import psutil  # type: ignore[import-untyped]

MARKER = "BOHB_EXECUTOR"  # in the environment of all processes of an executor

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # Linux, unless built without them


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (Linux), even of one that called setsid."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent is (Linux): the guard of the guard."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)


def children(pid: int) -> list[int]:
    """The direct children of a process, zombies included."""
    if not _CHILDREN_FILES:
        return _children_by_psutil(pid)
    found: list[int] = []
    try:
        # reads our own tree only: psutil would read all of /proc, which has thousands of entries on a shared machine
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it ended meanwhile
    return found


def _children_by_psutil(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, parents first."""
    found = children(pid)
    for child in found:  # grows while it is walked
        found.extend(children(child))
    return found


def resident_bytes(pids: Iterable[int]) -> int:
    """The sum of the resident memory of these processes; the dead count nothing."""
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.Error:
            continue
    return total


def kill(pid: int) -> None:
    """SIGKILL, unless it is gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kill_tree(pid: int) -> None:
    """SIGKILL to a process that leads its group, to the group and to all descendants."""
    family = descendants(pid)
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it leads no group; macOS says so with EPERM for zombies
        pass
    for member in (pid, *family):
        kill(member)


def kill_marked(token: str) -> None:
    """SIGKILL to every process of the executor `token`, wherever it hangs in the tree by now; but not to this one."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARKER) == token:
                process.kill()
        except (psutil.Error, OSError):
            continue  # gone, or not ours to look at


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory since boot; 0 where nobody tells."""
    try:
        with open("/proc/vmstat", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except OSError:
        return 0


def blank_descriptors(keep: Collection[int]) -> None:
    """Point every inherited descriptor but these and the standard ones to /dev/null.

    They are not closed, for objects of the forking process may still hold their numbers: a forgotten database
    connection that is collected here must not write into a file opened later under the same number.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        if descriptor <= 2 or descriptor == null or descriptor in keep:
            continue
        try:
            os.fstat(descriptor)
        except OSError:
            continue  # the one that listed the directory
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def default_signals() -> None:
    """Forget the handlers and the mask of the process we were forked from; leave interrupts to the coordinator."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
