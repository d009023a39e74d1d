"""The files of a study on the page of a trial: its output, and the names and sizes of its checkpoint files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bohb.core.trial import Outcome, Trial
from bohb.units import size

LOG_BYTES = 64_000  # shown of the end of a log
MOST_FILES = 200


class Stored(NamedTuple):
    """What is stored of one trial.

    log: the end of its output, and the size of all of it in bytes; None if there is no log.
    files: names and sizes of the files in its checkpoint.
    more: whether there are more than `MOST_FILES`.
    """

    log: tuple[str, int] | None = None
    files: Sequence[tuple[str, int]] = ()
    more: bool = False

    def output(self, outcome: Outcome | None) -> tuple[str, str] | None:
        """Return a note and the output: the end of the log, or else what the journal stores; None without any."""
        if self.log is not None:
            text, total = self.log
            return f"The end of {size(total)}." if total > LOG_BYTES else f"{size(total)}, from the study's logs.", text
        kept = outcome.output if outcome is not None else None
        return ("The last lines, as the journal stores them.", kept) if kept else None


def stored(root: Path | None, trial: Trial) -> Stored:
    """Return what a study's directory holds of a trial; nothing without a directory."""
    return Stored() if root is None else Stored(log_tail(root, trial.number), *checkpoint_files(root, trial))


def log_tail(root: Path, number: int) -> tuple[str, int] | None:
    """Return the end of a trial's output and the size of its log in bytes; None if there is no log."""
    path = root / "logs" / f"{number:d}.log"
    try:
        if not _inside(path, root):
            return None
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        file.seek(max(0, found.st_size - LOG_BYTES))
        return file.read(LOG_BYTES).decode("utf-8", "replace"), found.st_size


def checkpoint_files(root: Path, trial: Trial) -> tuple[list[tuple[str, int]], bool]:
    """Return names and sizes of the files of a checkpoint, and whether there are more than `MOST_FILES`."""
    home = root / "checkpoints" / f"{trial.config_id:d}"
    found: list[tuple[str, int]] = []
    try:
        if not _inside(home, root):
            return [], False
        for folder, _, names in os.walk(home, followlinks=False):
            for path in (Path(folder) / name for name in names):
                if len(found) == MOST_FILES:
                    return found, True
                found.append((str(path.relative_to(home)), path.lstat().st_size))
    except OSError:  # the runner has just removed it
        pass
    return sorted(found), False


def _inside(path: Path, root: Path) -> bool:
    """Whether a path lies below the root after all links are followed."""
    return path.resolve(strict=True).is_relative_to(root.resolve(strict=True))
