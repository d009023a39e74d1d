"""Slurm, by submitit: every trial is a job of its own."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from concurrent.futures import Future, InvalidStateError
from typing import Any

from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines import task
from bohb.executors.engines.executor import Answer, Answers, EngineBroken, Trouble
from bohb.executors.engines.order import Order
from bohb.executors.evaluate import attempt
from bohb.executors.resources import Resources

try:
    import submitit
except ImportError as error:
    raise MissingExtra(f"a submitit executor needs submitit ({error}): {install_hint('slurm')}") from error

_POLL_SECONDS = 0.2  # between two looks at the files by which jobs answer
_REASON_CHARACTERS = 500  # of submitit's error, which quotes the job's whole log
_LOCAL = (submitit.LocalExecutor, submitit.DebugExecutor)


class SubmititEngine:
    """Trials as jobs. A queue takes its time: this is for trials of minutes and more.

    executor: stays the user's; its folder must be shared with the machines that run the jobs.
    resources: handed to Slurm.
    """

    warm = False

    def __init__(self, executor: submitit.Executor, resources: Resources) -> None:
        inner = getattr(executor, "_executor", executor)  # AutoExecutor hides the one it has chosen
        self.local = isinstance(inner, _LOCAL)
        self._executor = executor
        _hand_over(executor, resources)
        self._jobs: dict[Answers, submitit.Job[Answer]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="bohb-submitit", daemon=True)
        self._poller.start()

    @property
    def slots(self) -> int:
        """Slurm queues without end: the user says how many jobs there may be."""
        raise InvalidArgument("a submitit executor queues without end; say with workers= how many jobs may be at once")

    @property
    def trouble(self) -> Trouble | None:
        """Slurm itself is asked by commands, which fail or do not."""
        return None

    def submit(self, order: Order, body: dict[str, Any], payload: bytes | None) -> Answers:
        """Queue a job."""
        future: Answers = Future()
        try:
            job = self._executor.submit(task.run, order, body, payload)
        except (OSError, submitit.core.utils.FailedJobError) as error:
            raise EngineBroken(f"submitit could not queue a job: {error}") from error
        with self._lock:
            self._jobs[future] = job
        return future

    def cancel(self, futures: Collection[Answers]) -> None:
        """scancel."""
        with self._lock:
            jobs = [(future, self._jobs.pop(future, None)) for future in futures]
        for future, job in jobs:
            if job is not None:
                job.cancel(check=False)
                if self.local:
                    attempt(job.wait)
            _settle(future, {"lost": "the job was cancelled"})

    def close(self, session: str) -> None:  # noqa: ARG002 - a job ends with its trial
        """Stop looking for answers."""
        self._closed.set()
        self._poller.join(5.0)

    def _poll(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            with self._lock:
                jobs = list(self._jobs.items())
            for future, job in jobs:
                ended = attempt(job.done)
                if ended is True or isinstance(ended, Outcome):
                    _settle(future, attempt(job.result))
                    with self._lock:
                        self._jobs.pop(future, None)


def _settle(future: Answers, answer: Answer | Outcome) -> None:
    if isinstance(answer, Outcome):
        answer = {"lost": (answer.error or "")[:_REASON_CHARACTERS]}
    try:
        future.set_result(answer)
    except InvalidStateError:
        pass  # it was settled before


def _hand_over(executor: submitit.Executor, resources: Resources) -> None:
    """Ask Slurm for what each trial needs."""
    resources.only("Slurm", "cpu", "gpu", "memory")
    wanted: dict[str, Any] = {}
    if resources.cpu is not None:
        wanted["cpus_per_task"] = math.ceil(resources.cpu)
    if resources.gpu:
        wanted["gpus_per_node"] = resources.whole_gpus
    if resources.memory is not None:
        wanted["mem_gb"] = math.ceil(resources.memory / 2**30)
    if not wanted:
        return
    if not isinstance(executor, submitit.AutoExecutor):
        raise InvalidArgument(
            f"resources are handed on by submitit.AutoExecutor only; set {', '.join(wanted)} with "
            f"update_parameters of {type(executor).__name__}"
        )
    executor.update_parameters(**wanted)
