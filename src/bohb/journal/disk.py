"""Refuses network file systems, on which the locks and the shared memory of SQLite do not work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from bohb.errors import JournalError, install_hint

_NETWORK = re.compile(
    "9p|acfs|afpfs|afs|beegfs|ceph|cifs|coda|davfs|gfs2?|glusterfs|gpfs|lustre|mmfs|ncpfs|nfs[34]?|ocfs2|orangefs|"
    "panfs|pvfs2|smb[23]?|smbfs|webdav"
)
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.ntfs-3g", "fuse.exfat", "fuse.gocryptfs", "fuse.encfs"})


def require_local(path: Path, lookup: Callable[[Path], str] | None = None) -> None:
    """Refuse a path on a network file system, where two machines could corrupt the journal together.

    path: the database file, which need not exist yet.
    lookup: returns the type of the file system of a path; default: read the machine's table of mounts.
    """
    found = (lookup or filesystem_type)(path).lower()
    if _NETWORK.fullmatch(found) or (found.startswith("fuse") and found not in _LOCAL_FUSE | {"fuseblk"}):
        raise JournalError(
            f"{path} is on a network file system ({found}), where SQLite cannot keep a journal safe; put it on a local "
            f"disk, or use a PostgreSQL journal, journal='postgresql+psycopg://…' ({install_hint('postgres')})"
        )


def filesystem_type(path: Path) -> str:
    """Return the type of the file system that holds `path`, such as 'ext4' or 'nfs4'; '' if unknown."""
    if sys.platform == "win32":
        return "cifs" if str(path).startswith("\\\\") else ""
    here, best = str(path.resolve()), ("", "")
    for point, kind in _mounts():
        inside = here == point or here.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):  # a later mount hides an earlier one on the same point
            best = point, kind
    return best[1]


def _mounts() -> list[tuple[str, str]]:
    """Return (mount point, type) of all mounts, in the order of mounting."""
    table = Path("/proc/self/mounts")
    if table.exists():
        lines = (line.split() for line in table.read_text(errors="surrogateescape").splitlines())
        return [(_unescaped(fields[1]), fields[2]) for fields in lines if len(fields) > 2]
    try:
        listing = subprocess.run(["mount"], capture_output=True, text=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^.+? on (.+) \((\w+)", listing, flags=re.MULTILINE)


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
