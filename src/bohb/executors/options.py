"""What a trial may use: limits, logs and start method, and the cores, GPUs and memory that an engine schedules.

They are built once and handed unchanged from `minimize` to the process that runs the trial.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from bohb.arguments import BYTES, COUNT, TIMEOUT, Kind, argument, check, one_of, pick, whole
from bohb.errors import InvalidArgument
from bohb.units import memory

SHARED: Literal["shared"] = "shared"
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


@dataclass(frozen=True, slots=True)
class Resources:
    """What each trial needs.

    cpu: cores; None leaves the number to the engine.
    gpu: devices, a fraction of one where it can be shared, or "shared" for as many trials as fit on one.
    memory: bytes.
    others: further resources, by the names that the engine's administrator gave them.
    """

    cpu: float | None = None
    gpu: float | Literal["shared"] = 0
    memory: int | None = None
    others: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any] | None) -> Resources:
        """Build from the user's mapping, such as {"gpu": 1, "cpu": 2, "memory": "8GB"}."""
        others = dict(given or {})
        if "memory" in others:
            try:
                others["memory"] = memory(others["memory"])
            except ValueError as error:
                raise InvalidArgument(f"resources['memory']={others['memory']!r} {error}") from error
        for name, value in others.items():
            if (name, value) == ("gpu", SHARED):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                hint = f" or {SHARED!r}" if name == "gpu" else ""
                raise InvalidArgument(f"resources[{name!r}]={value!r} must be a positive number{hint}")
        n_bytes = others.pop("memory", None)
        return cls(others.pop("cpu", None), others.pop("gpu", 0), None if n_bytes is None else int(n_bytes), others)

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that set the number of threads of numeric libraries."""
        return {} if self.cpu is None else dict.fromkeys(THREADS, str(max(1, int(self.cpu))))

    @property
    def shares(self) -> bool:
        """Whether trials share a GPU."""
        return self.gpu == SHARED or 0 < self.gpu < 1

    @property
    def number_of_gpus(self) -> float:
        """The GPUs of a trial, for an engine that has no "shared"."""
        if self.gpu == SHARED:
            raise InvalidArgument("resources['gpu']='shared' works with local workers only; give a number here")
        return self.gpu

    @property
    def whole_gpus(self) -> int:
        """The GPUs of a trial, where they cannot be shared."""
        if self.shares or self.gpu != int(self.number_of_gpus):
            raise InvalidArgument(
                f"resources['gpu']={self.gpu!r} must be a whole number here; local workers and Ray can share a GPU"
            )
        return int(self.gpu)

    def allow_only(self, engine: str, *known: str) -> None:
        """Raise InvalidArgument for resources that an engine does not schedule."""
        asked = {"cpu": self.cpu, "gpu": self.gpu, "memory": self.memory, **self.others}
        for name, value in asked.items():
            if value and name not in known:
                raise InvalidArgument(
                    f"resources[{name!r}]={value!r} is not scheduled by {engine}; use Dask or Ray (docs/cluster.md)"
                )


MODULES = Kind(
    "must be a list of names of modules",
    lambda value: isinstance(value, list | tuple) and all(isinstance(name, str) and name for name in value),
)
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
    preload: modules that workers need, such as ["torch"]; they are imported once, in the process that workers are
        forked from, so that a worker starts in a fraction of the time. A module that uses CUDA or starts a thread
        while it is imported is refused. Needs the start method 'forkserver'.
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
    preload: Sequence[str] = argument((), MODULES, "preload")
    log_dir: Path | None = None
    resources: Resources = field(default_factory=Resources)
    start_seconds: float | None = argument(300.0, TIMEOUT, none=True, public=False)
    log_bytes: int = argument(2**20, whole(1024), public=False)

    def __post_init__(self) -> None:
        check(self)
        if self.preload and self.start_method != "forkserver":
            raise InvalidArgument(
                f"preload={self.preload!r} needs start_method='forkserver', not {self.start_method!r}: a spawned "
                "worker imports everything itself, and a forked one has what your process has imported"
            )

    @property
    def memory_limit(self) -> int | None:
        """The memory above which a trial is killed."""
        return self.trial_memory if self.trial_memory is not None else self.resources.memory


def trial_options(arguments: Mapping[str, Any]) -> TrialOptions:
    """Return the options among the arguments of `bohb.minimize`, with the resources."""
    return pick(TrialOptions, {**arguments, "resources": Resources.of(arguments.get("resources"))})
