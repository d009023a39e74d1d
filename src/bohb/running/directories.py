"""The directories that trials work in, and what objectives leave there: checking, syncing, copying and removing it.

An objective may leave anything in its directory. So nothing here follows a symbolic link, opens a FIFO or a device, or
recurses as deep as the tree.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import platform
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bohb.errors import BohbError, FilesUnavailable, InvalidArgument, JournalError
from bohb.journal.location import require_local

log = logging.getLogger("bohb")

MARKER = "bohb-study"  # the file that says which study a directory of files belongs to
_OURS = ("checkpoints", "confirm", "curves", "logs")  # what a study keeps, overwrites and removes there
_BOOT = Path("/proc/sys/kernel/random/boot_id")
MOST_LEVELS = 100  # of directories inside each other; copying and removing deeper ones fails in many programs
_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a symbolic link",
}
_UNUSABLE = {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ELOOP}  # caused by what was written
_NO_DIRECTORY_SYNC = {errno.EINVAL, errno.ENOTSUP}  # answers of file systems that cannot sync directories
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


class UnusableTree(BohbError):
    """A directory contains something that cannot be copied."""


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Raise an error of the disk as FilesUnavailable, which names the file or its folder."""
    try:
        yield
    except FilesUnavailable:
        raise
    except OSError as error:
        raise FilesUnavailable(
            f"{error.filename or folder} cannot be read or written ({error.strerror}); nothing in the journal is "
            "lost: check the disk and the permissions, then try again"
        ) from error


def claim(files: Path, study: str) -> None:
    """Mark the directory of a study's files; refuse one in which somebody else may want to keep files.

    study: identifies the study (`History.study_key`).
    """
    with usable(files):
        taken = [files / name for name in _OURS if _is_taken(files / name)]  # first: a runner makes the marker before
        owner = (files / MARKER).read_text() if (files / MARKER).exists() else None
        if owner is None and taken:
            raise InvalidArgument(
                f"{taken[0]} is not empty, and no study has made it; a study overwrites and removes files there, so "
                "give another directory=, or another name of the study"
            )
        if owner not in (None, study) and homes(files / "checkpoints"):
            raise InvalidArgument(
                f"{files} holds the checkpoints of another study; "
                "give another directory=, or remove it if that study is gone"
            )
        if owner != study:
            (files / "checkpoints" / "empty").unlink(missing_ok=True)
            mark(files, study)


def mark(files: Path, study: str) -> None:
    """Make the file that says which study a directory of files belongs to."""
    files.mkdir(parents=True, exist_ok=True)
    new = files / f"new-{uuid.uuid4().hex}"
    new.write_text(study)
    new.replace(files / MARKER)


def homes(checkpoints: Path) -> dict[int, Path]:
    """Return the directories of configurations that have a checkpoint."""
    return {
        int(path.name): path
        for path in (checkpoints.iterdir() if checkpoints.exists() else ())
        if path.name.isdecimal() and all(name.startswith("trial-") for name in os.listdir(path))
    }


def _is_taken(path: Path) -> bool:
    return path.is_symlink() or (path.exists() and not (path.is_dir() and next(path.iterdir(), None) is None))


