"""Dask: trials as tasks of a distributed Client."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from bohb.core.trial import Outcome
from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines.engine import AnswerFuture, EngineBroken, settle
from bohb.executors.engines.task import Answer, Task, close_session, lost, run
from bohb.executors.evaluate import attempt
from bohb.executors.options import Resources

try:
    from distributed import Client, get_worker
    from distributed import Future as DaskFuture
    from distributed.client import ClosedClientError
except ImportError as error:
    raise MissingExtra(f"executor='dask://…' needs Dask ({error}): {install_hint('dask')}") from error

_CLOSE_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Entry:
    """One trial at Dask.

    execution: the execution that a worker has reported, which is unique even if Dask runs the task again.
    worker: the address of that worker.
    """

    key: str
    answer: AnswerFuture = field(default_factory=Future)
    future: DaskFuture[Answer] | None = None
    execution: str | None = None
    worker: str | None = None

    def lost(self, reason: str) -> Answer:
        """Return the answer of a task whose worker was lost; a trial that had not begun is not charged."""
        return {**lost(reason, charged=self.execution is not None), "place": self.worker}


class DaskEngine:
    """Trials as Dask tasks.

    client: belongs to the user unless `owned`.
    resources: passed to Dask as GPU, CPU and MEMORY, which `dask worker --resources` declares, and others by name.
    """

    local = False
    warm = True
    folder = None

    def __init__(self, client: Client, resources: Resources, owned: bool = False) -> None:
        if client.asynchronous:
            raise InvalidArgument(f"executor={client!r} must be a Client made without asynchronous=True")
        self._client, self._owned = client, owned
        asked = {"GPU": resources.whole_gpus, "CPU": resources.cpu, "MEMORY": resources.memory, **resources.others}
        self._resources = {name: amount for name, amount in asked.items() if amount}
        self._tasks: dict[str, _Entry] = {}  # by Dask key
        self._topic = f"bohb-{uuid.uuid4().hex}"
        client.subscribe_topic(self._topic, self._task_began)
        try:
            self._check_declared()
        except InvalidArgument:
            self.close("")
            raise

    @property
    def shortage(self) -> str | None:
        if self.slots(()):
            return None
        if self._client.status != "running":
            return "Dask's scheduler cannot be reached"
        workers = len(self._workers())
        asked = ", ".join(f"{name}={amount:g}" for name, amount in self._resources.items())
        return f"none of the {workers} Dask workers has {asked}" if workers else "Dask's scheduler has no workers"

    def slots(self, avoid: Collection[str]) -> int:
        """Return the number of threads of all workers, or of trials that their declared resources allow."""
        total = 0
        for address, worker in self._workers().items():
            declared = worker["resources"]
            allowed = (int(declared.get(name, 0) // amount) for name, amount in self._resources.items())
            total += 0 if address in avoid else min([int(worker["nthreads"]), *allowed])
        return total

    def submit(self, task: Task, avoid: Collection[str]) -> AnswerFuture:
        """Submit a trial without retries, because the runner starts lost trials again."""
        if self._client.status in ("closing", "closed"):
            raise EngineBroken("the Dask client has lost its scheduler; start a scheduler and workers again")
        entry = _Entry(f"bohb-{uuid.uuid4().hex}")
        self._tasks[entry.key] = entry
        workers = [name for name in self._workers() if name not in avoid] if avoid else []  # none means any
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")  # at most once for each worker
                entry.future = self._client.submit(
                    run_on_worker,
                    task,
                    self._topic,
                    entry.key,
                    key=entry.key,
                    pure=False,
                    retries=0,
                    resources=self._resources or None,
                    workers=workers or None,
                    allow_other_workers=bool(workers),  # if these have gone when the task could start
                )
        except ClosedClientError as error:
            del self._tasks[entry.key]
            raise EngineBroken("the Dask client was closed; make a new one") from error
        entry.future.add_done_callback(partial(self._fetch, entry))  # Dask calls it in a thread of its own
        return entry.answer

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Cancel these tasks; the scheduler informs their workers, where `run_on_worker` notices it."""
        wanted = set(futures)
        self._drop([entry for entry in list(self._tasks.values()) if entry.answer in wanted])

    def close(self, session_id: str) -> None:
        if self._client.status == "running":
            self._client.unsubscribe_topic(self._topic)
            self._client.run(close_session, session_id, on_error="ignore")
        if self._owned:
            self._client.close(timeout=_CLOSE_SECONDS)

    def _workers(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what the scheduler knows of its workers, by address."""
        connected = self._client.status == "running"  # it may have lost its scheduler
        return dict(self._client.scheduler_info(n_workers=-1)["workers"]) if connected else {}

    def _check_declared(self) -> None:
        """Raise InvalidArgument for a resource that no worker declares: Dask would wait for it for ever."""
        workers = self._workers().values()
        for name, amount in self._resources.items():
            if workers and not any(name in worker["resources"] for worker in workers):
                raise InvalidArgument(
                    f"resources ask Dask for {name}={amount:g}, but none of its {len(workers)} workers declares {name};"
                    f" start them with dask worker --resources '{name}=…'"
                )

    def _task_began(self, event: tuple[float, Mapping[str, str]]) -> None:
        """Record that a worker has begun a trial; if it began before, its first worker has died.

        Dask runs such a task again, in a directory that the dead worker may have left half written.
        """
        message = event[1]
        entry = self._tasks.get(message["key"])
        if entry is not None and entry.execution is None:
            entry.execution, entry.worker = message["execution"], message["worker"]
        elif entry is not None and entry.execution != message["execution"]:
            settle(entry.answer, entry.lost(f"its Dask worker has died, and {message['worker']} started it again"))
            self._drop([entry])

    def _drop(self, entries: list[_Entry]) -> None:
        for entry in entries:
            self._tasks.pop(entry.key, None)
            settle(entry.answer, lost("the task was cancelled", charged=False))
        loop, futures = self._client.loop, [entry.future for entry in entries if entry.future is not None]
        if self._client.status == "running" and loop is not None:
            loop.add_callback(self._client.cancel, futures, asynchronous=True, force=True)

    def _fetch(self, entry: _Entry, future: DaskFuture[Answer]) -> None:
        """Fetch the result of a task that has ended; an error of Dask means that its worker was lost."""
        if self._tasks.pop(entry.key, None) is not None:
            answer = attempt(future.result)
            settle(entry.answer, entry.lost(answer.error or "") if isinstance(answer, Outcome) else answer)


def run_on_worker(task: Task, topic: str, key: str) -> Answer:
    """Run a trial on a Dask worker: report that it has begun, and stop when it is cancelled."""
    worker = get_worker()
    worker.log_event(topic, {"key": key, "worker": worker.address, "execution": uuid.uuid4().hex})

    def cancelled() -> bool:
        state = worker.state.tasks.get(key)
        return state is None or state.state == "cancelled"

    return {**run(task, cancelled), "place": worker.address}


def connect(address: str) -> Client:
    """Return a client of the scheduler at dask://host:port, or of the one in dask:///path/scheduler.json."""
    rest = address.removeprefix("dask://")
    try:
        if rest.startswith("/"):
            return Client(scheduler_file=rest, set_as_default=False)
        return Client(f"tcp://{rest}", set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"executor={address!r} cannot be reached: {type(error).__name__}: {error}") from error
