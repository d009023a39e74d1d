"""What all tasks of a session have in common, as it travels to the engine's workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil  # type: ignore[import-untyped]

from bohb.executors.local.setup import StartMethod


@dataclass(frozen=True, slots=True)
class Order:
    """How to run the trials of one session.

    session: a name for this executor that nothing else has.
    digest: the hash of the pickled objective.
    lifeline: a file that is there while the executor is.
    runner: the process of the executor.
    local: whether the engine's workers are on the runner's machine, so that a missing lifeline means the end.
    warm: whether children wait for the next trial; not if the engine's worker ends with its task.
    gpus: how many each trial gets from those that the engine's worker sees.
    path: where the runner imports from.
    """

    session: str
    digest: str
    lifeline: str
    runner: int
    local: bool
    warm: bool
    start_method: StartMethod
    trial_seconds: float | None = None
    trial_memory: int | None = None
    recycle_after: int | None = None
    log_dir: str | None = None
    gpus: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()

    def visible(self) -> bool:
        """Whether the lifeline can be seen from here, so that its end will mean something."""
        return self.local or os.path.exists(self.lifeline)

    def wanted(self) -> bool:
        """Whether the runner still waits for results; only to be asked where the lifeline is visible."""
        return os.path.exists(self.lifeline) and (not self.local or psutil.pid_exists(self.runner))
