"""The options of a trial, built once and handed unchanged from `minimize` to the process that runs the trial."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from bohb.arguments import BYTES, COUNT, TIMEOUT, argument, check, one_of, pick, whole
from bohb.executors.resources import Resources

StartMethod = Literal["spawn", "forkserver", "fork"]

# Forking is fast, and safe from a guard process that has loaded no user code. macOS' own libraries do not survive it.
START_METHOD: StartMethod = "forkserver" if sys.platform == "linux" else "spawn"


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Limits, resources, logs and start method of every trial of an executor.

    trial_seconds: time limit of a single trial; one that runs longer is killed with all its descendants (status
        'timeout').
    trial_memory: memory limit of a single trial; in bytes, for its process and its descendants, checked ten times a
        second. A trial that exceeds it is killed (status 'memory'). On Linux, memory that they share counts once.
        Default: `resources.memory`.
    recycle_after: number of trials after which a worker is replaced, for objectives that leak.
    start_method: 'forkserver' forks workers from a fresh process that has loaded only this package; 'spawn' starts a
        fresh interpreter for each; 'fork' copies the calling process, which is unsafe if it has threads or uses a GPU.
    log_dir: the output of trial 7, including C code and subprocesses, goes to 7.log in this directory. Without it, only
        the last characters of failed trials are kept, in their outcome.
    resources: what each trial needs.
    start_seconds: limit on loading the objective, including its imports.
    log_bytes: size above which the middle of a log is removed.
    """

    trial_seconds: float | None = argument(None, TIMEOUT, "trial.seconds")
    trial_memory: int | None = argument(None, BYTES, "trial.memory")
    recycle_after: int | None = argument(None, COUNT, "trial.recycle_after")
    start_method: StartMethod = argument(START_METHOD, one_of(get_args(StartMethod)), "start_method")
    log_dir: Path | None = None
    resources: Resources = field(default_factory=Resources)
    start_seconds: float | None = argument(300.0, TIMEOUT, none=True, public=False)
    log_bytes: int = argument(2**20, whole(1024), public=False)

    def __post_init__(self) -> None:
        check(self)

    @property
    def memory_limit(self) -> int | None:
        """The memory above which a trial is killed."""
        return self.trial_memory if self.trial_memory is not None else self.resources.memory


def trial_options(arguments: Mapping[str, Any]) -> TrialOptions:
    """Return the options among the arguments of `bohb.minimize`, with the resources."""
    return pick(TrialOptions, {**arguments, "resources": Resources.of(arguments.get("resources"))})
