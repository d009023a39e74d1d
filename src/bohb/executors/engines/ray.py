"""Ray: trials as Ray tasks."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any

from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines.engine import AnswerFuture, EngineBroken, settle
from bohb.executors.engines.task import Answer, Task, lost, run
from bohb.executors.options import Resources

try:
    import ray
    from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn
except ImportError as error:
    raise MissingExtra(f"executor='ray://…' needs Ray ({error}): {install_hint('ray')}") from error

_NODE = "ray.io/node-id"  # the label of a node that has its id
_REASON_CHARACTERS = 500
# A trial may have caused these; all other errors are those of a node or of the cluster.
_OF_THE_WORKER = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)


class RayEngine:
    """Trials as Ray tasks, without retries, because the runner starts lost trials again.

    address: ray://auto for the cluster that this machine belongs to, ray://host:port for a Ray Client server. If Ray
        is already connected, that connection is used and left open.
    resources: passed to Ray's scheduler; default: one CPU for each trial.
    """

    local = False
    warm = True
    folder = None

    def __init__(self, address: str, resources: Resources) -> None:
        self._owned = not ray.is_initialized()
        if self._owned:
            where = "auto" if address == "ray://auto" else address
            try:
                ray.init(where, log_to_driver=False, logging_level=logging.WARNING)
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise InvalidArgument(
                    f"executor={address!r} cannot be reached: {error}; start a cluster with ray start --head"
                ) from error
        asked = {"CPU": resources.cpu or 1, "GPU": resources.number_of_gpus, "memory": resources.memory}
        asked |= resources.others
        self._needs = {name: amount for name, amount in asked.items() if amount and amount < math.inf}
        self._options: dict[str, Any] = {"num_cpus": self._needs["CPU"], "num_gpus": resources.gpu, "max_retries": 0}
        self._options["resources"] = dict(resources.others)
        if resources.memory is not None:
            self._options["memory"] = resources.memory
        self._run = ray.remote(run_on_node)
        self._refs: dict[AnswerFuture, Any] = {}
        try:
            self._check_declared()
        except InvalidArgument:
            self.close("")
            raise

    @property
    def shortage(self) -> str | None:
        asked = ", ".join(f"{name}={amount:g}" for name, amount in self._needs.items())
        return None if self.slots(()) else f"no node of the Ray cluster has {asked}"

    def slots(self, avoid: Collection[str]) -> int:  # noqa: ARG002 - Ray drops nodes that have died
        total = ray.cluster_resources() if ray.is_initialized() else {}
        return int(min(total.get(name, 0) // amount for name, amount in self._needs.items()))

    def submit(self, task: Task, avoid: Collection[str]) -> AnswerFuture:
        if not ray.is_initialized():  # Ray would start a cluster of its own
            raise EngineBroken("Ray is not connected any more; connect again, or start a new cluster")
        options = self._options | ({"num_gpus": 1} if task.alone else {})
        if avoid:  # run elsewhere, if there are other nodes
            options["scheduling_strategy"] = NodeLabelSchedulingStrategy({}, soft={_NODE: NotIn(*avoid)})
        try:
            ref = self._run.options(**options).remote(task)
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            raise EngineBroken(f"Ray takes no more tasks: {error}") from error
        answer: AnswerFuture = Future()
        self._refs[answer] = ref
        ref.future().add_done_callback(lambda ended: self._settle(answer, ended))
        return answer

    def _settle(self, answer: AnswerFuture, ended: AnswerFuture) -> None:
        self._refs.pop(answer, None)
        error = None if ended.cancelled() else ended.exception()
        if ended.cancelled():
            settle(answer, lost("Ray cancelled the task", charged=False))
        elif error is not None:
            charged = isinstance(error, _OF_THE_WORKER)
            settle(answer, lost(f"{type(error).__name__}: {error}"[:_REASON_CHARACTERS], charged))
        else:
            settle(answer, ended.result())

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Cancel these tasks; a worker that has begun one is killed, and its child with it."""
        for future in list(futures):
            ref = self._refs.get(future)
            if ref is not None and ray.is_initialized():
                ray.cancel(ref, force=True)

    def close(self, session_id: str) -> None:  # noqa: ARG002 - children end with their workers, or when idle
        if self._owned:
            ray.shutdown()

    def _check_declared(self) -> None:
        """Raise InvalidArgument for resources that the cluster does not have: Ray would wait for them for ever."""
        total = ray.cluster_resources()
        for name, amount in self._needs.items():
            if total and total.get(name, 0) < amount:
                raise InvalidArgument(
                    f"resources ask Ray for {name}={amount:g} for each trial, but the cluster has "
                    f"{total.get(name, 0):g} in all; ask for less, or add a node that has it"
                )


def run_on_node(task: Task) -> Answer:
    """Run a trial on a Ray worker, and name the node."""
    return {**run(task), "place": ray.get_runtime_context().get_node_id()}
