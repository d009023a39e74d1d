"""Journals are kept off network file systems: row 23 of faults.md."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bohb.errors import JournalError
from bohb.journal import location, open_journal
from bohb.journal.location import filesystem_type, require_local


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study.db"


NETWORK = [
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "fuse.sshfs",
    "fuse",
    "lustre",
    "beegfs",
    "gpfs",
    "ceph",
    "9p",
    "afs",
]


@pytest.mark.parametrize("kind", NETWORK)
@pytest.mark.parametrize("read_only", [True, False])
def test_row_23_a_network_file_system_is_refused_with_advice(
    path: Path, kind: str, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "filesystem_type", lambda _: kind)
    with pytest.raises(JournalError, match=rf"network file system \({kind}\).*local disk.*\[postgres\]"):
        open_journal(path, read_only=read_only)
    assert not path.exists()
    assert not Path(f"{path}.lock").exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "apfs", "overlay", "tmpfs", "fuseblk", "ntfs", ""])
def test_row_23_a_local_disk_is_accepted(path: Path, kind: str) -> None:
    require_local(path, lambda _: kind)


MOUNTS = """/dev/sda1 / ext4 rw 0 0
systemd-1 /home autofs rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/me/my\\040disk xfs rw 0 0
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [("/x.db", "ext4"), ("/home/me/x.db", "nfs4"), ("/home/me/my disk/x.db", "xfs"), ("/homes/x.db", "ext4")],
)
def test_row_23_the_innermost_latest_mount_counts(place: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text

    def fake(self: Path, *arguments: Any, **options: Any) -> str:
        return MOUNTS if str(self) == "/proc/self/mounts" else real(self, *arguments, **options)

    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.setattr(Path, "resolve", lambda self: self)
    monkeypatch.setattr(Path, "read_text", fake)
    assert filesystem_type(Path(place)) == kind


def test_row_23_without_proc_the_mount_command_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "/dev/disk3s1 on / (apfs, sealed, local)\n//me@server/share on /Volumes/share (smbfs, nodev)\n"
    monkeypatch.setattr(Path, "exists", lambda _: False)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, stdout=listing))
    assert filesystem_type(Path("/Volumes/share/x.db")) == "smbfs"
    assert filesystem_type(Path("/x.db")) == "apfs"
