"""Ray: trials as Ray tasks."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection
from typing import Any

from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines import task
from bohb.executors.engines.executor import AnswerFuture, EngineBroken
from bohb.executors.resources import Resources

try:
    import ray
except ImportError as error:
    raise MissingExtra(f"executor='ray://…' needs Ray ({error}): {install_hint('ray')}") from error


class RayEngine:
    """Trials as Ray tasks, without retries, because the runner starts lost trials again.

    address: ray://auto for the cluster that this machine belongs to, ray://host:port for a Ray Client server. If Ray
        is already connected, that connection is used and left open.
    resources: passed to Ray's scheduler; default: one CPU for each trial.
    """

    local = False
    warm = ready = True

    def __init__(self, address: str, resources: Resources) -> None:
        self._owned = not ray.is_initialized()
        if self._owned:
            _connect(address)
        self._needs = _ray_names(resources)
        options: dict[str, Any] = {"num_cpus": self._needs["CPU"], "num_gpus": resources.gpu, "max_retries": 0}
        if resources.memory is not None:
            options["memory"] = resources.memory
        self._run = ray.remote(task.run).options(**options, resources=dict(resources.others))
        self._refs: dict[AnswerFuture, Any] = {}
        try:
            self._check_declared()
        except InvalidArgument:
            self.close("")
            raise

    @property
    def slots(self) -> int:
        """Number of trials that fit into the cluster at the moment."""
        total = ray.cluster_resources() if ray.is_initialized() else {}
        return int(min(total.get(name, 0) // amount for name, amount in self._needs.items()))

    def submit(self, session: task.Session, body: dict[str, Any], payload: bytes | None) -> AnswerFuture:
        """Submit a trial to Ray."""
        if not ray.is_initialized():  # Ray would start a cluster of its own
            raise EngineBroken("Ray is not connected any more; connect again, or start a new cluster")
        try:
            ref = self._run.remote(session, body, payload)
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            raise EngineBroken(f"Ray takes no more tasks: {error}") from error
        future: AnswerFuture = ref.future()
        self._refs[future] = ref
        future.add_done_callback(lambda ended: self._refs.pop(ended, None))
        return future

    def cancel(self, futures: Collection[AnswerFuture]) -> None:
        """Cancel these tasks; a worker that has begun one is killed, and its child with it."""
        for future in list(futures):
            ref = self._refs.get(future)
            if ref is not None and ray.is_initialized():
                ray.cancel(ref, force=True)

    def close(self, session_id: str) -> None:  # noqa: ARG002 - children end with their workers, or when idle
        """Disconnect from the cluster, if this engine has connected."""
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


def _connect(address: str) -> None:
    where = address.removeprefix("ray://")
    try:
        ray.init("auto" if where == "auto" else address, log_to_driver=False, logging_level=logging.WARNING)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InvalidArgument(
            f"executor={address!r} cannot be reached: {error}; start a cluster with ray start --head"
        ) from error


def _ray_names(resources: Resources) -> dict[str, float]:
    asked = {"CPU": resources.cpu or 1, "GPU": resources.gpu, "memory": resources.memory, **resources.others}
    return {name: amount for name, amount in asked.items() if amount and amount < math.inf}
