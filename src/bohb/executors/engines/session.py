"""The settings that all tasks of an EngineExecutor share, as they are sent to the engine's workers."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]

from bohb.executors.options import TrialOptions


@dataclass(frozen=True, slots=True)
class Session:
    """How to run the trials of one EngineExecutor.

    id: unique name of this executor.
    digest: hash of the pickled objective.
    lifeline: a file that exists as long as the executor does.
    runner: process id of the executor.
    local: whether the engine's workers are on the runner's machine, so that a missing lifeline means the end.
    warm: whether children are kept for the next trial; not if the engine's worker ends with its task.
    path: the runner's `sys.path`.
    """

    id: str
    digest: str
    lifeline: str
    runner: int
    local: bool
    warm: bool
    path: tuple[str, ...]
    options: TrialOptions

    def visible(self) -> bool:
        """Whether the lifeline can be seen from this machine, so that its end can be noticed."""
        return self.local or os.path.exists(self.lifeline)

    def wanted(self) -> bool:
        """Whether the runner still waits for results; ask only where the lifeline is visible."""
        return os.path.exists(self.lifeline) and (not self.local or psutil.pid_exists(self.runner))
