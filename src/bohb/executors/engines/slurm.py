"""Slurm, through submitit: every trial is a job."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection
from concurrent.futures import Future
from functools import partial

from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines.engine import AnswerFuture, EngineBroken, settle
from bohb.executors.engines.task import Answer, Task, lost, run
from bohb.executors.evaluate import attempt
from bohb.executors.options import Resources

try:
    import submitit
except ImportError as error:
    raise MissingExtra(f"a submitit executor needs submitit ({error}): {install_hint('slurm')}") from error

_POLL_SECONDS = 0.2  # between two checks for the result files of jobs
_REASON_CHARACTERS = 500  # of submitit's error, which quotes the job's whole log
_WAITING = ("PENDING", "UNKNOWN")  # states of a job that has not begun
_LOCAL = (submitit.LocalExecutor, submitit.DebugExecutor)


class SubmititEngine:
    """Trials as jobs. A job takes seconds to start, so trials should take minutes or more.

    executor: belongs to the user; its folder must be shared with the machines that run the jobs.
    resources: passed to Slurm.
    """

    warm = False

    def __init__(self, executor: submitit.Executor, resources: Resources) -> None:
        resources.allow_only("Slurm", "cpu", "gpu", "memory")
        asked = {
            "cpus_per_task": math.ceil(resources.cpu or 0),
            "gpus_per_node": resources.whole_gpus,
            "mem_gb": math.ceil((resources.memory or 0) / 2**30),
        }
        wanted = {name: amount for name, amount in asked.items() if amount}
        if wanted and not isinstance(executor, submitit.AutoExecutor):
            raise InvalidArgument(
                f"resources= works with submitit.AutoExecutor only; set {', '.join(wanted)} with "
                f"update_parameters of {type(executor).__name__}"
            )
        if wanted:
            executor.update_parameters(**wanted)
        inner = getattr(executor, "_executor", executor)  # AutoExecutor wraps the one that it has chosen
        self.local = isinstance(inner, _LOCAL)
        self.folder = submitit.core.utils.JobPaths.get_first_id_independent_folder(executor.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._executor = executor
        self._jobs: dict[AnswerFuture, submitit.Job[Answer]] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="bohb-submitit", daemon=True)
        self._poller.start()

    @property
    def shortage(self) -> str | None:
        with self._lock:
            jobs = list(self._jobs.values())
        waiting = [job for job in jobs if not self.local and attempt(partial(getattr, job, "state")) in _WAITING]
        return f"all {len(jobs)} jobs wait in Slurm's queue" if waiting and len(waiting) == len(jobs) else None

    def slots(self, avoid: Collection[str]) -> int:  # noqa: ARG002 - not known either way
        raise InvalidArgument("a submitit executor has no limit on its jobs; give workers=, the number of jobs at once")

    def submit(self, task: Task, avoid: Collection[str]) -> AnswerFuture:  # noqa: ARG002 - Slurm chooses the machines
        future: AnswerFuture = Future()
        try:
            job = self._executor.submit(run, task)
        except (OSError, submitit.core.utils.FailedJobError) as error:
            raise EngineBroken(f"submitit could not submit a job: {error}") from error
        with self._lock:
            self._jobs[future] = job
        return future

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        with self._lock:
            jobs = [(future, self._jobs.pop(future, None)) for future in futures]
        for future, job in jobs:
            if job is not None:
                job.cancel(check=False)
                if self.local:
                    attempt(job.wait)
            settle(future, lost("the job was cancelled", charged=False))

    def close(self, session_id: str) -> None:  # noqa: ARG002 - a job ends with its trial
        self._closed.set()
        self._poller.join(5.0)

    def _poll(self) -> None:
        while not self._closed.wait(_POLL_SECONDS):
            with self._lock:
                jobs = list(self._jobs.items())
            for future, job in jobs:
                ended = attempt(job.done)
                if ended is True or isinstance(ended, Outcome):
                    result = attempt(job.result)
                    if isinstance(result, Outcome):
                        result = lost((result.error or "")[:_REASON_CHARACTERS], True)
                    settle(future, result)
                    with self._lock:
                        self._jobs.pop(future, None)
