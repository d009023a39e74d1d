"""Processes of the operating system: their descendants, memory and signals, and how to kill all of them."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

import psutil  # type: ignore[import-untyped]

MARKER = "BOHB_EXECUTOR"  # environment variable that all processes of an executor have

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHILDREN_FILES = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # on most Linux kernels


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies (Linux), even of one that called setsid."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have this process killed when its parent dies (Linux), so that workers cannot outlive the guard."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)


def children(pid: int) -> list[int]:
    """Return the direct children of a process, including zombies."""
    if not _CHILDREN_FILES:
        try:
            return [child.pid for child in psutil.Process(pid).children()]
        except psutil.Error:
            return []
    found: list[int] = []
    try:
        # psutil would read all of /proc, which has thousands of entries on a shared machine
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass  # it has ended
    return found


def descendants(pid: int) -> list[int]:
    """Return children, their children and so on, parents first."""
    found = children(pid)
    for child in found:  # the list grows during the loop
        found.extend(children(child))
    return found


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the total resident memory of these processes, ignoring those that have ended."""
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.Error:
            continue
    return total


def used_bytes(pids: Collection[int], limit: int) -> int:
    """Return the memory of these processes; on Linux, pages that they share count once if that matters for the limit.

    Counting them once takes about 12 ms per gigabyte.
    """
    resident = resident_bytes(pids)
    if resident <= limit:
        return resident
    proportional = 0
    for pid in pids:
        try:
            proportional += psutil.Process(pid).memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, AttributeError):  # only Linux knows it
            return resident
    return proportional


def kill(pid: int) -> None:
    """Send SIGKILL to a process that may have ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def kill_tree(pid: int) -> None:
    """Send SIGKILL to a process, to the process group that it leads and to all descendants."""
    family = descendants(pid)
    with suppress(ProcessLookupError, PermissionError):  # it leads no group; on macOS, EPERM for a zombie
        os.killpg(pid, signal.SIGKILL)
    for member in (pid, *family):
        kill(member)


def kill_marked(token: str) -> None:
    """Send SIGKILL to every other process of the executor `token`, wherever it is in the process tree."""
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARKER) == token:
                process.kill()
        except (psutil.Error, OSError):
            continue  # it has ended, or its environment cannot be read


def new_token() -> str:
    """Return a unique name of an executor of this process, by which `kill_abandoned` can tell whether it still runs."""
    return "-".join([_namespace(), str(os.getpid()), _start_time(os.getpid()), uuid.uuid4().hex])


def kill_abandoned() -> None:
    """Kill the processes of executors whose process has ended, if their guard was killed as well (Linux).

    Processes of another process namespace, such as another container, are left alone.
    """
    if sys.platform != "linux":
        return
    for name in os.listdir("/proc"):
        token = _token_of(name) if name.isdecimal() else None
        if token is None or token.count("-") != 3:
            continue
        namespace, parent, started, _ = token.split("-")
        if namespace == _namespace() and _start_time(int(parent)) != started:
            kill(int(name))


def _token_of(pid: str) -> str | None:
    """Return the executor that a process belongs to, by its environment."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:  # it has ended, or belongs to somebody else
        return None
    start = f"{MARKER}=".encode()
    return next((entry[len(start) :].decode() for entry in entries if entry.startswith(start)), None)


def _namespace() -> str:
    """Return the process namespace, in which process ids are unique; empty if there is none."""
    try:
        return os.readlink("/proc/self/ns/pid").translate({ord(c): None for c in "-:[]"})
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Return when a process was started, which tells it from a later one with the same id; empty if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def oom_kills() -> int:
    """Return the number of OOM kills since boot; 0 if unavailable."""
    try:
        with open("/proc/vmstat", "rb") as file:
            return next((int(line.split()[1]) for line in file if line.startswith(b"oom_kill ")), 0)
    except OSError:
        return 0


def blank_descriptors(keep: Collection[int]) -> None:
    """Redirect every inherited descriptor to /dev/null, except the standard ones and those in `keep`.

    They are not closed, because objects copied from the forking process still hold their numbers: a database connection
    that is garbage collected here must not write into a file that was opened later under the same number.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        if descriptor <= 2 or descriptor == null or descriptor in keep:
            continue
        try:
            os.fstat(descriptor)
        except OSError:
            continue  # the descriptor that listed the directory
        os.dup2(null, descriptor, inheritable=False)
    os.close(null)


def uses_cuda() -> bool:
    """Whether this process has initialised CUDA: then it has opened the device of its memory manager (Linux)."""
    with suppress(OSError):
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the descriptor that listed the directory
                if os.path.basename(os.readlink(f"/proc/self/fd/{name}")).startswith("nvidia-uvm"):
                    return True
    return False


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def signal_handlers() -> dict[int, Any]:
    """Return the current handlers of all signals; None for one that was not installed by Python."""
    return {number: signal.getsignal(number) for number in signal.valid_signals()}


def restore_signals(handlers: Mapping[int, Any]) -> None:
    """Cancel the timers that a trial has left, and restore the signal handlers and the mask that it has changed.

    Otherwise the timer of one trial would kill a later one.
    """
    for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):  # alarm() uses the first
        signal.setitimer(timer, 0)
    faulthandler.cancel_dump_traceback_later()
    for number, handler in handlers.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def default_signals() -> None:
    """Reset the signal handlers and the mask inherited by forking; ignore SIGINT, which the coordinator handles."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) not in (signal.SIG_DFL, None):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python does
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
