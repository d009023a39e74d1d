"""How a study is run: the options of its sessions, what evaluates its trials, and where it is stored."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bohb.arguments import BYTES, COUNT, FLAG, GRACE, LEASE, argument, check
from bohb.executors.base import Objective
from bohb.executors.options import TrialOptions
from bohb.journal import Journal, SqlJournal
from bohb.journal.location import files_directory


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How a session treats its trials.

    grace: seconds that running trials have after a deadline (`until` or `max_seconds`); then they are stopped. math.inf
        lets them finish. Stopped trials do not count as failed and run again when the study is resumed. With
        workers=None a running trial cannot be stopped: the study ends when it does.
    forget_failures: whether failures of earlier sessions no longer count as evidence for the sampler; use it after
        fixing a bug in the objective. Those of a session in which every trial failed are forgotten anyway if there were
        at least three, or if no trial of the study had ever succeeded.
    max_attempts: how often a trial is started before it counts as failed because its worker disappeared.
    lease_seconds: where several runners share a study, the time without a sign of life after which the others take
        over a runner's trials; a living runner renews its lease four times in that span.
    checkpoints: whether trials get a directory; False for objectives that keep no state, on machines that share no file
        system.
    checkpoint_quota: bytes that checkpoints may take together.
    """

    grace: float = argument(0.0, GRACE, "limits.grace")
    forget_failures: bool = argument(False, FLAG)
    max_attempts: int = argument(3, COUNT, "trial.attempts")
    lease_seconds: float = argument(60.0, LEASE)
    checkpoints: bool = argument(True, FLAG)
    checkpoint_quota: int | None = argument(None, BYTES, "checkpoint_quota")

    def __post_init__(self) -> None:
        check(self)


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
