"""How a study is run: what evaluates its trials, and where it is stored."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bohb.executors.base import Objective
from bohb.executors.options import TrialOptions
from bohb.journal import Journal, SqlJournal
from bohb.journal.location import files_directory


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What `minimize` was given, as far as another evaluation of the same study needs it.

    journal, study, directory: where the study and its files are stored.
    objective: None if the study was only loaded.
    executor, workers, options, max_attempts: how trials are evaluated.
    checkpoints: whether trials get a directory.
    """

    journal: str | Path | Journal = field(repr=False)  # a URL may have a password
    study: str
    directory: str | Path | None = None
    objective: Objective | None = None
    executor: Any = None
    workers: int | None = None
    options: TrialOptions = field(default_factory=TrialOptions)
    checkpoints: bool = True
    max_attempts: int = 3


@contextmanager
def files_of(journal: Journal, study: str, directory: str | Path | None) -> Iterator[Path]:
    """Yield the directory of a study's checkpoints and logs; a temporary one if the journal is not a file either."""
    permanent = files_directory(journal.path if isinstance(journal, SqlJournal) else None, study, directory)
    if permanent is not None:
        yield permanent
        return
    temporary = Path(tempfile.mkdtemp(prefix="bohb-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
