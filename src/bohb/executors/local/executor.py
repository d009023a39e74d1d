"""Trials on this machine: one supervised, warm process per slot.

Not concurrent.futures and not multiprocessing.Pool: there one segmentation fault loses the neighbours and the queue,
and a trial that hangs cannot be stopped.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import get_args

from bohb.core.trial import Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Objective
from bohb.executors.local import logs
from bohb.executors.local.coordinator import Crew
from bohb.executors.local.launch import pickled
from bohb.executors.local.setup import Setup, StartMethod

# Forking is quick, and safe from a guard that is fresh and has loaded none of the user's code; but on macOS the
# system's own libraries do not survive it.
START_METHOD: StartMethod = "forkserver" if sys.platform == "linux" else "spawn"


class LocalExecutor:
    """Evaluates trials in worker processes that may crash, hang, leak or be killed without harm to the others.

    objective: called with each trial. It reaches the workers pickled by value if it cannot be imported, so that
        lambdas, closures and functions of a notebook work; with start_method='fork' it is inherited, not pickled.
    workers: how many trials run at once, each in its own process, which is started when first needed and then kept.
    trial_seconds: a trial that runs longer is killed with all its descendants (status 'timeout').
    trial_memory: bytes of resident memory of a trial's process and its descendants together, looked at ten times a
        second; what exceeds it is killed (status 'memory').
    log_dir: what trial 7 prints, C code and subprocesses included, goes to 7.log here; without it only the last
        characters of failed trials are kept, in their outcome.
    start_method: 'forkserver' forks workers from a fresh process that has loaded this package only; 'spawn' gives each
        a fresh interpreter; 'fork' copies this process as it is, which is unsafe if it has threads or uses a GPU.
    recycle_after: replace a worker after this many trials, for objectives that leak.
    log_bytes: what exceeds it in a log is cut out of its middle.
    slot_env: environment variables of the worker of a slot, set before the objective is loaded.
    start_seconds: how long loading the objective (its imports) may take.
    """

    def __init__(
        self,
        objective: Objective,
        workers: int,
        *,
        trial_seconds: float | None = None,
        trial_memory: int | None = None,
        log_dir: Path | None = None,
        start_method: StartMethod = START_METHOD,
        recycle_after: int | None = None,
        log_bytes: int = 2**20,
        slot_env: Callable[[int], Mapping[str, str]] | None = None,
        start_seconds: float | None = 300.0,
    ) -> None:
        _check_platform()
        _check_choices(objective, start_method)
        _check_count("workers", workers)
        _check_count("log_bytes", log_bytes, least=1024)
        _check_count("recycle_after", 1 if recycle_after is None else recycle_after)
        _check_limits(trial_seconds=trial_seconds, trial_memory=trial_memory, start_seconds=start_seconds)
        payload = None if start_method == "fork" else pickled(objective)
        setup = Setup(
            slots=workers,
            start_method=start_method,
            token=uuid.uuid4().hex,
            parent=os.getpid(),
            path=[str(entry) for entry in sys.path],
            argv=list(sys.argv),
            log_dir=tempfile.mkdtemp(prefix="bohb-") if log_dir is None else logs.prepare(log_dir),
            keep_logs=log_dir is not None,
            log_bytes=log_bytes,
            trial_seconds=trial_seconds,
            trial_memory=trial_memory,
            start_seconds=start_seconds,
            recycle_after=recycle_after,
        )
        self._crew = Crew(setup, objective, payload, slot_env)
        # an executor that is forgotten, or still there when the interpreter ends, takes its workers with it
        self._finalizer = weakref.finalize(self, self._crew.kill)

    @property
    def slots(self) -> int:
        """How many trials may run at once."""
        return self._crew.slots

    def submit(self, trial: Trial) -> None:
        """Start a trial as soon as there is a worker for it; never waits."""
        if self._crew.closed:
            raise BohbError("this executor was shut down; make a new one")
        self._crew.submit(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """The trials that have come back; blocks until there is one or `timeout` seconds have passed.

        With nothing submitted and no timeout it returns at once, for nothing could ever come back.
        """
        crew = self._crew
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not crew.done and not crew.closed and (crew.busy or timeout is not None):
            left = deadline - time.monotonic()
            crew.poll(None if left == math.inf else max(0.0, left))
            if time.monotonic() >= deadline:
                break
        done, crew.done = crew.done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """End all workers. With `kill` at once, within 2 s, running trials being forgotten; else when they are done.

        What came back while waiting can still be fetched by `wait`.
        """
        if kill:
            self._crew.kill()
        else:
            self._crew.drain()
        self._finalizer.detach()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(kill=kind is not None)


def _check_platform() -> None:
    if not hasattr(os, "fork"):
        raise InvalidArgument(
            f"LocalExecutor needs process groups and fork, which {sys.platform} does not have; "
            "use workers=None, which runs trials in this process"
        )


def _check_choices(objective: Objective, start_method: StartMethod) -> None:
    if not callable(objective):
        raise InvalidArgument(f"objective={objective!r} must be callable with one argument, the trial")
    if start_method not in get_args(StartMethod):
        raise InvalidArgument(f"start_method={start_method!r} must be one of {', '.join(get_args(StartMethod))}")


def _check_count(name: str, value: int, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{name}={value!r} must be an integer, at least {least}")


def _check_limits(**limits: float | None) -> None:
    for name, value in limits.items():
        if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
            raise InvalidArgument(f"{name}={value!r} must be a positive number, or None for no limit")
