"""The options of a trial, built once and handed unchanged from `minimize` to the process that runs the trial."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from bohb.errors import InvalidArgument
from bohb.executors.resources import Resources

StartMethod = Literal["spawn", "forkserver", "fork"]

# Forking is fast, and safe from a guard process that has loaded no user code. macOS' own libraries do not survive it.
START_METHOD: StartMethod = "forkserver" if sys.platform == "linux" else "spawn"


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Limits, resources, logs and start method of every trial of an executor.

    trial_seconds: a trial that runs longer is killed with all its descendants (status 'timeout').
    trial_memory: limit in bytes on the memory of a trial's process and its descendants, checked ten times a second; a
        trial that exceeds it is killed (status 'memory'). On Linux, memory that they share counts once. Default:
        `resources.memory`.
    recycle_after: number of trials after which a worker is replaced, for objectives that leak.
    start_method: 'forkserver' forks workers from a fresh process that has loaded only this package; 'spawn' starts a
        fresh interpreter for each; 'fork' copies the calling process, which is unsafe if it has threads or uses a GPU.
    log_dir: the output of trial 7, including C code and subprocesses, goes to 7.log in this directory. Without it, only
        the last characters of failed trials are kept, in their outcome.
    resources: what each trial needs.
    start_seconds: limit on loading the objective, including its imports.
    log_bytes: size above which the middle of a log is removed.
    """

    trial_seconds: float | None = None
    trial_memory: int | None = None
    recycle_after: int | None = None
    start_method: StartMethod = START_METHOD
    log_dir: Path | None = None
    resources: Resources = field(default_factory=Resources)
    start_seconds: float | None = 300.0
    log_bytes: int = 2**20

    def __post_init__(self) -> None:
        if self.start_method not in get_args(StartMethod):
            methods = ", ".join(get_args(StartMethod))
            raise InvalidArgument(f"start_method={self.start_method!r} must be one of {methods}")
        if self.recycle_after is not None:
            check_count("recycle_after", self.recycle_after)
        check_count("log_bytes", self.log_bytes, least=1024)
        for name in ("trial_seconds", "trial_memory", "start_seconds"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < math.inf):
                raise InvalidArgument(f"{name}={value!r} must be a positive number, or None for no limit")

    @property
    def memory_limit(self) -> int | None:
        """The memory above which a trial is killed."""
        return self.trial_memory if self.trial_memory is not None else self.resources.memory


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise InvalidArgument unless `value` is an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{name}={value!r} must be an integer, at least {least}")
