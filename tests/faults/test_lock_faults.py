"""The lock of a journal: on a full disk, on a file system without locks, and on a file with several names."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bohb.errors import JournalBusy, JournalError, JournalUnavailable
from bohb.journal import SqlJournal
from bohb.testing import numbered_events

if sys.platform != "win32":
    import fcntl
    import resource


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 600 kB."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting needs root; the same is tested with a limit on the size of files")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("free", [0, 1, 2, 3, 5, 8])
def test_opening_a_journal_on_a_full_disk_names_the_disk_and_leaves_no_lock(tmpfs: Path, free: int) -> None:
    ballast = tmpfs / "ballast"
    ballast.write_bytes(bytes((os.statvfs(tmpfs).f_bavail - free) * os.statvfs(tmpfs).f_frsize))
    for _ in range(2):  # the second would be refused as busy if the first left its lock
        with pytest.raises(JournalUnavailable, match=r"full.*Free some space"):
            SqlJournal(tmpfs / "study.db").append(numbered_events(200), after=0)
    ballast.unlink()
    with SqlJournal(tmpfs / "study.db") as journal:
        journal.append(numbered_events(1), after=0)


def test_a_lock_file_that_cannot_grow_is_named_and_leaves_no_lock(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(JournalUnavailable, match=r"lock file .*full.*Free some space"):
            SqlJournal(tmp_path / "study.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    SqlJournal(tmp_path / "study.db").close()


def test_a_file_system_without_locks_is_not_reported_as_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(JournalError, match=r"cannot lock .*No locks available.*another local disk") as refused:
        SqlJournal(tmp_path / "study.db")
    assert not isinstance(refused.value, JournalBusy)


def test_a_file_with_two_names_is_not_written_but_read(tmp_path: Path) -> None:
    path, other = tmp_path / "study.db", tmp_path / "other.db"
    with SqlJournal(path) as journal:
        journal.append(numbered_events(2), after=0)
        other.hardlink_to(path)
        with pytest.raises(JournalError, match=r"other\.db has 2 names \(hard links\).*a copy"):
            SqlJournal(other)
    with SqlJournal(path, read_only=True) as journal:
        assert list(journal.read()) == numbered_events(2)
    other.unlink()
    SqlJournal(path).close()
