"""Trials on this machine, in one supervised, warm process per slot.

concurrent.futures and multiprocessing.Pool do not fit: there, one segmentation fault loses the other trials and the
queue, and a trial that hangs cannot be stopped.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence

from bohb.arguments import COUNT, check_value
from bohb.core.trial import Trial
from bohb.errors import BohbError, InvalidArgument
from bohb.executors.base import Done, Objective, check_objective
from bohb.executors.local import logs, processes
from bohb.executors.local.coordinator import Coordinator
from bohb.executors.local.shared import Setup, pickled
from bohb.executors.options import TrialOptions
from bohb.executors.resources import slot_environment


class LocalExecutor:
    """Evaluates trials in worker processes that may crash, hang, leak or be killed without harm to each other.

    objective: called with each trial. It is pickled by value if workers cannot import it, so lambdas, closures and
        functions of a notebook work; with start_method='fork' it is inherited instead.
    workers: number of trials that run at once, each in its own process, which is started when first needed and kept.
    options: limits, resources, logs and start method.
    slot_env: function of a slot's number that returns environment variables for its worker, set before the objective
        is loaded.
    """

    def __init__(
        self,
        objective: Objective,
        workers: int,
        options: TrialOptions | None = None,
        *,
        slot_env: Callable[[int], Mapping[str, str]] | None = None,
    ) -> None:
        options = options or TrialOptions()
        if not hasattr(os, "fork"):
            raise InvalidArgument(
                f"LocalExecutor needs process groups and fork, which {sys.platform} does not have; "
                "use workers=None, which runs trials in this process"
            )
        check_objective(objective)
        check_value("workers", workers, COUNT)
        by_resources = slot_environment(workers, options.resources)
        payload = None if options.start_method == "fork" else pickled(objective)
        setup = Setup(
            options,
            slots=workers,
            token=processes.new_token(),
            parent=os.getpid(),
            argv=list(sys.argv),
            log_dir=str(logs.prepare(options.log_dir) if options.log_dir else tempfile.mkdtemp(prefix="bohb-")),
        )
        self._coordinator = Coordinator(
            setup,
            objective,
            payload,
            lambda slot: {**by_resources(slot), **(slot_env(slot) if slot_env is not None else {})},
        )
        # ends the workers when the executor is garbage collected or the interpreter exits
        self._finalizer = weakref.finalize(self, self._coordinator.kill)

    @property
    def slots(self) -> int:
        """Number of trials that may run at once."""
        return self._coordinator.slots

    def submit(self, trial: Trial) -> None:
        """Start a trial as soon as a worker is free, without waiting."""
        if self._coordinator.closed:
            raise BohbError("this executor was shut down; make a new one")
        self._coordinator.submit(trial)

    def wait(self, timeout: float | None) -> Sequence[Done]:
        """Return the trials that have ended; block until there is one or `timeout` seconds have passed.

        Return at once if no trial is running and there is no timeout.
        """
        coordinator = self._coordinator
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not coordinator.done and not coordinator.closed and (coordinator.busy or timeout is not None):
            left = deadline - time.monotonic()
            coordinator.poll(None if left == math.inf else max(0.0, left))
            if time.monotonic() >= deadline:
                break
        done, coordinator.done = coordinator.done, []
        return done

    def shutdown(self, kill: bool) -> None:
        """End all workers: with `kill` at once, discarding running trials; otherwise when their trials have ended.

        `wait` still returns the trials that end during the shutdown.
        """
        if kill:
            self._coordinator.kill()
        else:
            self._coordinator.drain()
        self._finalizer.detach()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.shutdown(kill=kind is not None)
