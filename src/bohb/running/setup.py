"""How a study is run: what evaluates its trials, and where it is stored."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bohb.executors.base import Objective
from bohb.executors.options import StartMethod, TrialOptions
from bohb.journal import Journal, SqlJournal
from bohb.journal.location import files_directory
from bohb.optimizer.creation import StudyOptions
from bohb.running.limits import SessionOptions


class MinimizeOptions(StudyOptions, total=False):
    """Arguments of `bohb.minimize` that its signature does not list.

    They are those of `BOHB`, and of `Limits`, `SessionOptions` and `TrialOptions`.
    """

    max_brackets: int | None
    max_trials: int | None
    max_seconds: float | None
    until: str | float | datetime.datetime | datetime.time | None
    max_cost: float | None
    max_reported_cost: float | None
    target_loss: float | None
    patience: float | None
    max_initial_failures: int | None
    grace: float
    forget_failures: bool
    max_attempts: int
    lease_seconds: float
    checkpoints: bool
    checkpoint_quota: int | None
    trial_seconds: float | None
    trial_memory: int | None
    recycle_after: int | None
    start_method: StartMethod


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What `minimize` was given, as far as another evaluation of the same study needs it.

    journal, study, directory: where the study and its files are stored.
    objective: None if the study was only loaded.
    executor, workers, trials, session: how trials are evaluated.
    """

    journal: str | Path | Journal = field(repr=False)  # a URL may have a password
    study: str
    directory: str | Path | None = None
    objective: Objective | None = None
    executor: Any = None
    workers: int | None = None
    trials: TrialOptions = field(default_factory=TrialOptions)
    session: SessionOptions = field(default_factory=SessionOptions)


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
