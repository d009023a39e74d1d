"""Ray: trials as Ray tasks."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from typing import Any

from bohb.errors import InvalidArgument, MissingExtra, install_hint
from bohb.executors.engines import task
from bohb.executors.engines.executor import Answers, EngineBroken, Trouble
from bohb.executors.engines.order import Order
from bohb.executors.resources import Resources

try:
    import ray
except ImportError as error:
    raise MissingExtra(f"executor='ray://…' needs Ray ({error}): {install_hint('ray')}") from error

_SLOTS_SECONDS = 1.0  # how old the known size of the cluster may be


class RayEngine:
    """Trials as Ray tasks, without retries: starting a trial again is the runner's business.

    address: ray://auto for the cluster that this machine belongs to, ray://host:port for a Ray Client server. If Ray
        is connected already, that connection is used, and stays.
    resources: handed to Ray's scheduler; one CPU for each trial unless it says otherwise.
    """

    local = False
    warm = True

    def __init__(self, address: str, resources: Resources) -> None:
        self._owned = not ray.is_initialized()
        if self._owned:
            _connect(address)
        self._needs = _ray_names(resources)
        options: dict[str, Any] = {"num_cpus": self._needs["CPU"], "num_gpus": resources.gpu, "max_retries": 0}
        if resources.memory is not None:
            options["memory"] = resources.memory
        self._run = ray.remote(task.run).options(**options, resources=dict(resources.others))
        self._refs: dict[Answers, Any] = {}
        self._known: tuple[float, int] = (-_SLOTS_SECONDS, 0)
        try:
            self._check_declared()
        except InvalidArgument:
            self.close("")
            raise

    @property
    def slots(self) -> int:
        """How many trials fit into the cluster as it is now."""
        known, slots = self._known
        if time.monotonic() - known >= _SLOTS_SECONDS and ray.is_initialized():
            total = ray.cluster_resources()
            slots = int(min(total.get(name, 0) // amount for name, amount in self._needs.items()))
            self._known = time.monotonic(), slots
        return slots

    @property
    def trouble(self) -> Trouble | None:
        """Without its connection nothing can be done."""
        if ray.is_initialized():
            return None
        return Trouble("Ray is not connected any more; connect again", final=True)

    def submit(self, order: Order, body: dict[str, Any], payload: bytes | None) -> Answers:
        """Hand a trial to Ray."""
        try:
            ref = self._run.remote(order, body, payload)
        except (ConnectionError, ray.exceptions.RaySystemError) as error:
            raise EngineBroken(f"Ray takes no more tasks: {error}") from error
        future: Answers = ref.future()
        self._refs[future] = ref
        future.add_done_callback(lambda ended: self._refs.pop(ended, None))
        return future

    def cancel(self, futures: Collection[Answers]) -> None:
        """Take these tasks back; a worker that has begun is killed, and its child with it."""
        for future in list(futures):
            ref = self._refs.get(future)
            if ref is not None and ray.is_initialized():
                ray.cancel(ref, force=True)

    def close(self, session: str) -> None:  # noqa: ARG002 - the workers' children end with them, or when idle
        """Leave the cluster, if it was us who joined."""
        if self._owned:
            ray.shutdown()

    def _check_declared(self) -> None:
        """A resource that no node has would be waited for in silence."""
        total = ray.cluster_resources()
        for name, amount in self._needs.items():
            if total and total.get(name, 0) < amount:
                raise InvalidArgument(
                    f"resources ask Ray for {name}={amount:g} for each trial, but its cluster has "
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