def is_directory(path: Path) -> bool:
    """Whether a path is a directory itself, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def make_durable(root: Path) -> None:
    """Write a tree to the disk, so that it survives a power cut.

    Raises UnusableTree if it contains something that cannot be copied.
    """
    try:
        for path, mode in reversed(list(_walk(root))):
            if not stat.S_ISLNK(mode):  # a link is part of its directory
                sync(path)
    except OSError as error:
        if error.errno not in _UNUSABLE:
            raise
        name = os.path.relpath(error.filename, root) if isinstance(error.filename, str | Path) else "."
        raise UnusableTree(f"{name[:200]!r} cannot be read ({error.strerror})") from error


def sync(path: Path) -> None:
    """Write a file or the entries of a directory to the disk."""
    descriptor = os.open(path, _READ)
    try:
        os.fsync(descriptor)
        if sys.platform == "darwin":
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # macOS: otherwise fsync does not wait for the disk
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def append(path: Path, text: str) -> None:
    """Append a short text with a single write if possible, so that those of several processes do not mix."""
    with path.open("ab") as file:
        file.write(text.encode())


def copy(source: Path, target: Path) -> None:
    """Copy the contents of a directory into another one that is empty; links stay links."""
    _, *found = _walk(source)
    for path, mode in found:
        goal = target / path.relative_to(source)
        if stat.S_ISDIR(mode):
            goal.mkdir()
        else:
            shutil.copy2(path, goal, follow_symlinks=False)
    for path, mode in reversed(found):  # last, because a directory may be read-only
        if stat.S_ISDIR(mode):
            shutil.copystat(path, target / path.relative_to(source))


def size(root: Path) -> int:
    """Return the bytes of the files of a tree; 0 if it cannot be read."""
    try:
        return sum(path.lstat().st_size for path, mode in _walk(root) if not stat.S_ISDIR(mode))
    except (OSError, UnusableTree):
        return 0


def remove(path: Path) -> None:
    """Remove a file, a link or a tree of any depth; log a warning if that is impossible."""
    try:
        if not is_directory(path):
            path.unlink()
            return
        waiting = _clear(path, path)
        while waiting:
            folder = waiting.pop()
            waiting += _clear(folder, path)
            folder.rmdir()
        path.rmdir()
    except FileNotFoundError:
        pass  # it never existed, or somebody else removes it, too
    except OSError as error:
        log.warning("cannot remove %s: %s", path, error.strerror)


def _walk(root: Path) -> Iterator[tuple[Path, int]]:
    """Yield the path and mode of a directory and of everything in it, parents first."""
    waiting = [(root, 0)]
    while waiting:
        path, level = waiting.pop()
        mode = path.lstat().st_mode
        if level == 0 and not stat.S_ISDIR(mode):
            raise UnusableTree(f"the directory was replaced by {_kind(mode)}")
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise UnusableTree(f"{str(path.relative_to(root))!r} is {_kind(mode)}")
        if level > MOST_LEVELS:
            raise UnusableTree(f"directories are nested more than {MOST_LEVELS} deep")
        yield path, mode
        if stat.S_ISDIR(mode):
            with os.scandir(path) as entries:
                waiting += [(Path(entry.path), level + 1) for entry in entries]


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something unknown")


def _clear(folder: Path, root: Path) -> list[Path]:
    """Remove the files of a directory, move its directories to the root, and return those.

    So no path becomes too long.
    """
    permit(folder)
    with os.scandir(folder) as entries:
        found = list(entries)
    moved = []
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            path = Path(entry.path)
            permit(path)
            moved.append(path.rename(root / uuid.uuid4().hex))
        else:
            os.unlink(entry.path)
    return moved


def permit(folder: Path) -> None:
    """Allow this process to list and change a directory, if it is ours."""
    if folder.lstat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
        folder.chmod(stat.S_IRWXU)


class Workplace:
    """The working directories of one runner, which holds a lock on them as long as it lives.

    A process number says nothing in another container, so a dead runner is recognised by its lock. The lock is trusted
    if its owner runs on the same booted machine, or if the directory is on a local file system and the owner's machine
    has our name. Otherwise it is left alone: some shared file systems do not pass locks on to other machines.

    root: the directory that all runners of a study share; those of dead ones are removed.
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
        with suppress(OSError):  # other runners use it, or it was never created
            self._own.parent.rmdir()


def _claim(own: Path) -> int:
    """Create a runner's directory and return the lock on it, which ends with the process."""
    own.mkdir(parents=True, exist_ok=True)
    new = own / "new-lock"
    handle = os.open(new, os.O_RDWR | os.O_CREAT, 0o644)
    with suppress(OSError):  # without a lock file the directory is never taken for abandoned
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(handle, _boot().encode())
        new.rename(own / "lock")  # under this name it is locked as long as its owner lives
    return handle


def _is_abandoned(path: Path) -> bool:
    """Whether the runner that owned a directory has certainly ended."""
    try:
        handle = os.open(path / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        boot = os.read(handle, 100).decode(errors="replace")
        if not boot or boot != _boot():
            if path.name.rsplit("-", 2)[0] != platform.node():
                return False
            require_local(path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except (OSError, JournalError):  # its owner lives, or locks do not work here or prove nothing
        return False
    finally:
        os.close(handle)


def _boot() -> str:
    """Return the identity of this machine since it was booted; the same in all of its containers."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
