"""A power cut for directories: what a strict file system has on its disk is what was synced, and nothing else.

While it records, each `os.fsync` of a file keeps its bytes and each one of a directory keeps its entries. The state
after a power cut is built from these records alone, so a file that was written and not synced is empty, and one whose
directory was not synced is not there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

_Id = tuple[int, int]


class PowerCut:
    """Records what is synced; `on_sync` is called after each one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, on_sync: Callable[[], None] = lambda: None) -> None:
        self._files: dict[_Id, bytes] = {}
        self._entries: dict[_Id, dict[str, os.stat_result]] = {}
        self._on_sync = on_sync
        self._fsync = os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            with os.scandir(descriptor) as entries:
                self._entries[_id(found)] = {e.name: e.stat(follow_symlinks=False) for e in entries}
        else:
            self._files[_id(found)] = os.pread(descriptor, found.st_size, 0)
        self._on_sync()

    def survivors(self, root: Path, into: Path) -> None:
        """Write what is on the disk below `root` into another directory."""
        into.mkdir()
        for name, found in self._entries.get(_id(root.lstat()), {}).items():
            self._write(into / name, found)

    def _write(self, path: Path, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            path.mkdir()
            for name, inner in self._entries.get(_id(found), {}).items():
                self._write(path / name, inner)
        else:
            path.write_bytes(self._files.get(_id(found), b""))


def _id(found: os.stat_result) -> _Id:
    return found.st_dev, found.st_ino
